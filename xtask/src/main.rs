//! The checks and tools of the project.
fn main() {}
