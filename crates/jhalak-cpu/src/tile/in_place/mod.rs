//! Products of a few rows with keys and values as they lie in memory, widened on the way into
//! registers: nothing is packed, so each byte is read from memory once.
//!
//! ```text
//! scores   for each few keys:      for each few rows:    q·k, vectors along D, added up at the end
//! outputs  for each few columns:   for each few rows:    Σ_key w·v, vectors along Dv
//! ```
//!
//! Each number that comes out is summed in an order of its own: how rows, keys or columns are
//! grouped never shows in it.

mod outputs;
mod scores;

use half::{bf16, f16};
use jhalak_problem::{DType, Matrix};

pub(crate) use outputs::Outputs;
pub(crate) use scores::Scores;

use crate::isa::{Float, Isa, Op};

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// As the instruction set computes with them.
    Wide,
    F16,
    Bf16,
}

/// A vector of stored numbers, widened.
trait Stored {
    /// # Safety
    /// LANES stored numbers from `ptr` on are readable; any alignment.
    unsafe fn load<I: Isa>(isa: I, ptr: *const u8) -> I::Vec;
    fn bytes<I: Isa>() -> usize;
}

struct Wide;
struct F16;
struct Bf16;

macro_rules! stored {
    ($format:ty, $load:ident, $bytes:expr) => {
        impl Stored for $format {
            #[inline(always)]
            unsafe fn load<I: Isa>(isa: I, ptr: *const u8) -> I::Vec {
                // SAFETY: the caller's promise.
                unsafe { isa.$load(ptr.cast()) }
            }
            #[inline(always)]
            fn bytes<I: Isa>() -> usize {
                $bytes
            }
        }
    };
}

stored!(Wide, load, size_of::<I::Elem>());
stored!(F16, widen_f16, size_of::<f16>());
stored!(Bf16, widen_bf16, size_of::<bf16>());

/// Rows whose columns are whole vectors, one number after the other.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    ptr: *const u8,
    /// Bytes from one row to the next.
    stride: isize,
    format: Format,
}

impl Rows {
    /// A tensor's rows from `first` on, if they can be read a vector at a time.
    pub(crate) fn of_matrix<I: Isa>(matrix: &Matrix<'_>, first: usize) -> Option<Self> {
        let format = match matrix.dtype() {
            DType::F16 => Format::F16,
            DType::BF16 => Format::Bf16,
            _ => Format::Wide,
        };
        let whole = matrix.col_stride() == 1 && matrix.cols().is_multiple_of(I::LANES);
        let stride = matrix.row_stride() * matrix.dtype().size() as isize;
        whole.then(|| Rows { ptr: matrix.element_ptr(first, 0), stride, format })
    }

    /// Rows of `stride` elements each in work space.
    pub(crate) fn of_slice<E>(rows: &[E], stride: usize) -> Self {
        let stride = (stride * size_of::<E>()) as isize;
        Rows { ptr: rows.as_ptr().cast(), stride, format: Format::Wide }
    }

    #[inline(always)]
    fn row(&self, n: usize) -> *const u8 {
        self.ptr.wrapping_offset(n as isize * self.stride)
    }
}

/// Runs `$body` with `$stored` standing for the type of a format.
macro_rules! with_format {
    ($format:expr, $stored:ident => $body:expr) => {
        match $format {
            $crate::tile::in_place::Format::Wide => {
                type $stored = $crate::tile::in_place::Wide;
                $body
            }
            $crate::tile::in_place::Format::F16 => {
                type $stored = $crate::tile::in_place::F16;
                $body
            }
            $crate::tile::in_place::Format::Bf16 => {
                type $stored = $crate::tile::in_place::Bf16;
                $body
            }
        }
    };
}
use with_format;

/// Whether all numbers of some rows of all heads are finite. Reads them in the order of
/// [`Scores`], so that what follows finds them in the caches.
///
/// # Safety
/// `rows` rows of `width` columns, a multiple of LANES, are readable of each head.
pub(crate) unsafe fn all_finite<I: Isa>(isa: I, heads: &[Rows], rows: usize, width: usize) -> bool {
    debug_assert!(width.is_multiple_of(I::LANES));
    isa.run(AllFinite { isa, heads, rows, width })
}

struct AllFinite<'h, I: Isa> {
    isa: I,
    heads: &'h [Rows],
    rows: usize,
    width: usize,
}

impl<I: Isa> Op for AllFinite<'_, I> {
    type Output = bool;

    #[inline(always)]
    fn eval(self) -> bool {
        let Some(format) = self.heads.first().map(|head| head.format) else { return true };
        with_format!(format, S => self.check::<S>())
    }
}

impl<I: Isa> AllFinite<'_, I> {
    #[inline(always)]
    fn check<S: Stored>(&self) -> bool {
        /// Sums that do not wait for one another.
        const CHAINS: usize = 4;
        let isa = self.isa;
        let zero = isa.splat(I::Elem::ZERO);
        let mut checks = [zero; CHAINS];
        // SAFETY: the promise to `all_finite`. Finite numbers times 0 are 0, others NaN.
        let add = |check: &mut I::Vec, row: *const u8, column: usize| unsafe {
            let x = S::load(isa, row.wrapping_add(column * S::bytes::<I>()));
            *check = isa.fma(x, zero, *check);
        };
        let whole = self.width / (CHAINS * I::LANES) * (CHAINS * I::LANES);
        for row in 0..self.rows {
            for head in self.heads {
                let numbers = head.row(row);
                for column in (0..whole).step_by(CHAINS * I::LANES) {
                    for (n, check) in checks.iter_mut().enumerate() {
                        add(check, numbers, column + n * I::LANES);
                    }
                }
                for column in (whole..self.width).step_by(I::LANES) {
                    add(&mut checks[0], numbers, column);
                }
            }
        }
        checks.iter().all(|&check| isa.reduce_add(check) == I::Elem::ZERO)
    }
}

#[cfg(test)]
mod tests;
