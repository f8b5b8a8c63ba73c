//! How much memory this process has used, and how much there is.

use std::fs;

/// The most memory this process has had resident at once, in bytes.
pub(crate) fn peak() -> Option<u64> {
    status("VmHWM:")
}

/// The memory this process has resident now, in bytes.
pub(crate) fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// Makes [`peak`] start again from what is resident now. Some containers forbid it; then the peak
/// stays what it was, which only makes a later measurement larger.
pub(crate) fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Memory that can be had without pushing anything out, in bytes: of the machine, or of the
/// control group that this process is in, whichever is less.
pub(crate) fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let of_machine = kib_field(&meminfo, "MemAvailable:")?;
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let of_group = number("memory.max")
        .zip(number("memory.current"))
        .map(|(limit, used)| limit.saturating_sub(used));
    Some(of_group.map_or(of_machine, |group| group.min(of_machine)))
}

fn status(field: &str) -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/self/status").ok()?, field)
}

/// A line such as `VmHWM:     1234 kB`, in bytes.
fn kib_field(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// An amount such as `8GiB`, `8G` (the same) or `500000000`.
pub(crate) fn parse_amount(text: &str) -> Result<u64, String> {
    let wrong = || format!("an amount of memory is a number such as 8GiB or 500MiB, not {text:?}");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(wrong()),
    };
    match digits.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok((value * 2f64.powi(shift)) as u64),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        assert_eq!(parse_amount("1000"), Ok(1000));
        assert_eq!(parse_amount("8GiB"), Ok(8 << 30));
        assert_eq!(parse_amount("1.5 g"), Ok(3 << 29));
        for wrong in ["", "GiB", "-1", "8 furlongs", "nan", "inf", "é"] {
            assert!(parse_amount(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn this_process_has_used_memory() {
        assert!(peak().unwrap() >= 1 << 16 && resident().unwrap() >= 1 << 16);
        assert!(available().is_some());
    }
}
