//! `cargo xtask test`: every test of the workspace, doctests included.

use anyhow::{Result, bail};

use crate::process::{Run, cargo};

/// Run all tests and doctests, and print the totals
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to pass on to cargo test, such as `-p forbear window`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pass: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = cargo("test");
    // Cargo takes no notice of a package that stands beside the whole workspace.
    if !names_packages(&args.pass) {
        command.arg("--workspace");
    }
    command.args(["--all-features", "--no-fail-fast"]).args(&args.pass);
    let (output, succeeded) = command.watch()?;
    let totals = totals(&output);
    println!("tests: {} passed, {} failed, {} ignored", totals.passed, totals.failed, totals.ignored);
    if !succeeded {
        bail!("the tests failed");
    }
    if totals.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// Whether packages are named, before what is for the test programs.
fn names_packages(pass: &[String]) -> bool {
    let mut words = pass.iter().take_while(|word| *word != "--");
    words.any(|word| word.starts_with("-p") || word.split('=').next() == Some("--package"))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Adds up the lines `test result: ok. 5 passed; 0 failed; 1 ignored; ...`, one for each test program.
fn totals(output: &str) -> Totals {
    let mut totals = Totals::default();
    for line in output.lines() {
        let Some(result) = line.strip_prefix("test result: ") else {
            continue;
        };
        let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let count = || pair[0].parse().unwrap_or(0);
            match pair[1] {
                "passed" => totals.passed += count(),
                "failed" => totals.failed += count(),
                "ignored" => totals.ignored += count(),
                _ => {}
            }
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::{Totals, names_packages, totals};

    #[test]
    fn packages_are_found_before_what_is_passed_on() {
        let names = |line: &str| names_packages(&line.split(' ').map(String::from).collect::<Vec<_>>());
        for line in ["-p forbear window", "-pforbear", "window --package forbear", "--package=forbear"] {
            assert!(names(line), "{line}");
        }
        for line in ["window", "--lib window", "window -- -p"] {
            assert!(!names(line), "{line}");
        }
    }

    #[test]
    fn totals_are_summed_over_the_test_programs() {
        let output = "running 2 tests\ntest a ... ok\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 40 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.20s\n";
        assert_eq!(totals(output), Totals { passed: 42, failed: 3, ignored: 1 });
        assert_eq!(totals("error: could not compile"), Totals::default());
    }
}
