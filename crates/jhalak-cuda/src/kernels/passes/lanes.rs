//! How threads share rows: some neighbouring lanes of a warp take a row, chunk by chunk.
//!
//! ```text
//! 4 lanes, chunks of 8:   lane l holds columns 8·l to 8·l + 7, and of longer rows 32 + 8·l to …
//! ```

use jhalak_ptx::Comparison::Lt;
use jhalak_ptx::{B32, B64, Connective, F32, KernelBuilder, Pred};

use super::super::class::Access;
use super::super::element::Element;
use super::super::guarded::{load_float, load_vector_to};
use super::THREADS;

const WARP: u32 = 32;
const VECTOR_BYTES: u32 = 16;

/// The shares of the lanes.
#[derive(Clone, Copy)]
pub(crate) struct Split {
    columns: u32,
    /// Neighbouring columns that a lane takes at once.
    chunk: u32,
    /// Lanes of a row, a power of two.
    lanes: u32,
}

impl Split {
    /// For rows of so many columns, of tensors with these elements. For vectors, a row of each fills
    /// whole chunks.
    pub(crate) fn new(access: Access, elements: &[Element], columns: u32) -> Self {
        let narrowest = elements.iter().map(|element| element.bytes()).min();
        let chunk = match (access, narrowest) {
            (Access::Vectors, Some(bytes)) => VECTOR_BYTES / bytes,
            _ => 1,
        };
        let lanes = columns.div_ceil(chunk).next_power_of_two().min(WARP);
        Split { columns, chunk, lanes }
    }

    /// Rows that a block takes at once.
    pub(crate) fn rows(self) -> u32 {
        THREADS / self.lanes
    }

    /// Chunks of a lane.
    fn rounds(self) -> u32 {
        self.columns.div_ceil(self.chunk * self.lanes)
    }
}

/// Where a row begins.
#[derive(Clone, Copy)]
pub(crate) struct RowPlace {
    pub(crate) first: B64,
    /// Bytes from one column to the next, where that is not the element's size.
    pub(crate) column: Option<B64>,
}

/// A thread's share.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    split: Split,
    /// The lane, of those of its row.
    pub(crate) lane: B32,
    /// The row, of those that the block takes at once.
    pub(crate) row: B32,
}

impl Lanes {
    pub(crate) fn new(k: &mut KernelBuilder, split: Split) -> Self {
        let thread = k.tid_x();
        let row = k.shr_u32(thread, split.lanes.ilog2());
        Lanes { split, lane: k.and_b32(thread, split.lanes - 1), row }
    }

    /// The lane's values of a row, where the condition holds; elsewhere zeros.
    pub(crate) fn load(
        &self,
        k: &mut KernelBuilder,
        element: Element,
        row: RowPlace,
        condition: Pred,
    ) -> Vec<F32> {
        let mut values = Vec::new();
        for (column, inside) in self.chunks(k, condition) {
            if self.split.chunk == 1 {
                let place = place(k, element, row, column);
                values.push(load_float(k, element, inside, place));
                continue;
            }
            let first = k.mad_wide_u32(column, element.bytes(), row.first);
            for vector in 0..self.vectors(element) {
                let bits: [B32; 4] = k.registers();
                load_vector_to(k, bits, inside, (first, vector * VECTOR_BYTES));
                for bits in bits {
                    values.extend(floats(k, element, bits));
                }
            }
        }
        values
    }

    /// Writes the lane's values of a row, rounded to the element, where the condition holds.
    pub(crate) fn store(
        &self,
        k: &mut KernelBuilder,
        element: Element,
        row: RowPlace,
        values: &[F32],
        condition: Pred,
    ) {
        let chunks = self.chunks(k, condition);
        for ((column, inside), values) in
            chunks.into_iter().zip(values.chunks_exact(self.split.chunk as usize))
        {
            if let [value] = *values {
                let place = place(k, element, row, column);
                k.if_(inside, |k| element.store(k, place, value));
                continue;
            }
            let first = k.mad_wide_u32(column, element.bytes(), row.first);
            let bits: Vec<B32> = match element {
                Element::F32 => values.iter().map(|&value| k.bits_of_f32(value)).collect(),
                _ => values.chunks(2).map(|pair| element.pack(k, pair[0], pair[1])).collect(),
            };
            for (vector, bits) in (0..).zip(bits.chunks_exact(4)) {
                let bits: [B32; 4] = std::array::from_fn(|n| bits[n]);
                k.when(inside, |k| k.st_vector((first, vector * VECTOR_BYTES), bits));
            }
        }
    }

    /// The sum over the lanes of a row, in each of them.
    pub(crate) fn sum(&self, k: &mut KernelBuilder, value: F32) -> F32 {
        self.combine(k, value, |k, a, b| k.add_f32(a, b))
    }

    /// Combines the values of a row's lanes; the result is in each of them.
    pub(crate) fn combine(
        &self,
        k: &mut KernelBuilder,
        mut value: F32,
        combine: impl Fn(&mut KernelBuilder, F32, F32) -> F32,
    ) -> F32 {
        let mut mask = self.split.lanes / 2;
        while mask > 0 {
            let other = k.shfl_bfly_f32(value, mask);
            value = combine(k, value, other);
            mask /= 2;
        }
        value
    }

    /// The same lanes, for rows of so many floats, in vectors.
    pub(crate) fn of_vectors(&self, columns: u32) -> Self {
        let split = Split { columns, chunk: VECTOR_BYTES / 4, lanes: self.split.lanes };
        Lanes { split, ..*self }
    }

    /// How many values a lane has of a row.
    pub(crate) fn values(&self) -> usize {
        (self.split.rounds() * self.split.chunk) as usize
    }

    /// How many lanes share a row.
    pub(crate) fn count(&self) -> u32 {
        self.split.lanes
    }

    /// The first columns of the lane's chunks, and whether they are in the row and the condition
    /// holds.
    fn chunks(&self, k: &mut KernelBuilder, condition: Pred) -> Vec<(B32, Pred)> {
        let Split { columns, chunk, lanes } = self.split;
        let first = k.mul_lo_u32(self.lane, chunk);
        let mut chunks = Vec::new();
        for round in 0..self.split.rounds() {
            let column = k.add_u32(first, round * lanes * chunk);
            let inside = if (round + 1) * lanes * chunk <= columns {
                condition
            } else {
                k.setp_u32_with(Lt, column, columns, Connective::And, condition)
            };
            chunks.push((column, inside));
        }
        chunks
    }

    /// Vectors of a chunk.
    fn vectors(&self, element: Element) -> u32 {
        self.split.chunk * element.bytes() / VECTOR_BYTES
    }
}

fn place(k: &mut KernelBuilder, element: Element, row: RowPlace, column: B32) -> B64 {
    match row.column {
        None => k.mad_wide_u32(column, element.bytes(), row.first),
        Some(stride) => {
            let column = k.cvt_u64_u32(column);
            k.mad_lo_u64(column, stride, row.first)
        }
    }
}

/// The floats that 32 bits hold: one, or two of a 16-bit type.
fn floats(k: &mut KernelBuilder, element: Element, bits: B32) -> Vec<F32> {
    match element {
        Element::F32 => vec![k.f32_of_bits(bits)],
        Element::F16 => k.unpack_b32(bits).map(|half| k.cvt_f32_f16(half)).to_vec(),
        Element::Bf16 => {
            let (low, high) = (k.shl_b32(bits, 16), k.and_b32(bits, u32::MAX << 16));
            vec![k.f32_of_bits(low), k.f32_of_bits(high)]
        }
    }
}
