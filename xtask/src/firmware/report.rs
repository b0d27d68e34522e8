//! What the firmware says over semihosting: one line an event, `word name=value ...`.

use core::str::FromStr;
use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

/// A call's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) phase: String,
    pub(crate) sensor: u64,
    pub(crate) call: u64,
    /// `accepted`, or what ended it: `throttled`, `budget`, ...
    pub(crate) stop: String,
    /// How often it was sent.
    pub(crate) attempts: u64,
}

/// A retry that the server had asked to wait, at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) sensor: u64,
    pub(crate) call: u64,
    pub(crate) attempt: u64,
    pub(crate) asked: Duration,
    /// By the firmware's clock.
    pub(crate) waited: Duration,
}

/// A phase's end, with the client's window then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// When the host heard of it.
    pub(crate) at: Instant,
    pub(crate) phase: String,
    pub(crate) calls: u64,
    pub(crate) attempts: u64,
    pub(crate) requests: u64,
    pub(crate) accepts: u64,
    pub(crate) retries: u64,
}

/// All that one run of the firmware reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// Of the firmware's clock.
    pub(crate) tick: Duration,
    /// Of the client.
    pub(crate) window: Duration,
    pub(crate) retry_ratio: f64,
    pub(crate) max_attempts: u64,
    pub(crate) calls: Vec<Call>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) done: bool,
}

impl Report {
    /// Takes a line; whatever else a board prints, such as a panic, is an error.
    pub(crate) fn take(&mut self, line: &str) -> Result<()> {
        let (word, fields) = line.split_once(' ').unwrap_or((line, ""));
        let fields = Fields::parse(fields).with_context(|| format!("the firmware printed: {line}"))?;
        self.event(word, &fields).with_context(|| format!("the firmware printed: {line}"))
    }

    fn event(&mut self, word: &str, fields: &Fields<'_>) -> Result<()> {
        match word {
            "start" => {
                self.tick = fields.milliseconds("tick_ms")?;
                self.window = Duration::from_secs(fields.read("window_s")?);
                self.retry_ratio = fields.read("retry_ratio")?;
                self.max_attempts = fields.read("max_attempts")?;
            }
            "wait" => self.waits.push(Wait {
                sensor: fields.read("sensor")?,
                call: fields.read("call")?,
                attempt: fields.read("attempt")?,
                asked: fields.milliseconds("asked_ms")?,
                waited: fields.milliseconds("waited_ms")?,
            }),
            "call" => self.calls.push(Call {
                phase: fields.read("phase")?,
                sensor: fields.read("sensor")?,
                call: fields.read("call")?,
                stop: fields.read("stop")?,
                attempts: fields.read("attempts")?,
            }),
            "phase" => self.phases.push(Phase {
                at: Instant::now(),
                phase: fields.read("phase")?,
                calls: fields.read("calls")?,
                attempts: fields.read("attempts")?,
                requests: fields.read("requests")?,
                accepts: fields.read("accepts")?,
                retries: fields.read("retries")?,
            }),
            "done" => self.done = true,
            _ => bail!("no event of that name"),
        }
        Ok(())
    }
}

struct Fields<'a>(HashMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn parse(fields: &'a str) -> Result<Self> {
        let pairs = fields.split_whitespace().map(|field| field.split_once('=').ok_or_else(|| anyhow!("not an event")));
        Ok(Self(pairs.collect::<Result<_>>()?))
    }

    fn read<T: FromStr<Err: core::error::Error + Send + Sync + 'static>>(&self, name: &str) -> Result<T> {
        let value = self.0.get(name).with_context(|| format!("no {name}"))?;
        value.parse().with_context(|| format!("{name} is {value}"))
    }

    fn milliseconds(&self, name: &str) -> Result<Duration> {
        Ok(Duration::from_millis(self.read(name)?))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Report, Wait};

    #[test]
    fn events_are_read_and_anything_else_is_an_error() {
        let mut report = Report::default();
        report.take("start tick_ms=10 window_s=10 retry_ratio=0.1 max_attempts=3").unwrap();
        report.take("wait sensor=0 call=7 attempt=1 asked_ms=1000 waited_ms=1010").unwrap();
        report.take("call phase=overloaded sensor=0 call=7 stop=budget attempts=2").unwrap();
        report.take("phase phase=overloaded calls=1 attempts=2 requests=3 accepts=0 retries=1").unwrap();
        report.take("done").unwrap();
        let ms = Duration::from_millis;
        assert_eq!(report.waits, [Wait { sensor: 0, call: 7, attempt: 1, asked: ms(1000), waited: ms(1010) }]);
        assert_eq!((report.calls.len(), report.phases.len(), report.done), (1, 1, true));

        let said = |line| format!("{:#}", Report::default().take(line).unwrap_err());
        assert!(said("panicked at src/main.rs:1").contains("the firmware printed: panicked"));
        assert!(said("done? really=yes").contains("no event of that name"));
        assert!(said("wait sensor=0").contains("no call"));
        assert!(said("phase phase=x calls=-1").contains("calls is -1"));
    }
}
