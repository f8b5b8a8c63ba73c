//! What the tests share.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod fake;
