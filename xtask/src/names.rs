//! Names that a person gives, of which a wrong one is refused before anything is built.

use anyhow::{Result, bail};

/// Fails where one of these names is not among `all`: what it would be the name of, and those that there are.
pub(crate) fn check(what: &str, named: &[String], all: &[String]) -> Result<()> {
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("there is no {what} `{unknown}`, allowed: {}", all.join(", "));
    }
    Ok(())
}
