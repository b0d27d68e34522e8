//! Running other programs: shown before they run, and an error where they fail.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Cargo of the toolchain that runs this program, at the root of the workspace.
pub(crate) fn cargo(subcommand: &str) -> Command {
    program("cargo", [subcommand])
}

/// A program at the root of the workspace.
pub(crate) fn program<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(workspace::root()).args(args);
    command
}

/// Ways to run a [`Command`] to its end; each is an error unless it exits with success.
pub(crate) trait Run {
    /// Shows the command and runs it; its output goes to the terminal.
    fn run(&mut self) -> Result<()>;

    /// Runs it quietly and returns its standard output.
    fn read(&mut self) -> Result<String>;

    /// Shows the command and runs it; its standard output goes to the terminal, line by line, and is returned too, with
    /// whether the command succeeded.
    fn watch(&mut self) -> Result<(String, bool)>;
}

impl Run for Command {
    fn run(&mut self) -> Result<()> {
        eprintln!("$ {}", shown(self));
        let status = self.status().with_context(|| format!("cannot start {}", shown(self)))?;
        if !status.success() {
            bail!("`{}` failed ({status})", shown(self));
        }
        Ok(())
    }

    fn read(&mut self) -> Result<String> {
        let output = self.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {}", shown(self)))?;
        if !output.status.success() {
            bail!("`{}` failed ({})", shown(self), output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn watch(&mut self) -> Result<(String, bool)> {
        eprintln!("$ {}", shown(self));
        let mut child = self.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", shown(self)))?;
        let stdout = child.stdout.take().context("the output was piped")?;
        let mut kept = String::new();
        for line in BufReader::new(stdout).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            kept.push_str(&line);
            kept.push('\n');
        }
        Ok((kept, child.wait()?.success()))
    }
}

/// The command as one would type it: variables that it sets, program, arguments.
pub(crate) fn shown(command: &Command) -> String {
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy()))));
    let words = core::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_+=./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

#[cfg(test)]
mod tests {
    use super::{Run, program, shown};

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = program("cargo", ["doc", "--no-deps"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn a_failure_and_a_missing_program_are_errors() {
        let failed = program("cargo", ["--no-such-flag"]).stderr(std::process::Stdio::null()).run();
        assert!(failed.unwrap_err().to_string().contains("`cargo --no-such-flag` failed"));
        let missing = program("no-such-program", []).read();
        assert!(missing.unwrap_err().to_string().contains("cannot start no-such-program"));
    }

    #[test]
    fn watched_output_is_kept() {
        let (output, succeeded) = program("cargo", ["--version"]).watch().unwrap();
        assert!(succeeded && output.starts_with("cargo "));
    }
}
