//! Element types: the run-time tag [`DType`] and the compile-time trait [`Element`].

use std::fmt;

use half::{bf16, f16};

/// The type of a tensor's elements, known at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision: 5 exponent bits, 10 fraction bits.
    F16,
    /// bfloat16: 8 exponent bits, 7 fraction bits.
    BF16,
    /// IEEE 754 double precision; on the CPU only.
    F64,
    /// Signed 32-bit integers: sequence offsets and lengths.
    I32,
    /// Signed 64-bit integers: sequence offsets and lengths.
    I64,
    /// One byte per element; zero is false, anything else is true.
    Bool,
}

impl DType {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool => 1,
            DType::F16 | DType::BF16 => 2,
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::I64 => 8,
        }
    }

    /// Whether this is one of the types that q, k and v may have.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
    }

    /// Fraction bits of a floating-point type, the implicit one included; 0 for the others.
    pub const fn significand_bits(self) -> u32 {
        match self {
            DType::F32 => 24,
            DType::F16 => 11,
            DType::BF16 => 8,
            DType::F64 => 53,
            DType::I32 | DType::I64 | DType::Bool => 0,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F64 => "f64",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that can be the element of a tensor.
///
/// Sealed: exactly the types that [`DType`] names.
pub trait Element: Copy + Send + Sync + fmt::Debug + sealed::Sealed + 'static {
    /// The run-time name of this type.
    const DTYPE: DType;
    /// Zero, or false.
    const ZERO: Self;
    /// The value as `f64`; exact except for large `i64`. False is 0, true is 1.
    fn to_f64(self) -> f64;
    /// The nearest value of this type, ties to even; for `bool`, whether `value` differs from 0.
    fn from_f64(value: f64) -> Self;
}

macro_rules! element {
    ($($ty:ty, $dtype:ident, $zero:expr, |$x:ident| $to:expr, |$v:ident| $from:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = $zero;
            #[inline]
            fn to_f64(self) -> f64 {
                let $x = self;
                $to
            }
            #[inline]
            fn from_f64($v: f64) -> Self {
                $from
            }
        }
    )*};
}

element! {
    f32, F32, 0.0, |x| f64::from(x), |v| v as f32;
    f16, F16, f16::ZERO, |x| f64::from(x), |v| f16::from_f64(v);
    bf16, BF16, bf16::ZERO, |x| f64::from(x), |v| bf16::from_f64(v);
    f64, F64, 0.0, |x| x, |v| v;
    i32, I32, 0, |x| f64::from(x), |v| v as i32;
    i64, I64, 0, |x| x as f64, |v| v as i64;
    bool, Bool, false, |x| f64::from(u8::from(x)), |v| v != 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_the_size_of_the_rust_type() {
        fn check<T: Element>() {
            assert_eq!(T::DTYPE.size(), size_of::<T>());
        }
        check::<f32>();
        check::<f16>();
        check::<bf16>();
        check::<f64>();
        check::<i32>();
        check::<i64>();
        check::<bool>();
    }

    #[test]
    fn rounding_is_to_nearest_even_in_every_float_type() {
        assert_eq!(bf16::from_f64(1.0 + 1.0 / 256.0).to_f64(), 1.0);
        assert_eq!(bf16::from_f64(1.0 + 3.0 / 256.0).to_f64(), 1.0 + 4.0 / 256.0);
        assert_eq!(f16::from_f64(1.0 + 1.0 / 2048.0).to_f64(), 1.0);
        assert_eq!(f32::from_f64(1.0 + 2f64.powi(-24)).to_f64(), 1.0);
    }
}
