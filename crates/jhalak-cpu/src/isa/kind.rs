//! [`IsaKind`]: which instruction sets there are, and which one is used.

use std::fmt;
use std::str::FromStr;

/// An instruction set that jhalak has kernels for, from the slowest to the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum IsaKind {
    /// Portable code, for any CPU.
    Scalar,
    /// 256-bit vectors with fused multiply-add: x86-64-v3.
    Avx2,
    /// 512-bit vectors.
    Avx512,
    /// 512-bit vectors, and products of bf16 pairs.
    Avx512Bf16,
}

impl IsaKind {
    /// All that jhalak knows, available here or not.
    pub const ALL: [IsaKind; 4] =
        [IsaKind::Scalar, IsaKind::Avx2, IsaKind::Avx512, IsaKind::Avx512Bf16];

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            match self {
                IsaKind::Scalar => true,
                IsaKind::Avx2 => super::Avx2::new().is_some(),
                IsaKind::Avx512 => super::Avx512::new().is_some(),
                IsaKind::Avx512Bf16 => super::Avx512Bf16::new().is_some(),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == IsaKind::Scalar
        }
    }

    /// All that this machine has, the slowest first.
    pub fn available() -> impl Iterator<Item = IsaKind> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// The fastest that this machine has.
    ///
    /// Products of bf16 pairs are twice as fast as f32 on AMD, but half as fast on Intel (measured:
    /// 93 against 179 GFLOP/s a core on a Xeon of family 6, model 207): there plain AVX-512, which
    /// widens bf16, is the fastest.
    pub fn best() -> IsaKind {
        let slow = |isa: &IsaKind| *isa == IsaKind::Avx512Bf16 && is_intel();
        Self::available().filter(|isa| !slow(isa)).last().unwrap_or(IsaKind::Scalar)
    }

    /// The [best](Self::best), or the one that the environment variable `JHALAK_ISA` names.
    ///
    /// # Errors
    /// A sentence, if `JHALAK_ISA` names none, or one that this machine lacks.
    pub fn selected() -> Result<IsaKind, String> {
        match std::env::var("JHALAK_ISA") {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Ok(Self::best()),
        }
    }

    fn named(name: &str) -> Result<IsaKind, String> {
        let isa: IsaKind = name.parse().map_err(|e| format!("JHALAK_ISA: {e}"))?;
        if isa.is_available() {
            return Ok(isa);
        }
        let available: Vec<String> = Self::available().map(|isa| isa.to_string()).collect();
        Err(format!(
            "JHALAK_ISA is {isa}, which this machine lacks; it has {}",
            available.join(", ")
        ))
    }
}

fn is_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

impl fmt::Display for IsaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            IsaKind::Scalar => "scalar",
            IsaKind::Avx2 => "avx2",
            IsaKind::Avx512 => "avx512",
            IsaKind::Avx512Bf16 => "avx512bf16",
        })
    }
}

impl FromStr for IsaKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|isa| isa.to_string().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let all: Vec<String> = Self::ALL.iter().map(ToString::to_string).collect();
            format!("\"{name}\" is no instruction set; there are {}", all.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_unknown_ones_listed() {
        for isa in IsaKind::ALL {
            assert_eq!(isa.to_string().parse(), Ok(isa));
        }
        let message = "sse9".parse::<IsaKind>().unwrap_err();
        assert!(message.contains("sse9") && message.contains("avx512bf16"));
        assert!(IsaKind::named("sse9").unwrap_err().starts_with("JHALAK_ISA"));
        assert_eq!(IsaKind::named("Scalar"), Ok(IsaKind::Scalar));
    }

    #[test]
    fn one_that_the_machine_lacks_is_refused_with_what_it_has() {
        for isa in IsaKind::ALL {
            match IsaKind::named(&isa.to_string()) {
                Ok(found) => assert!(found == isa && isa.is_available()),
                Err(message) => {
                    assert!(!isa.is_available() && message.contains("it has scalar"));
                }
            }
        }
    }
}
