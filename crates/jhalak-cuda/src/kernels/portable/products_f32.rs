//! The two products of the forward pass in single precision, by fused multiply-adds. A thread holds
//! what it would hold of the fragments of a matrix product, so that all else is the same.

use jhalak_ptx::{B32, F32, KernelBuilder};

use super::super::element::Element;
use super::super::softmax::Fragments;
use super::super::thread::Thread;
use super::copy::{padded, pitch};

/// Columns whose products are added up before they are added to a score: sums of sums lose less.
const COLUMNS_AT_ONCE: u32 = 8;
/// Fragments of results that are added up over a tile of keys before they join those before.
const FRAGMENTS_AT_ONCE: usize = 4;

/// What matrices of floats are multiplied with.
#[derive(Clone, Copy)]
pub(crate) struct ProductsF32 {
    head_dim: u32,
    head_dim_v: u32,
    /// The thread's first row of q.
    q: B32,
    /// The thread's first key.
    k: B32,
    /// Row 0 of v, at the thread's first column.
    v: B32,
    /// The first of the 4 lanes that share rows.
    quad: B32,
}

impl ProductsF32 {
    /// For a warp whose first row of q is `first_row`, with tiles at these addresses.
    pub(crate) fn new(
        k: &mut KernelBuilder,
        thread: &Thread,
        [head_dim, head_dim_v]: [u32; 2],
        first_row: B32,
        [q, keys, v]: [B32; 3],
    ) -> Self {
        let pitch = pitch(Element::F32, head_dim);
        let row = k.add_u32(first_row, thread.row);
        ProductsF32 {
            head_dim,
            head_dim_v,
            q: k.mad_lo_u32(row, pitch, q),
            k: k.mad_lo_u32(thread.column, pitch, keys),
            v: k.mad_lo_u32(thread.column, 4, v),
            quad: k.and_b32(thread.lane, 28),
        }
    }

    /// S = Q·Kᵀ
    pub(crate) fn scores(&self, k: &mut KernelBuilder, s: &Fragments) {
        let pitch = pitch(Element::F32, self.head_dim);
        for value in s.iter().flatten().flatten() {
            k.mov_f32_to(*value, 0.0);
        }
        let bytes = padded(Element::F32, self.head_dim) * 4;
        k.for_range(0, bytes, 4 * COLUMNS_AT_ONCE, |k, column| {
            let (q, keys) = (k.add_u32(self.q, column), k.add_u32(self.k, column));
            for (f, s) in s.iter().enumerate() {
                let rows = [0, 8].map(|r| columns(k, q, (16 * f as u32 + r) * pitch));
                for (n, s) in s.iter().enumerate() {
                    let cols = [0, 1].map(|c| columns(k, keys, (8 * n as u32 + c) * pitch));
                    for (c, &sum) in s.iter().enumerate() {
                        let (row, col) = (&rows[c / 2], &cols[c % 2]);
                        let mut part = k.mul_f32(row[0], col[0]);
                        for (&a, &b) in row.iter().zip(col).skip(1) {
                            part = k.fma_f32(a, b, part);
                        }
                        k.add_f32_to(sum, sum, part);
                    }
                }
            }
        });
    }

    /// O += P·V
    pub(crate) fn values(&self, k: &mut KernelBuilder, p: &Fragments, o: &Fragments) {
        for first in (0..o[0].len()).step_by(FRAGMENTS_AT_ONCE) {
            let end = o[0].len().min(first + FRAGMENTS_AT_ONCE);
            let parts: Fragments = o
                .iter()
                .map(|_| (first..end).map(|_| [0; 4].map(|_| k.mov_f32(0.0))).collect())
                .collect();
            self.add_values(k, p, &parts, first);
            for (o, parts) in o.iter().zip(&parts) {
                for (sums, parts) in o[first..end].iter().zip(parts) {
                    for (&sum, &part) in sums.iter().zip(parts) {
                        k.add_f32_to(sum, sum, part);
                    }
                }
            }
        }
    }

    /// Adds a tile's P·V to the fragments from column fragment `first` on.
    fn add_values(&self, k: &mut KernelBuilder, p: &Fragments, sums: &Fragments, first: usize) {
        let pitch = pitch(Element::F32, self.head_dim_v);
        for n in 0..p[0].len() {
            k.for_range(0, 4, 1, |k, pair| {
                let lane = k.or_b32(self.quad, pair);
                let place = k.mad_lo_u32(pair, 2 * pitch, self.v);
                for odd in 0..2 {
                    let key = 8 * n as u32 + odd as u32;
                    let weights: Vec<[F32; 2]> = p
                        .iter()
                        .map(|p| [p[n][odd], p[n][2 + odd]].map(|p| k.shfl_idx_f32(p, lane)))
                        .collect();
                    for column in 0..sums[0].len() {
                        let offset = 32 * (first + column) as u32;
                        let v: [F32; 2] = k.ld_vector((place, key * pitch + offset));
                        for (sums, weights) in sums.iter().zip(&weights) {
                            for (c, &sum) in sums[column].iter().enumerate() {
                                k.fma_f32_to(sum, weights[c / 2], v[c % 2], sum);
                            }
                        }
                    }
                }
            });
        }
    }
}

/// The next columns of a row in shared memory.
fn columns(k: &mut KernelBuilder, row: B32, offset: u32) -> Vec<F32> {
    (0..COLUMNS_AT_ONCE / 4)
        .flat_map(|n| -> [F32; 4] { k.ld_vector((row, offset + 16 * n)) })
        .collect()
}
