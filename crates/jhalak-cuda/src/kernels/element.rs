//! The number types that kernels read and write.

use jhalak_problem::DType;
use jhalak_ptx::{Address, B32, F32, KernelBuilder};

/// A number type of a tensor on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// IEEE half precision.
    F16,
    /// The upper half of a float.
    Bf16,
    /// A float.
    F32,
}

impl Element {
    /// The element of a dtype, if kernels have it.
    pub fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F16 => Some(Element::F16),
            DType::BF16 => Some(Element::Bf16),
            DType::F32 => Some(Element::F32),
            _ => None,
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u32 {
        match self {
            Element::F16 | Element::Bf16 => 2,
            Element::F32 => 4,
        }
    }

    /// Reads one element as a float.
    pub(crate) fn load(self, k: &mut KernelBuilder, place: impl Into<Address>) -> F32 {
        if self == Element::F32 {
            return k.ld(place);
        }
        let bits = k.ld_u16(place);
        self.widen(k, bits)
    }

    /// The float of the 16 bits at the bottom of a register.
    pub(crate) fn widen(self, k: &mut KernelBuilder, bits: B32) -> F32 {
        if self == Element::Bf16 {
            let bits = k.shl_b32(bits, 16);
            return k.f32_of_bits(bits);
        }
        let [half, _] = k.unpack_b32(bits);
        k.cvt_f32_f16(half)
    }

    /// Two floats, rounded to this 16-bit type, the first one in the low half.
    pub(crate) fn pack(self, k: &mut KernelBuilder, low: F32, high: F32) -> B32 {
        match self {
            Element::Bf16 => k.cvt_bf16x2_f32(low, high),
            _ if k.target() >= jhalak_ptx::Target::Sm80 => k.cvt_f16x2_f32(low, high),
            _ => {
                let (low, high) = (k.cvt_f16_f32(low), k.cvt_f16_f32(high));
                k.pack_b32(low, high)
            }
        }
    }

    /// Writes one float, rounded to this type.
    pub(crate) fn store(self, k: &mut KernelBuilder, place: impl Into<Address>, value: F32) {
        if self == Element::F32 {
            k.st(place, value);
            return;
        }
        let zero = k.mov_f32(0.0);
        let bits = self.pack(k, value, zero);
        k.st_u16(place, bits);
    }
}
