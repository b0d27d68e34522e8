//! Decodes what comes by standard input from the program whose file is given: a line for each of its messages.

use std::env;
use std::fs;
use std::io::{Read as _, stdin};

use anyhow::{Context as _, Result};
use defmt_decoder::{DecodeError, Table};

fn main() -> Result<()> {
    let file = env::args().nth(1).context("which program?")?;
    let elf = fs::read(&file).with_context(|| format!("cannot read {file}"))?;
    let table = Table::parse(&elf)?.with_context(|| format!("no defmt in {file}"))?;
    let mut bytes = Vec::new();
    stdin().read_to_end(&mut bytes)?;
    let mut decoder = table.new_stream_decoder();
    decoder.received(&bytes);
    loop {
        match decoder.decode() {
            Ok(frame) => println!("{}", frame.display_message()),
            Err(DecodeError::UnexpectedEof) => return Ok(()),
            Err(DecodeError::Malformed) => anyhow::bail!("what the program said is not defmt"),
        }
    }
}
