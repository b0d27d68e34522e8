//! Plain retries: again at once, up to a number of attempts. No memory.

use forbear::{Instant, Reply, Retry};

use super::{Attempts, Client, Draws, Move};

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Plain {
    pub(in super::super) attempts: u32,
}

#[derive(Debug)]
pub(in super::super) struct Call {
    left: u32,
}

impl Client for Plain {
    type Call<'c> = Call;

    fn call(&self) -> Call {
        Call { left: self.attempts }
    }
}

impl Attempts for Call {
    fn next(&mut self, _: Instant, _: &mut Draws) -> Move {
        if self.left == 0 {
            return Move::Done;
        }
        self.left -= 1;
        Move::SEND
    }

    fn reply(&mut self, _: Instant, reply: Reply) {
        if reply.retry() == Retry::Never {
            self.left = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;

    use super::{super::drive, *};

    #[test]
    fn repeats_at_once_and_stops_at_a_success() {
        let mut draws = Draws::seed_from_u64(1);
        let plain = Plain { attempts: 3 };
        assert_eq!(drive(&plain, Instant::ORIGIN, &[Reply::OVERLOADED; 3], &mut draws), (3, Duration::ZERO));
        let better = [Reply::OVERLOADED, Reply::ACCEPTED];
        assert_eq!(drive(&plain, Instant::ORIGIN, &better, &mut draws), (2, Duration::ZERO));
    }
}
