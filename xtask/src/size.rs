//! `cargo xtask size`: what a policy costs a device in flash and RAM, and that it brings neither a path to a panic nor
//! floating point.

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
const PAGE: &str = "docs/size.md";

/// What must not come in with the policy, as it stands in mangled names.
const PANICS: [&str; 4] = ["9panicking", "4core3fmt", "13expect_failed", "13unwrap_failed"];
const FLOATS: [&str; 3] = ["compiler_builtins5float", "__aeabi_d", "__aeabi_f"];

/// What a policy may cost at level z: flash over the base program for each of the targets, then RAM.
const FLASH: [(&str, u64); 2] = [("thumbv6m-none-eabi", 4_608), ("thumbv7m-none-eabi", 4_096)];
const CLIENT: u64 = 1_600;
const COMPACT_CLIENT: u64 = 880;
const CALL: u64 = 160;

/// Measure flash and RAM of a policy on devices, hold both to their bounds, and look for panics and floating point
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
    let mut memory = BTreeSet::new();
    let mut faults = BTreeSet::new();
    for target in TARGETS {
        let mut levels = Map::new();
        for level in LEVELS {
            let programs = Programs::build(target, level)?;
            faults.extend(programs.unwanted());
            if programs.backon.floats.is_empty() {
                bail!("backon has floating point for {target}, and it is not seen");
            }
            faults.extend(programs.over_bounds(target, level));
            table.push_str(&programs.row(target, level));
            memory.insert(programs.memory());
            levels.insert(level.to_owned(), programs.json());
        }
        figures.insert(target.to_owned(), Value::Object(levels));
    }
    println!("{table}");
    memory.iter().for_each(|rows| println!("{rows}"));
    if let Some(file) = &args.json {
        fs::write(file, format!("{:#}\n", Value::Object(figures)))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let page = workspace::root().join(PAGE);
    let text = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    if memory.iter().any(|rows| !text.contains(rows.as_str())) {
        faults.insert(format!("{PAGE} does not say what is measured here of RAM"));
    }
    if !faults.is_empty() {
        bail!("{}", faults.into_iter().collect::<Vec<_>>().join("\n"));
    }
    println!("all within bounds, and no panic, no formatting and no floating point comes with the policy");
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
    floats: BTreeSet<String>,
}

impl Image {
    fn flash(&self) -> u64 {
        self.text + self.data
    }
}

/// The programs, which differ by what retries their calls.
struct Programs {
    base: Image,
    /// Retries, budget, throttle and backoff, of a constant configuration.
    policy: Image,
    /// The same over the compact window.
    compact: Image,
    /// All that `resilient` has, of a constant configuration.
    resilient: Image,
    /// The same, configured at run time.
    configured: Image,
    backon: Image,
}

impl Programs {
    fn build(target: &str, level: &str) -> Result<Self> {
        let mut command = bare_metal::cargo("build", target)?;
        command
            .current_dir(workspace::root().join(FOLDER))
            .args(["--release", "--locked", "--package", "forbear-size", "--config"])
            .arg(format!("profile.release.opt-level=\"{level}\""));
        command.run()?;
        let folder = workspace::target_folder("bare-metal").join(target).join("release");
        let measure = |name| measure(&folder.join(name));
        let programs = Self {
            base: measure("base")?,
            policy: measure("policy")?,
            compact: measure("compact")?,
            resilient: measure("resilient")?,
            configured: measure("configured")?,
            backon: measure("backon")?,
        };
        if programs.base.task == 0 || programs.protected().iter().any(|image| image.client == 0) {
            bail!("the programs for {target} have no symbols for their client and their task");
        }
        Ok(programs)
    }

    fn protected(&self) -> [&Image; 4] {
        [&self.policy, &self.compact, &self.resilient, &self.configured]
    }

    /// Paths to a panic, formatting and floating point that the base does not have.
    fn unwanted(&self) -> impl Iterator<Item = String> {
        let base = &self.base;
        self.protected()
            .into_iter()
            .flat_map(|image| image.panics.difference(&base.panics).chain(image.floats.difference(&base.floats)))
            .map(|symbol| format!("with the policy comes {symbol}"))
    }

    fn flash_over_base(&self, image: &Image) -> i64 {
        image.flash() as i64 - self.base.flash() as i64
    }

    /// What `call` adds to the future of its send.
    fn call(&self) -> i64 {
        self.policy.task as i64 - self.base.task as i64
    }

    fn over_bounds(&self, target: &str, level: &str) -> Vec<String> {
        let flash = FLASH.into_iter().find(|(name, _)| *name == target && level == "z").map(|(_, most)| most);
        let measures = [
            ("flash of the policy", self.flash_over_base(&self.policy), flash),
            ("RAM of a client", self.policy.client as i64, Some(CLIENT)),
            ("RAM of a client over the compact window", self.compact.client as i64, Some(COMPACT_CLIENT)),
            ("RAM that a call adds", self.call(), Some(CALL)),
        ];
        measures
            .into_iter()
            .filter_map(|(what, bytes, most)| Some((what, bytes, most?)))
            .filter(|&(_, bytes, most)| bytes > most as i64)
            .map(|(what, bytes, most)| format!("{target}, level {level}: {what} is {bytes} bytes, allowed: {most}"))
            .collect()
    }

    fn row(&self, target: &str, level: &str) -> String {
        let over = |image| self.flash_over_base(image);
        format!(
            "| {target} | {level} | {} | +{} | +{} | +{} | +{} | +{} |\n",
            self.base.flash(),
            over(&self.policy),
            over(&self.compact),
            over(&self.resilient),
            over(&self.configured),
            over(&self.backon),
        )
    }

    /// The rows about RAM, which is the same wherever a pointer has 32 bits.
    fn memory(&self) -> String {
        format!(
            "| client, window of 120 seconds, `u32` counters | {} |\n\
             | client, window of 120 seconds, `u16` counters (compact) | {} |\n\
             | client configured at run time, `u32` counters | {} |\n\
             | what `call` adds to the future of its send | {} |\n",
            self.policy.client,
            self.compact.client,
            self.configured.client,
            self.call(),
        )
    }

    /// What each adds to the base.
    fn json(&self) -> Value {
        let text = |image: &Image| image.text as i64 - self.base.text as i64;
        let data = |image: &Image| image.data as i64 - self.base.data as i64;
        let bss = |image: &Image| image.bss as i64 - self.base.bss as i64;
        json!({
            "base_text": self.base.text,
            "policy_text": text(&self.policy),
            "policy_data": data(&self.policy),
            "policy_bss": bss(&self.policy),
            "compact_text": text(&self.compact),
            "compact_bss": bss(&self.compact),
            "resilient_text": text(&self.resilient),
            "resilient_bss": bss(&self.resilient),
            "configured_text": text(&self.configured),
            "configured_bss": bss(&self.configured),
            "client_ram": self.policy.client,
            "compact_client_ram": self.compact.client,
            "configured_client_ram": self.configured.client,
            "call_ram": self.call(),
            "backon_text": text(&self.backon),
        })
    }
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
        } else if symbol.is_definition() && FLOATS.iter().any(|float| name.contains(float)) {
            image.floats.insert(name.to_owned());
        }
    }
    Ok(image)
}

const HEAD: &str = "\
| target | level | base | policy | policy, compact window | resilient | resilient, configured at run time | backon |
|---|---|---|---|---|---|---|---|";

#[cfg(test)]
mod tests {
    use super::{Image, Programs};

    fn image(text: u64, bss: u64, client: u64, task: u64) -> Image {
        Image { text, bss, client, task, ..Image::default() }
    }

    fn programs() -> Programs {
        Programs {
            base: image(5_000, 256, 0, 96),
            policy: image(9_000, 2_000, 1_600, 256),
            compact: image(8_900, 1_200, 880, 256),
            resilient: image(10_000, 2_000, 1_600, 256),
            configured: image(11_000, 2_100, 1_700, 256),
            backon: image(9_100, 400, 0, 300),
        }
    }

    #[test]
    fn figures_are_differences_to_the_base() {
        let figures = programs().json();
        assert_eq!((figures["policy_text"].as_i64(), figures["policy_bss"].as_i64()), (Some(4_000), Some(1_744)));
        assert_eq!(programs().row("t", "z"), "| t | z | 5000 | +4000 | +3900 | +5000 | +6000 | +4100 |\n");
    }

    #[test]
    fn what_is_over_a_bound_is_named() {
        let mut programs = programs();
        assert_eq!(programs.over_bounds("thumbv7m-none-eabi", "z"), Vec::<String>::new());
        programs.policy = image(9_097, 2_000, 1_601, 257);
        programs.compact.client = 881;
        assert_eq!(programs.over_bounds("thumbv7m-none-eabi", "z").len(), 4);
        assert_eq!(
            programs.over_bounds("thumbv6m-none-eabi", "s")[0],
            "thumbv6m-none-eabi, level s: RAM of a client is 1601 bytes, allowed: 1600"
        );
    }
}
