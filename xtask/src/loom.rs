//! `cargo xtask loom`: models of the lock-free code, run under every order of the threads that loom explores.

use anyhow::{Result, bail};

use crate::process::{Run, cargo};
use crate::workspace;

/// Run the models of each integration test named `loom`, and list them with their numbers of executions
///
/// A model says after its last execution, on a line of its own: `model NAME: N executions`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only models whose test has this in its name
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let packages = workspace::packages_with_test("loom")?;
    if packages.is_empty() {
        bail!("no package has an integration test named loom");
    }
    let mut models = Vec::new();
    let mut failed = Vec::new();
    for package in packages {
        let mut command = cargo("test");
        // The flag reaches every dependency, so these builds have a folder of their own. Optimised, with assertions.
        command.env("RUSTFLAGS", "--cfg loom").arg("--target-dir").arg(workspace::target_folder("loom"));
        command.args(["--profile", "checked", "--package", &package, "--test", "loom", "--", "--nocapture"]);
        command.args(&args.filter);
        let (output, succeeded) = command.watch()?;
        models.extend(executions(&output));
        if !succeeded {
            failed.push(package);
        }
    }
    models.sort();
    let width = models.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    println!("\n{:width$}  executions", "model");
    for (name, executions) in &models {
        println!("{name:width$}  {executions:10}");
    }
    if !failed.is_empty() {
        bail!("models failed in {}", failed.join(", "));
    }
    if models.is_empty() {
        bail!("no model ran");
    }
    Ok(())
}

/// Reads `model NAME: N executions`, also behind what the test runner has left on the line.
fn executions(output: &str) -> Vec<(String, u64)> {
    let of_line = |line: &str| {
        let (_, model) = line.split_once("model ")?;
        let (name, number) = model.split_once(": ")?;
        let number = number.trim_end().strip_suffix(" executions").or(number.trim_end().strip_suffix(" execution"))?;
        Some((name.to_owned(), number.replace(['_', ','], "").parse().ok()?))
    };
    output.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::executions;

    #[test]
    fn models_are_read_among_the_runners_lines() {
        let output = "running 2 tests\n\
            model record_record: 1024 executions\n\
            test roll_over ... model roll_over: 1 execution\n\
            the model was fine: not a number executions\n\
            test result: ok. 2 passed; 0 failed\n";
        assert_eq!(executions(output), [("record_record".to_owned(), 1024), ("roll_over".to_owned(), 1)]);
    }
}
