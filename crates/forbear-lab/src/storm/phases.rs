//! The four acts of a storm, and how they stretch with the window.

use std::{fmt, ops::Range, time::Duration};

use super::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Demand below capacity, everything is served.
    Healthy,
    /// Demand far above capacity.
    Overload,
    /// Demand as in the healthy phase, and a backend that serves nothing.
    Outage,
    /// The same demand, and the backend is back.
    Recovery,
}

impl Phase {
    pub(super) const ALL: [Self; 4] = [Self::Healthy, Self::Overload, Self::Outage, Self::Recovery];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Healthy => "healthy",
            Self::Overload => "overload",
            Self::Outage => "outage",
            Self::Recovery => "recovery",
        })
    }
}

/// How many seconds each phase lasts, and the window that the overload is judged after.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    seconds: [u32; 4],
    window: u32,
}

impl Phases {
    /// The phases as asked for, or else in proportion to the window.
    pub(super) fn new(asked: [Option<u32>; 4], window: u32) -> Result<Self, Failure> {
        let tenths = |n: u32| (window * n).div_ceil(10);
        // At least two seconds of overload remain to be judged, and three of recovery to be seen.
        let usual = [tenths(3), window + tenths(7).max(2), tenths(6), tenths(30).max(4)];
        let seconds = [0, 1, 2, 3].map(|i| asked[i].unwrap_or(usual[i]));
        match seconds[1] > window {
            true => Ok(Self { seconds, window }),
            false => Err(Failure::OverloadTooShort { overload: seconds[1], window }),
        }
    }

    /// The seconds of `phase`, counted from the start of the storm.
    pub(super) fn span(&self, phase: Phase) -> Range<usize> {
        let before = Phase::ALL.iter().position(|p| *p == phase).unwrap_or_default();
        let start = self.seconds[..before].iter().sum::<u32>() as usize;
        start..start + self.seconds[before] as usize
    }

    /// The seconds that the overload is judged by: all but those of its first window.
    pub(super) fn judged(&self) -> Range<usize> {
        let overload = self.span(Phase::Overload);
        overload.start + self.window as usize..overload.end
    }

    /// The phase at a time since the start, `None` when the storm is over.
    pub(super) fn at(&self, elapsed: Duration) -> Option<Phase> {
        let second = elapsed.as_secs() as usize;
        Phase::ALL.into_iter().find(|phase| self.span(*phase).contains(&second))
    }

    pub(super) fn total_seconds(&self) -> usize {
        self.span(Phase::Recovery).end
    }
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, phase) in Phase::ALL.iter().enumerate() {
            write!(f, "{}{phase} {} s", if i == 0 { "" } else { ", " }, self.seconds[i])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_phases_of_a_ten_second_window_fit_a_minute() {
        let phases = Phases::new([None; 4], 10).unwrap();
        assert_eq!(phases.total_seconds(), 56);
        assert_eq!(phases.judged(), 13..20);
        assert_eq!(phases.at(Duration::from_millis(2_999)), Some(Phase::Healthy));
        assert_eq!(phases.at(Duration::from_secs(20)), Some(Phase::Outage));
        assert_eq!(phases.at(Duration::from_secs(56)), None);
    }

    #[test]
    fn they_stretch_with_the_window() {
        assert_eq!(Phases::new([None; 4], 120).unwrap().total_seconds(), 12 * 56);
        assert!(Phases::new([None; 4], 1).unwrap().total_seconds() < 10);
    }

    #[test]
    fn an_overload_that_ends_with_its_first_window_is_refused() {
        assert!(Phases::new([None, Some(10), None, None], 10).is_err());
        assert!(Phases::new([None, Some(11), None, None], 10).is_ok());
    }

    #[test]
    fn a_phase_may_be_left_out() {
        let phases = Phases::new([Some(0), None, Some(0), Some(0)], 1).unwrap();
        assert_eq!(phases.at(Duration::ZERO), Some(Phase::Overload));
        assert_eq!(phases.at(Duration::from_secs(3)), None);
    }
}
