//! Numbers as people read them.

/// A duration: `1.23 ms`.
pub(crate) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// An amount of memory: `16.0 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// `1 thread`, `2 threads`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Three significant digits, or all that stand before the point.
pub(crate) fn three_digits(value: f64) -> String {
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        assert_eq!(time(0.0000123), "12.3 µs");
        assert_eq!(time(0.5), "500 ms");
        assert_eq!(time(75.2), "75.2 s");
        assert_eq!(bytes(0), "0.00 B");
        assert_eq!(bytes(16 << 20), "16.0 MiB");
        assert_eq!(bytes(1000 << 20), "0.98 GiB");
        assert_eq!(count(1, "thread") + ", " + &count(2, "core"), "1 thread, 2 cores");
    }
}
