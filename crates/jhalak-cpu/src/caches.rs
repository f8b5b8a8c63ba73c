//! Sizes of the CPU's caches. They decide how work is cut, never what comes out.

use std::sync::OnceLock;

/// Bytes of L2 that a core has: as Linux tells, or what most cores have.
pub(crate) fn l2_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| read_l2().unwrap_or(512 << 10))
}

fn read_l2() -> Option<usize> {
    let cache = "/sys/devices/system/cpu/cpu0/cache/index2";
    let read = |name| std::fs::read_to_string(format!("{cache}/{name}")).ok();
    (read("level")?.trim() == "2").then(|| parse(read("size")?.trim())).flatten()
}

/// `2048K` or `2M`.
fn parse(size: &str) -> Option<usize> {
    let unit = match size.bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        _ => return None,
    };
    size[..size.len() - 1].parse::<usize>().ok()?.checked_shl(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse("512K"), Some(512 << 10));
        assert_eq!(parse("2M"), Some(2 << 20));
        for wrong in ["", "K", "512", "-1K", "xM"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert!((64 << 10..1 << 30).contains(&l2_bytes()));
    }
}
