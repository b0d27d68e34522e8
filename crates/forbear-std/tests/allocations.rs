//! No call allocates: counted by an allocator, on the system's clock and the lock-free window.

use core::cell::Cell;
use core::time::Duration;

use allocation_counter::measure;
use forbear_std::{Backoff, Client, Config, Error, Reply};

/// Calls that meet every one of these statuses in turn allocate nothing.
fn assert_no_allocation(client: &Client, statuses: &[u16], ends: impl Fn(&Result<u16, Error<u16>>) -> bool) {
    let call = || {
        let mut statuses = statuses.iter().copied();
        let send = || match statuses.next() {
            Some(200) => Ok(200),
            Some(status) => Err(status),
            None => panic!("no more attempts than statuses"),
        };
        let result = client.call(send, |result| match result {
            Ok(_) => Reply::ACCEPTED,
            Err(status) => forbear::http::status(*status),
        });
        assert!(ends(&result), "{result:?}");
    };
    let counted = measure(|| {
        for _ in 0..1_000 {
            call();
        }
    });
    assert_eq!(counted.count_total, 0, "allocations in a thousand calls that meet {statuses:?}");
}

/// The configuration with so large a budget and K that every call is sent and retried.
fn generous(config: Config) -> Client {
    let generous = config.to_builder().k(1e9).retry_ratio(10.0).min_requests(0);
    Client::new(generous.backoff(Backoff::new(Duration::ZERO, Duration::ZERO)).build().unwrap())
}

#[test]
fn the_counter_counts() {
    assert_eq!(measure(|| drop(core::hint::black_box(Box::new(1)))).count_total, 1);
}

#[test]
fn an_ok_call_does_not_allocate() {
    for config in [Config::overload(), Config::resilient(), Config::retrying()] {
        assert_no_allocation(&Client::new(config), &[200], Result::is_ok);
    }
}

#[test]
fn a_retry_does_not_allocate() {
    for config in [Config::overload(), Config::resilient()] {
        let client = generous(config);
        assert_no_allocation(&client, &[200], Result::is_ok);
        assert_no_allocation(&client, &[503, 503, 200], Result::is_ok);
        assert_no_allocation(&client, &[503, 503, 503], |result| matches!(result, Err(Error::Failed { .. })));
    }
}

#[test]
fn a_refused_call_does_not_allocate() {
    for config in [Config::overload(), Config::resilient()] {
        let at_once = Backoff::new(Duration::ZERO, Duration::ZERO);
        let client = Client::new(config.to_builder().backoff(at_once).build().unwrap());
        for _ in 0..10_000 {
            let _ = client.call(|| Err::<u16, u16>(503), |_| Reply::OVERLOADED);
        }
        // One in thousands is sent.
        let refused = Cell::new(0);
        assert_no_allocation(&client, &[503, 503, 503], |result| {
            refused.set(refused.get() + u32::from(matches!(result, Err(Error::Refused(_)))));
            result.is_err()
        });
        assert!(refused.get() > 0, "nothing was refused");
    }
}

#[test]
fn a_clone_and_a_reading_do_not_allocate() {
    let client = Client::default();
    let counted = measure(|| {
        let clone = client.clone();
        let _ = (clone.counts(), clone.reject_probability(), clone.mode());
    });
    assert_eq!(counted.count_total, 0);
}
