//! The laboratory of forbear: what retrying clients do to an overloaded backend, and what forbear does instead.
#![allow(clippy::std_instead_of_core, clippy::std_instead_of_alloc, reason = "a program, on std throughout")]

mod fleet;
mod picture;
mod storm;

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "forbear-lab", about, version, propagate_version = true, arg_required_else_help = true)]
enum Command {
    Storm(Box<storm::Args>),
    Fleet(Box<fleet::Args>),
}

/// What a wrong command line exits with.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(help) if !help.use_stderr() => help.exit(),
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        Err(error) => {
            eprintln!("{}", one_line(&error.to_string()));
            return ExitCode::from(USAGE);
        }
    };
    let ran = match command {
        Command::Storm(args) => storm::run(*args).map_err(|failure| (failure.is_usage(), failure.to_string())),
        Command::Fleet(args) => fleet::run(&args).map_err(|failure| (failure.is_usage(), failure.to_string())),
    };
    ran.unwrap_or_else(|(usage, failure)| {
        eprintln!("error: {failure}");
        ExitCode::from(if usage { USAGE } else { 1 })
    })
}

/// What clap has to say, without the usage that follows its first paragraph.
fn one_line(message: &str) -> String {
    let paragraph = message.split("\n\n").next().unwrap_or(message);
    let words: Vec<_> = paragraph.split_whitespace().collect();
    format!("{} (see --help)", words.join(" "))
}
