//! The checks and tools of the project: `cargo xtask --help` lists them, `cargo xtask ci` runs every check.

mod bare_metal;
mod bench;
mod ci;
mod coverage;
mod defmt;
mod deps;
mod doc;
mod examples;
mod features;
mod firmware;
mod fmt;
mod fuzz;
mod lint;
mod loom;
mod mutants;
mod names;
mod no_panic;
mod no_std;
mod process;
mod publish;
mod size;
mod test;
mod tidy;
mod tools;
mod tree;
mod tsan;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The checks and tools of forbear.
///
/// The stages fmt, tidy, tree, lint, test, doc and features need cargo alone. Every other command says what it needs, and
/// installs cargo's tools itself. Debian's packages are installed only for root, and only with --install or where the
/// variable CI is set.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    /// Install missing Debian packages with apt-get (as root; implied where the variable CI is set)
    #[arg(long, global = true)]
    install: bool,
    #[command(subcommand)]
    task: Task,
}

/// One command. To add one: a file, a variant here and its arm below; to make it a stage: a word in `ci.rs`.
#[derive(Subcommand)]
enum Task {
    Ci(ci::Args),
    Fmt(fmt::Args),
    Tidy(tidy::Args),
    Tree(tree::Args),
    Lint(lint::Args),
    Test(test::Args),
    Doc(doc::Args),
    Examples(examples::Args),
    Features(features::Args),
    NoStd(no_std::Args),
    NoPanic(no_panic::Args),
    Defmt(defmt::Args),
    Firmware(firmware::Args),
    Size(size::Args),
    Publish(publish::Args),
    Deps(deps::Args),
    Loom(loom::Args),
    Tsan(tsan::Args),
    Fuzz(fuzz::Args),
    Coverage(coverage::Args),
    Mutants(mutants::Args),
    Bench(bench::Args),
}

impl Task {
    fn run(self) -> Result<()> {
        match self {
            Task::Ci(args) => ci::run(&args),
            Task::Fmt(args) => fmt::run(&args),
            Task::Tidy(args) => tidy::run(&args),
            Task::Tree(args) => tree::run(&args),
            Task::Lint(args) => lint::run(&args),
            Task::Test(args) => test::run(&args),
            Task::Doc(args) => doc::run(&args),
            Task::Examples(args) => examples::run(&args),
            Task::Features(args) => features::run(&args),
            Task::NoStd(args) => no_std::run(&args),
            Task::NoPanic(args) => no_panic::run(&args),
            Task::Defmt(args) => defmt::run(&args),
            Task::Firmware(args) => firmware::run(&args),
            Task::Size(args) => size::run(&args),
            Task::Publish(args) => publish::run(&args),
            Task::Deps(args) => deps::run(&args),
            Task::Loom(args) => loom::run(&args),
            Task::Tsan(args) => tsan::run(&args),
            Task::Fuzz(args) => fuzz::run(&args),
            Task::Coverage(args) => coverage::run(&args),
            Task::Mutants(args) => mutants::run(&args),
            Task::Bench(args) => bench::run(&args),
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    tools::allow_debian_packages(cli.install);
    match cli.task.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
