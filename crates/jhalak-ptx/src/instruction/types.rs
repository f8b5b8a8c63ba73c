//! The types that instructions name.

use crate::names::named;

named! {
    /// How an instruction reads the bits of its registers.
    pub enum Type {
        /// One truth value.
        Pred = ".pred",
        /// Unsigned, 8 bits, in the low part of a wider register.
        U8 = ".u8",
        /// Unsigned, 16 bits.
        U16 = ".u16",
        /// Unsigned, 32 bits.
        U32 = ".u32",
        /// Unsigned, 64 bits.
        U64 = ".u64",
        /// Two's complement, 32 bits.
        S32 = ".s32",
        /// Two's complement, 64 bits.
        S64 = ".s64",
        /// 16 bits of any kind.
        B16 = ".b16",
        /// 32 bits of any kind.
        B32 = ".b32",
        /// 64 bits of any kind.
        B64 = ".b64",
        /// Half precision.
        F16 = ".f16",
        /// Two f16, the first in the low half.
        F16x2 = ".f16x2",
        /// The upper half of a float.
        Bf16 = ".bf16",
        /// Two bf16, the first in the low half.
        Bf16x2 = ".bf16x2",
        /// A float of which tensor cores read the upper 19 bits.
        Tf32 = ".tf32",
        /// Single precision.
        F32 = ".f32",
        /// 8 bits: 4 of exponent, 3 of mantissa.
        E4m3 = ".e4m3",
        /// Two e4m3, the first in the low byte.
        E4m3x2 = ".e4m3x2",
    }

    /// How far an ordering reaches.
    pub enum Scope {
        /// The threads of the block.
        Cta = ".cta",
        /// All threads of the device.
        Gpu = ".gpu",
        /// All threads of all devices, and the host.
        Sys = ".sys",
    }
}

impl Type {
    /// Bytes of a value in memory.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Type::Pred | Type::U8 | Type::E4m3 => 1,
            Type::U16 | Type::B16 | Type::F16 | Type::Bf16 | Type::E4m3x2 => 2,
            Type::U32 | Type::S32 | Type::B32 | Type::F32 | Type::Tf32 => 4,
            Type::F16x2 | Type::Bf16x2 => 4,
            Type::U64 | Type::S64 | Type::B64 => 8,
        }
    }
}
