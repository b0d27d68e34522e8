//! The vectors: their format, and reading them from a folder.

use core::{error, fmt};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A scenario of `overload.json`.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct Overload {
    pub name: String,
    pub config: OverloadConfig,
    pub start_ms: u64,
    pub calls: Vec<OverloadCall>,
}

/// The parameters of the first specification.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct OverloadConfig {
    pub k: f64,
    pub window: u64,
    pub retry_ratio: f64,
    pub max_attempts: u32,
}

/// A call of `overload.json`.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct OverloadCall {
    pub at_ms: u64,
    pub send_ms: u64,
    pub draws: Vec<f64>,
    pub replies: Vec<OverloadReply>,
    pub before: Expected,
    pub outcome: Outcome,
    pub end_ms: u64,
    pub after: Expected,
}

/// What a send of the first specification answers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are their names")]
pub enum OverloadReply {
    Ok,
    Overloaded,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "vectors/README.md explains them")]
pub enum Outcome {
    Ok,
    Throttled,
    Budget,
    Deadline,
    Failed,
}

/// The counts at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct Expected {
    pub requests: u32,
    pub accepts: u32,
    pub retries: u32,
    pub reject_probability: f64,
}

/// A case of `retry.json`.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct Retry {
    pub name: String,
    pub config: RetryConfig,
    pub replies: Vec<RetryReply>,
    pub draws: Vec<f64>,
    pub sleeps_ms: Vec<f64>,
    pub result: RetryResult,
}

/// The parameters of the second specification.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct RetryConfig {
    pub max_attempts: u32,
    pub base_delay_ms: u64,
    pub max_delay_ms: u64,
}

/// What a send of the second specification answers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct RetryReply {
    pub status: u16,
    pub retry_after_ms: Option<u64>,
}

/// What a call of the second specification answers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct RetryResult {
    pub status: u16,
    pub attempts: u32,
}

/// A scenario of `combined.json`.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct Combined {
    pub name: String,
    pub config: CombinedConfig,
    pub start_us: u64,
    pub calls: Vec<CombinedCall>,
}

/// The parameters of throttle, budget, backoff and deadline together.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct CombinedConfig {
    pub k: f64,
    pub window: u64,
    pub retry_ratio: f64,
    pub max_attempts: u32,
    pub base_delay_us: u64,
    pub max_delay_us: u64,
    pub deadline_us: Option<u64>,
    pub min_requests: u32,
}

/// A call of `combined.json`.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct CombinedCall {
    pub at_us: u64,
    pub send_us: u64,
    pub draws: Vec<f64>,
    pub replies: Vec<CombinedReply>,
    pub sleeps_us: Vec<u64>,
    pub outcome: Outcome,
    pub end_us: u64,
    pub after: Expected,
}

/// What a send of `combined.json` answers.
#[derive(Clone, Copy, Debug, Deserialize)]
#[expect(missing_docs, reason = "vectors/README.md explains the fields")]
pub struct CombinedReply {
    pub kind: Kind,
    pub retry_after_us: Option<u64>,
}

/// The named replies.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are the constants of forbear::Reply")]
pub enum Kind {
    Accepted,
    Permanent,
    Transient,
    Overloaded,
    Unreachable,
}

/// The `u64` of a generator that stands for a draw in 0 to 1.
pub fn generated(draw: f64) -> u64 {
    ((draw * (1u64 << 53) as f64) as u64) << 11
}

/// The variable that names a folder of vectors.
const VARIABLE: &str = "FORBEAR_VECTORS";

/// What a folder of vectors holds.
const FILES: [&str; 3] = ["overload.json", "retry.json", "combined.json"];

/// The folder that the environment names, or the repository's own.
///
/// # Errors
///
/// Where the variable is set and empty, as it is where a script meant to name a folder, and where the folder does not hold
/// all that it should.
pub fn folder() -> Result<PathBuf, VectorError> {
    env::var_os(VARIABLE).map_or_else(|| Ok(own().join("vectors")), |folder| complete(named(&folder)?))
}

/// The folder of this package.
fn own() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn named(folder: &OsStr) -> Result<PathBuf, VectorError> {
    if folder.is_empty() {
        return Err(VectorError { path: VARIABLE.into(), why: Why::Unnamed });
    }
    // Tests run in the folder of their package, people run cargo at the root: join leaves an absolute path alone.
    Ok(own().ancestors().nth(2).unwrap_or(own()).join(folder))
}

fn complete(folder: PathBuf) -> Result<PathBuf, VectorError> {
    match FILES.into_iter().find(|file| !folder.join(file).is_file()) {
        Some(file) => Err(VectorError { path: folder, why: Why::Missing(file) }),
        None => Ok(folder),
    }
}

/// All of `file` in `folder`.
///
/// # Errors
///
/// Where the file cannot be read, does not have the format, or holds nothing.
pub fn read<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<Vec<T>, VectorError> {
    let path = folder.join(file);
    let refused = |why| VectorError { path: path.clone(), why };
    let text = fs::read(&path).map_err(|error| refused(Why::Unreadable(error)))?;
    let all: Vec<T> = serde_json::from_slice(&text).map_err(|error| refused(Why::Malformed(error)))?;
    if all.is_empty() { Err(refused(Why::Empty)) } else { Ok(all) }
}

/// Vectors that cannot be run.
#[derive(Debug)]
pub struct VectorError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Unreadable(io::Error),
    Malformed(serde_json::Error),
    Empty,
    Unnamed,
    Missing(&'static str),
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.why {
            Why::Unreadable(error) => error.fmt(f),
            Why::Malformed(error) => error.fmt(f),
            Why::Empty => f.write_str("holds no vectors"),
            Why::Unnamed => f.write_str("is set and empty, allowed: a folder, or not set for the repository's own"),
            Why::Missing(file) => {
                let [first, second, third] = FILES;
                write!(
                    f,
                    "holds no {file}, but {VARIABLE} names it, allowed: a folder of {first}, {second} and {third}"
                )
            }
        }
    }
}

impl error::Error for VectorError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_arrive_to_the_last_bit() {
        let last = 1.0 - 2f64.powi(-53);
        let read: f64 = serde_json::from_str(&serde_json::to_string(&last).unwrap()).unwrap();
        assert_eq!(generated(read), u64::MAX << 11);
        assert_eq!(generated(2f64.powi(-53)), 1 << 11);
    }

    #[test]
    fn a_folder_without_a_name_is_an_error() {
        let error = named(OsStr::new("")).unwrap_err().to_string();
        assert_eq!(error, "FORBEAR_VECTORS: is set and empty, allowed: a folder, or not set for the repository's own");
        assert!(named(OsStr::new("/vectors")).unwrap().ends_with("/vectors"));
        assert_eq!(named(OsStr::new("crates")).unwrap().join("forbear-conformance"), own());
    }

    #[test]
    fn a_named_folder_holds_every_file() {
        assert!(complete(own().join("vectors")).is_ok());
        let folder = env::temp_dir().join(format!("forbear-vectors-part-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (index, file) in FILES.into_iter().enumerate() {
            let error = complete(folder.clone()).unwrap_err().to_string();
            let why = format!("holds no {file}, but FORBEAR_VECTORS names it, ");
            let allowed = "allowed: a folder of overload.json, retry.json and combined.json";
            assert_eq!(error, format!("{}: {why}{allowed}", folder.display()), "{index} files");
            fs::write(folder.join(file), "[]").unwrap();
        }
        assert_eq!(complete(folder.clone()).unwrap(), folder);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_missing_or_empty_is_an_error() {
        let folder = env::temp_dir().join(format!("forbear-vectors-{}", std::process::id()));
        assert!(read::<Retry>(&folder, "retry.json").is_err(), "no folder");
        fs::create_dir_all(&folder).unwrap();
        assert!(read::<Retry>(&folder, "retry.json").is_err(), "no file");
        fs::write(folder.join("retry.json"), "[]").unwrap();
        assert!(read::<Retry>(&folder, "retry.json").unwrap_err().to_string().ends_with("holds no vectors"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
