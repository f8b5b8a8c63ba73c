//! Short queries against long contexts: parts of the keys go to blocks of their own, so that all of
//! the GPU has work (Dao et al., 2023, "Flash-Decoding for long-context inference").

use jhalak_problem::{Problem, Result};

use super::forward::{ForwardPlan, Shape};
use super::hopper;
use super::limits::Limits;
use super::place::Place;
use super::tensors::Tensors;
use crate::kernels::portable::shared_bytes;
use crate::kernels::{Axis, ForwardClass, Tensor};

/// The axes of results of parts.
pub(super) const PARTS: &[Axis] = &[Axis::Part, Axis::Batch, Axis::Row, Axis::Head, Axis::Column];
/// The axes of their lse.
pub(super) const PART_NUMBERS: &[Axis] = &[Axis::Part, Axis::Batch, Axis::Head, Axis::Row];
/// A part of fewer keys is not worth its results' way through memory.
const LEAST_KEYS: u32 = 512;
/// The most parts of a call: beyond them merging takes longer than what it saves.
const MOST: u32 = 128;
/// The largest second dimension of a grid (CUDA programming guide, compute capabilities).
const MAX_GRID_Y: u32 = 65_535;
/// Threads that a multiprocessor runs with all of a thread's registers.
const RESIDENT_THREADS: u32 = 256;
/// What a workspace begins at a multiple of.
const ALIGN: usize = 256;

/// Results over parts of the keys of one call, in the device's memory: floats in row-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitWorkspace {
    /// The number of parts.
    pub parts: u32,
    /// The address of the outs, a multiple of 16: [parts, B, Sq, Hq, Dv], or
    /// [parts, total_q, Hq, Dv] of packed sequences.
    pub out: u64,
    /// The address of the lses: [parts, B, Hq, Sq] or [parts, Hq, total_q].
    pub lse: u64,
}

impl SplitWorkspace {
    /// Bytes that so many parts of a call take.
    pub fn bytes(problem: &Problem<'_>, parts: u32) -> usize {
        out_bytes(problem, parts) + 4 * parts as usize * product(&problem.lse_shape())
    }

    /// A workspace of [`bytes`](Self::bytes) at this address, a multiple of 256.
    pub fn at(address: u64, problem: &Problem<'_>, parts: u32) -> Self {
        SplitWorkspace { parts, out: address, lse: address + out_bytes(problem, parts) as u64 }
    }

    /// The tensors of a call whose results go here; `out` is the shape of its out.
    pub(super) fn results(&self, tensors: Tensors, out: &[usize]) -> Tensors {
        let [outs, lses] = self.places(out);
        tensors.with_place(Tensor::Out, outs).with_place(Tensor::Lse, lses)
    }

    /// Where the outs and the lses are.
    pub(super) fn places(&self, out: &[usize]) -> [Place; 2] {
        let (storages, rows, heads, columns) = match *out {
            [storages, rows, heads, columns] => (storages, rows, heads, columns),
            _ => (1, out[0], out[1], out[2]),
        };
        let parts = self.parts as usize;
        let outs = [parts, storages, rows, heads, columns];
        let lses = [parts, storages, heads, rows];
        [Place::of_floats(self.out, &outs, PARTS), Place::of_floats(self.lse, &lses, PART_NUMBERS)]
    }
}

fn out_bytes(problem: &Problem<'_>, parts: u32) -> usize {
    (4 * parts as usize * product(&problem.out_shape())).next_multiple_of(ALIGN)
}

fn product(shape: &[usize]) -> usize {
    shape.iter().product()
}

impl ForwardPlan {
    /// How many parts the keys of a call are best split into; 1 if its rows fill the GPU.
    ///
    /// # Errors
    /// An [`Error`](jhalak_problem::Error) that names what the device or the kernels cannot do.
    pub fn parts(problem: &Problem<'_>, limits: Limits) -> Result<u32> {
        let element = limits.check(problem)?;
        let tensors = Tensors::of_problem(problem);
        let Some(shape) = Shape::new(problem, limits, element, &tensors, true)? else {
            return Ok(1);
        };
        let whole = ForwardClass { split: false, ..shape.class };
        if hopper::class(problem, limits, &tensors, &whole).is_ok() {
            return Ok(1);
        }
        let tile = shape.class.tile;
        let per_multiprocessor = (RESIDENT_THREADS / tile.threads())
            .min(limits.shared_bytes / shared_bytes(&shape.class))
            .max(1);
        let blocks = u64::from(shape.blocks) * u64::from(shape.heads);
        let most = u64::from(limits.multiprocessors) * u64::from(per_multiprocessor);
        // Rows that fill half of the GPU are left alone: merging has its price too.
        if 2 * blocks > u64::from(limits.multiprocessors) {
            return Ok(1);
        }
        let (left, right) = problem.window();
        let (_, keys) = problem.max_seqlens();
        let band = left.saturating_add(right).saturating_add(i64::from(tile.rows));
        let keys = (keys as u64).min(band.cast_unsigned());
        let worthwhile = keys / u64::from(LEAST_KEYS.max(tile.keys));
        let most = (most / blocks).min(u64::from(MAX_GRID_Y / shape.heads));
        Ok(most.min(worthwhile).clamp(1, u64::from(MOST)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jhalak_problem::{Attention, DType, Device, TensorView};
    use jhalak_ptx::Target;

    fn parts(
        attention: &Attention<'_>,
        [batch, queries, keys]: [usize; 3],
        heads: [usize; 2],
    ) -> u32 {
        let view = |rows, heads| {
            let shape = [batch, rows, heads, 128];
            let strides = [rows * heads * 128, heads * 128, 128, 1].map(|s| s as isize);
            let at = std::ptr::without_provenance(1 << 20);
            // SAFETY: the host reads nothing of another device's memory.
            unsafe { TensorView::from_raw(at, DType::BF16, Device::Cuda(0), &shape, &strides) }
                .unwrap()
        };
        let (q, k) = (view(queries, heads[0]), view(keys, heads[1]));
        let limits = Limits { multiprocessors: 132, ..Limits::of(Target::Sm80) };
        ForwardPlan::parts(&Problem::new(attention, q, k, k).unwrap(), limits).unwrap()
    }

    #[test]
    fn keys_are_split_as_far_as_the_gpu_has_room_and_the_parts_are_worth_it() {
        let plain = Attention::new();
        // 132 multiprocessors with 2 blocks of 48 KiB in 99 KiB each.
        assert_eq!(parts(&plain, [1, 1, 100_000], [8, 2]), 128);
        assert_eq!(parts(&plain, [1, 1, 100_000], [32, 8]), 264 / 8);
        assert_eq!(parts(&plain, [1, 1, 4096], [32, 8]), 8);
        assert_eq!(parts(&plain, [1, 1, 1000], [32, 8]), 1);
        assert_eq!(parts(&plain, [16, 1, 100_000], [32, 8]), 1);
        assert_eq!(parts(&plain, [1, 4096, 4096], [16, 16]), 1);
        let window = Attention::new().causal().window(1023, 0);
        assert_eq!(parts(&window, [1, 1, 100_000], [32, 8]), 2);
    }
}
