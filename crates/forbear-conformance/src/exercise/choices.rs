//! Choices read off bytes.

/// Choices read off bytes, in order; past their end every choice is the first one.
#[derive(Clone, Debug)]
pub struct Choices<'b>(&'b [u8]);

impl<'b> Choices<'b> {
    /// The choices that `bytes` stand for.
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all bytes are used.
    pub const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        let mut bytes = [0; N];
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// Any 64 bits.
    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// A number below `end`, which is 1 to 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// One of `all`, which are 1 to 256.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Any finite number of 0 or more: often one of `usual`, else by its bits.
    pub fn factor(&mut self, usual: &[f64]) -> f64 {
        let choice = self.byte();
        match usual.get(usize::from(choice) % (usual.len() + 1)) {
            Some(usual) => *usual,
            None => Some(f64::from_bits(self.word() & !(1 << 63))).filter(|number| number.is_finite()).unwrap_or(0.5),
        }
    }

    /// A draw: often at an end or right beside the probability `p`.
    pub fn draw(&mut self, p: f64) -> u64 {
        let beside = (p * (1u64 << 53) as f64) as u64;
        match self.byte() {
            0..=31 => 0,
            32..=63 => u64::MAX,
            choice @ 64..=95 => (beside + u64::from(choice % 3)).saturating_sub(1).min((1 << 53) - 1) << 11,
            choice @ 96..=191 => u64::from(choice) << 56 | u64::from(self.byte()) << 48,
            192.. => self.word(),
        }
    }
}
