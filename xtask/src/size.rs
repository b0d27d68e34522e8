//! `cargo xtask size`: what a policy costs a device in flash and RAM, and that it brings no path to a panic.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind};
use serde_json::{Map, Value, json};

use crate::process::Run;
use crate::{bare_metal, workspace};

const TARGETS: [&str; 2] = ["thumbv6m-none-eabi", "thumbv7m-none-eabi"];
const LEVELS: [&str; 2] = ["z", "s"];
const FOLDER: &str = "crates/forbear-embassy/firmware";

/// What must not come in with the policy, as it stands in mangled names.
const PANICS: [&str; 4] = ["9panicking", "4core3fmt", "13expect_failed", "13unwrap_failed"];

/// Measure flash and RAM of a policy on devices, and look for paths to a panic
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the figures to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    bare_metal::prepare(&TARGETS)?;
    let mut figures = Map::new();
    let mut table = format!("{HEAD}\n");
    let mut panics = BTreeSet::new();
    for target in TARGETS {
        let mut levels = Map::new();
        for level in LEVELS {
            let [base, policy, compact, backon] = build(target, level)?;
            for image in [&policy, &compact] {
                panics.extend(image.panics.difference(&base.panics).cloned());
            }
            table.push_str(&row(target, level, &base, &policy, &compact, &backon));
            levels.insert(level.to_owned(), json(&base, &policy, &compact, &backon));
        }
        figures.insert(target.to_owned(), Value::Object(levels));
    }
    print!("{table}");
    if let Some(file) = &args.json {
        fs::write(file, format!("{:#}\n", Value::Object(figures)))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if !panics.is_empty() {
        bail!("with the policy comes {}", panics.into_iter().collect::<Vec<_>>().join(", "));
    }
    println!("no panic and no formatting comes with the policy");
    Ok(())
}

/// One program.
#[derive(Debug, Default)]
struct Image {
    text: u64,
    data: u64,
    bss: u64,
    /// The static that holds the client.
    client: u64,
    /// The static that holds the future of the task.
    task: u64,
    panics: BTreeSet<String>,
}

/// Builds all programs, and measures base, policy, compact and backon.
fn build(target: &str, level: &str) -> Result<[Image; 4]> {
    let mut command = bare_metal::cargo("build", target)?;
    command
        .current_dir(workspace::root().join(FOLDER))
        .args(["--release", "--locked", "--package", "forbear-size", "--config"])
        .arg(format!("profile.release.opt-level=\"{level}\""));
    command.run()?;
    let folder = workspace::target_folder("bare-metal").join(target).join("release");
    let measure = |name| measure(&folder.join(name));
    let images = [measure("base")?, measure("policy")?, measure("compact")?, measure("backon")?];
    let [base, policy, compact, _] = &images;
    if base.task == 0 || policy.client == 0 || compact.client == 0 {
        bail!("the programs for {target} have no symbols for their client and their task");
    }
    Ok(images)
}

fn measure(path: &Path) -> Result<Image> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let elf = object::File::parse(&*bytes).with_context(|| format!("cannot read {}", path.display()))?;
    let mut image = Image::default();
    for section in elf.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        if !sh_flags.contains(object::elf::SHF_ALLOC) {
            continue;
        }
        let writable = sh_flags.contains(object::elf::SHF_WRITE);
        match section.kind() {
            SectionKind::UninitializedData => image.bss += section.size(),
            _ if writable => image.data += section.size(),
            _ => image.text += section.size(),
        }
    }
    for symbol in elf.symbols() {
        let name = symbol.name()?;
        if name.contains("3API") {
            image.client += symbol.size();
        } else if name.contains("4POOL") {
            image.task += symbol.size();
        } else if symbol.is_definition() && PANICS.iter().any(|panic| name.contains(panic)) {
            image.panics.insert(name.to_owned());
        }
    }
    Ok(image)
}

const HEAD: &str = "\
| target | level | base | policy | policy, compact window | backon | client | client, compact | a call adds |
|---|---|---|---|---|---|---|---|---|";

fn row(target: &str, level: &str, base: &Image, policy: &Image, compact: &Image, backon: &Image) -> String {
    let flash = |image: &Image| image.text + image.data;
    let over = |image: &Image| flash(image) as i64 - flash(base) as i64;
    format!(
        "| {target} | {level} | {} | +{} | +{} | +{} | {} | {} | {} |\n",
        flash(base),
        over(policy),
        over(compact),
        over(backon),
        policy.client,
        compact.client,
        policy.task as i64 - base.task as i64,
    )
}

/// Policy and backon as what they add to the base.
fn json(base: &Image, policy: &Image, compact: &Image, backon: &Image) -> Value {
    let over = |image: &Image| image.text as i64 - base.text as i64;
    json!({
        "base_text": base.text,
        "policy_text": over(policy),
        "policy_data": policy.data as i64 - base.data as i64,
        "policy_bss": policy.bss as i64 - base.bss as i64,
        "compact_text": over(compact),
        "compact_bss": compact.bss as i64 - base.bss as i64,
        "client_ram": policy.client,
        "compact_client_ram": compact.client,
        "call_ram": policy.task as i64 - base.task as i64,
        "backon_text": over(backon),
    })
}

#[cfg(test)]
mod tests {
    use super::{Image, json, row};

    #[test]
    fn figures_are_differences_to_the_base() {
        let image = |text, bss, client, task| Image { text, bss, client, task, ..Image::default() };
        let (base, policy) = (image(5_000, 256, 0, 96), image(9_000, 2_000, 1_600, 256));
        let (compact, backon) = (image(8_900, 1_200, 880, 256), image(9_100, 400, 0, 300));
        let figures = json(&base, &policy, &compact, &backon);
        assert_eq!((figures["policy_text"].as_i64(), figures["policy_bss"].as_i64()), (Some(4_000), Some(1_744)));
        assert_eq!(
            row("t", "z", &base, &policy, &compact, &backon),
            "| t | z | 5000 | +4000 | +3900 | +4100 | 1600 | 880 | 160 |\n"
        );
    }
}
