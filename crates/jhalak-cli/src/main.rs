//! The jhalak command.
fn main() {}
