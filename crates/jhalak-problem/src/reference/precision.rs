//! [`Precision`]: what each step of the reference is rounded to.

use half::{bf16, f16};

use crate::dtype::DType;

/// Rounding of stored values (`store`) and of sums (`sum`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Precision {
    stored: DType,
    sums: DType,
}

impl Precision {
    /// f64 throughout.
    pub(super) const EXACT: Precision = Precision { stored: DType::F64, sums: DType::F64 };

    /// Values stored in `dtype`, sums in f32.
    pub(super) fn of(dtype: DType) -> Self {
        let sums = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        Precision { stored: dtype, sums }
    }

    /// Whether nothing is rounded on purpose.
    pub(super) fn is_exact(self) -> bool {
        self.sums == DType::F64
    }

    /// A value as it is kept between steps.
    pub(super) fn store(self, x: f64) -> f64 {
        round(self.stored, x)
    }

    /// An element of out, which may be kept in a wider type.
    pub(super) fn out(self, dtype: DType, x: f64) -> f64 {
        if self.is_exact() { x } else { round(dtype, x) }
    }

    /// A value as it is inside a step.
    pub(super) fn sum(self, x: f64) -> f64 {
        round(self.sums, x)
    }

    /// a·b summed over the pairs.
    pub(super) fn dot(self, pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
        pairs.fold(0.0, |sum, (a, b)| self.sum(sum + a * b))
    }
}

/// The nearest number of `dtype`.
fn round(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::F16 => f16::from_f64(x).to_f64(),
        DType::BF16 => bf16::from_f64(x).to_f64(),
        _ => x,
    }
}
