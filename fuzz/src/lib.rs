//! The bodies of the fuzz targets: any bytes are a run, and a panic is a find.
//!
//! What a run must hold to is in `forbear_conformance`: its oracle, and the invariants, one function each. The tests here
//! replay the seeds without a fuzzer, on any compiler.

mod retry_after;

pub use forbear_conformance::exercise::{atomic_window, combined, config, overload_client, retrying_client, window};
pub use retry_after::retry_after;

/// A target: its name, which is that of its binary and of its folder of seeds, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 7] = [
    ("window", window),
    ("atomic_window", atomic_window),
    ("overload_client", overload_client),
    ("retrying_client", retrying_client),
    ("combined", combined),
    ("config", config),
    ("retry_after", retry_after),
];

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{fs, panic};

    use super::TARGETS;

    #[test]
    fn every_seed_passes() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
        for (target, body) in TARGETS {
            let mut replayed = 0;
            for seed in fs::read_dir(seeds.join(target)).expect("a target has a folder of seeds") {
                let path = seed.unwrap().path();
                let bytes = fs::read(&path).unwrap();
                assert!(panic::catch_unwind(|| body(&bytes)).is_ok(), "{}", path.display());
                replayed += 1;
            }
            assert!(replayed > 0, "{target} has no seeds");
        }
    }

    #[test]
    fn every_target_is_a_binary() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let binaries = fs::read_dir(root.join("fuzz_targets")).unwrap();
        let mut names: Vec<_> =
            binaries.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
        let mut targets = TARGETS.map(|(name, _)| name.to_owned());
        names.sort();
        targets.sort();
        assert_eq!(names, targets);
    }
}
