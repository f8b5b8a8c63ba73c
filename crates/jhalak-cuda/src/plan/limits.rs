//! What a device offers and what it cannot do.

use jhalak_problem::{DType, Error, Problem, Result};
use jhalak_ptx::Target;

use super::path::Reason;
use crate::driver::Properties;
use crate::kernels::Element;

/// The largest head dimension of the kernels.
const MAX_HEAD_DIM: usize = 256;
/// The most rows of q or of k: positions and their differences then fit 32 bits with room to spare.
const MAX_ROWS: usize = 1 << 29;
/// The most heads: they are the second dimension of the grid (CUDA programming guide, table of
/// compute capabilities).
const MAX_HEADS: usize = 65_535;

/// What kernels are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The architecture that kernels are written for.
    pub target: Target,
    /// The most shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Multiprocessors, each of which runs a block or more at once.
    pub multiprocessors: u32,
    /// Whether there are kernels for Hopper; if not, why.
    pub hopper: Result<(), Reason>,
}

impl Limits {
    /// Those of a target's smallest device. Of [`Target::Sm90a`], that is Hopper, beside the portable
    /// kernels.
    pub fn of(target: Target) -> Self {
        let hopper = if target == Target::Sm90a { Ok(()) } else { Err(Reason::Device) };
        let target = target.min(Target::Sm80);
        let shared_bytes = match target {
            // sm_86 has less than sm_80.
            Target::Sm80 => 99 * 1024,
            other => other.max_shared_bytes(),
        };
        Limits { target, shared_bytes, multiprocessors: 16, hopper }
    }

    /// Those of a device with these properties.
    ///
    /// # Errors
    /// [`Error::Environment`] for a device older than sm_75.
    pub fn of_device(properties: &Properties) -> Result<Self> {
        let (major, minor) = properties.compute_capability;
        let target = match (major, minor) {
            (0..7, _) | (7, 0..5) => {
                return Err(Error::Environment(format!(
                    "GPU kernels need compute capability 7.5 or newer, this device has \
                     {major}.{minor}"
                )));
            }
            (7, _) => Target::Sm75,
            _ => Target::Sm80,
        };
        let shared_bytes = properties.shared_memory_per_block.min(target.max_shared_bytes());
        let hopper = if (major, minor) == (9, 0) { Ok(()) } else { Err(Reason::Device) };
        Ok(Limits { target, shared_bytes, multiprocessors: properties.multiprocessors, hopper })
    }

    /// The same for the portable kernels alone.
    pub fn portable(self) -> Self {
        Limits { hopper: Err(Reason::Asked), ..self }
    }

    /// The element of a call, if kernels can run it.
    ///
    /// # Errors
    /// An [`Error`] that names what the device or the kernels cannot do.
    pub(super) fn check(self, problem: &Problem<'_>) -> Result<Element> {
        let element = self.check_dtype("q", problem.dtype())?;
        let tensors = problem.tensors();
        let rows = |shape: &[usize]| shape[shape.len() - 3];
        at_most("head_dim D", MAX_HEAD_DIM, problem.head_dim())?;
        check_size(problem.heads_q(), rows(tensors.q.shape()), problem.head_dim_v())?;
        at_most("the rows of k", MAX_ROWS, rows(tensors.k.shape()))?;
        if let (Some((q, k)), true) = (problem.starts(), problem.has_alibi())
            && (q - k).unsigned_abs() > MAX_ROWS as u64
        {
            let expected = "within ±2^29 with ALiBi on a GPU".to_owned();
            return Err(Error::Value {
                argument: "q_start - k_start",
                expected,
                got: (q - k).to_string(),
            });
        }
        Ok(element)
    }

    /// The element of a dtype, if kernels have it.
    ///
    /// # Errors
    /// [`Error::DType`] if not.
    pub(super) fn check_dtype(self, argument: &'static str, dtype: DType) -> Result<Element> {
        match Element::of(dtype) {
            Some(Element::Bf16) if self.target < Target::Sm80 => {}
            Some(element) => return Ok(element),
            None => {}
        }
        let expected = match self.target {
            Target::Sm75 => "f32 or f16 on this GPU",
            _ => "f32, f16 or bf16 on a GPU",
        };
        Err(Error::DType { argument, expected: expected.into(), got: dtype })
    }
}

/// Whether kernels can run so many query heads, rows of each, and columns of out.
///
/// # Errors
/// [`Error::Value`] if not.
pub(super) fn check_size(heads: usize, rows: usize, head_dim_v: usize) -> Result<()> {
    at_most("head_dim Dv", MAX_HEAD_DIM, head_dim_v)?;
    at_most("the number of query heads", MAX_HEADS, heads)?;
    at_most("the rows of q", MAX_ROWS, rows)
}

fn at_most(argument: &'static str, most: usize, got: usize) -> Result<()> {
    if got <= most {
        return Ok(());
    }
    let expected = format!("at most {most} on a GPU");
    Err(Error::Value { argument, expected, got: got.to_string() })
}
