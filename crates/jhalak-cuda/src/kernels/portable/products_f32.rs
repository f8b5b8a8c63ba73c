//! The two products of the forward pass in single precision, by fused multiply-adds. A thread holds
//! what it would hold of the fragments of a matrix product, so that all else is the same.

use jhalak_ptx::{B32, F32, KernelBuilder};

use super::super::element::Element;
use super::super::softmax::Fragments;
use super::super::thread::Thread;
use super::copy::{padded, pitch};

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
        k.for_range(0, padded(Element::F32, self.head_dim) * 4, 16, |k, column| {
            let (q, keys) = (k.add_u32(self.q, column), k.add_u32(self.k, column));
            for (f, s) in s.iter().enumerate() {
                let rows: [[F32; 4]; 2] =
                    [0, 8].map(|r| k.ld_vector((q, (16 * f as u32 + r) * pitch)));
                for (n, s) in s.iter().enumerate() {
                    let cols: [[F32; 4]; 2] =
                        [0, 1].map(|c| k.ld_vector((keys, (8 * n as u32 + c) * pitch)));
                    for (c, &sum) in s.iter().enumerate() {
                        for d in 0..4 {
                            k.fma_f32_to(sum, rows[c / 2][d], cols[c % 2][d], sum);
                        }
                    }
                }
            }
        });
    }

    /// O += P·V
    pub(crate) fn values(&self, k: &mut KernelBuilder, p: &Fragments, o: &Fragments) {
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
                    for column in 0..o[0].len() {
                        let v: [F32; 2] = k.ld_vector((place, key * pitch + 32 * column as u32));
                        for (o, weights) in o.iter().zip(&weights) {
                            for (c, &sum) in o[column].iter().enumerate() {
                                k.fma_f32_to(sum, weights[c / 2], v[c % 2], sum);
                            }
                        }
                    }
                }
            });
        }
    }
}
