//! The seam between the policy and its memory: what is counted, and what a memory must do.

/// What a window holds at one instant.
///
/// Every number saturates at `u32::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Counts {
    /// Attempts that began within the window: sent, and refused here by the throttle.
    pub requests: u32,
    /// Attempts whose reply the backend gave after doing the work, by the second of that reply.
    pub accepts: u32,
    /// Retries among the requests.
    pub retries: u32,
    /// Retries that are decided and wait for their backoff to pass. They are in no bucket yet.
    pub waiting: u32,
    /// Attempts without an answer that are younger than the grace; 0 without
    /// [`in_flight_grace`](crate::ConfigBuilder::in_flight_grace), and where nothing depends on it.
    pub in_flight: u32,
}

impl Counts {
    /// Nothing counted.
    pub const ZERO: Self = Self { requests: 0, accepts: 0, retries: 0, waiting: 0, in_flight: 0 };

    /// The requests that the throttle judges by: all but those still [`in_flight`](Self::in_flight).
    #[inline]
    pub const fn judged(self) -> u32 {
        self.requests.saturating_sub(self.in_flight)
    }
}

/// The memory behind a policy: it knows seconds and counts, never K or a ratio.
///
/// [`Window`](crate::Window) is to [`AtomicWindow`](crate::AtomicWindow) as a `Cell` is to the atomics; `()` remembers
/// nothing. Methods take `&self`, so that a reference, an `Rc`, an `Arc` or a mutex of the platform can share one.
///
/// A `second` that lies before the newest one seen counts as that newest one: a clock that steps back stands still.
pub trait Tally {
    /// The counts of the window that ends with `second`; [`Counts::in_flight`] is 0.
    fn counts(&self, second: u64) -> Counts;

    /// How many attempts began in `second` or the `grace` seconds before it and have no answer yet.
    fn in_flight(&self, second: u64, grace: u8) -> u32;

    /// Counts a request, and returns the second that it was counted in.
    fn request(&self, second: u64) -> u64;

    /// Starts an attempt: reads the counts, then counts a [`request`](Self::request), or a [`retry`](Self::retry) that was
    /// reserved. What every call begins with, so a memory may do it in one go.
    fn attempt(&self, second: u64, reserved: bool) -> (Counts, u64) {
        let counts = self.counts(second);
        (counts, if reserved { self.retry(second) } else { self.request(second) })
    }

    /// Marks a request that was counted in second `asked` as refused here: nothing is in flight for it.
    fn refuse(&self, asked: u64);

    /// Takes the answer to a request that was counted in second `asked`, and counts an accept if it is one.
    fn answer(&self, asked: u64, second: u64, accepted: bool);

    /// Takes a request back out of the bucket of second `asked`, if that is still in the window.
    fn withdraw(&self, asked: u64);

    /// Adds one to the waiting retries if `allowed(retries, requests)` holds, as one step; the retries are those counted
    /// and those that wait.
    ///
    /// # Errors
    ///
    /// The counts that were not allowed.
    fn reserve(&self, second: u64, allowed: impl Fn(u32, u32) -> bool) -> Result<(), Counts>;

    /// Starts a waiting retry: counts it as a retry and as a request, and returns the second of both.
    fn retry(&self, second: u64) -> u64;

    /// Forgets a waiting retry that will not start.
    fn release(&self);

    /// Changes the word that [`recovery`](crate::recovery) keeps, as one step, and returns what `change` says beside it.
    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T;
}

/// No memory at all: what [`RetryingClient`](crate::RetryingClient) counts in.
impl Tally for () {
    fn counts(&self, _: u64) -> Counts {
        Counts::ZERO
    }

    fn in_flight(&self, _: u64, _: u8) -> u32 {
        0
    }

    fn request(&self, second: u64) -> u64 {
        second
    }

    fn refuse(&self, _: u64) {}

    fn answer(&self, _: u64, _: u64, _: bool) {}

    fn withdraw(&self, _: u64) {}

    fn reserve(&self, _: u64, _: impl Fn(u32, u32) -> bool) -> Result<(), Counts> {
        Ok(())
    }

    fn retry(&self, second: u64) -> u64 {
        second
    }

    fn release(&self) {}

    fn pace<T>(&self, change: impl Fn(u64) -> (T, u64)) -> T {
        change(0).0
    }
}
