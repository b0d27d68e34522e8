//! Reports to the host: one line an event, `word name=value ...`.

/// Prints a line by semihosting, in one piece.
#[macro_export]
macro_rules! say {
    ($($line:tt)*) => {{
        use core::fmt::Write as _;
        let mut line = heapless::String::<160>::new();
        writeln!(line, $($line)*).expect("a line fits");
        cortex_m_semihosting::hprint!("{}", line.as_str());
    }};
}
