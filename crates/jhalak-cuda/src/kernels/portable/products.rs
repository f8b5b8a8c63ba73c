//! The two products of the forward pass, of a warp's 16-bit rows, by tensor cores.
//!
//! S = Q·Kᵀ takes its fragments from shared memory by ldmatrix. In O += P·V the weights are already
//! where a left fragment wants them: a thread holds the same rows and columns of both kinds.

use jhalak_ptx::{B32, F32, KernelBuilder, Target};

use super::super::element::Element;
use super::super::softmax::Fragments;
use super::super::thread::Thread;
use super::copy::pitch;

/// What matrices of 16-bit numbers are multiplied with.
#[derive(Clone, Copy)]
pub(crate) struct Products {
    element: Element,
    head_dim: u32,
    head_dim_v: u32,
    /// Where the lane's row of q, of k and of v begins, for ldmatrix.
    q: B32,
    k: B32,
    v: B32,
}

impl Products {
    /// For a warp whose first row of q is `first_row`, with tiles at these addresses.
    pub(crate) fn new(
        k: &mut KernelBuilder,
        thread: &Thread,
        element: Element,
        [head_dim, head_dim_v]: [u32; 2],
        first_row: B32,
        [q, keys, v]: [B32; 3],
    ) -> Self {
        let (pitch_qk, pitch_v) = (pitch(element, head_dim), pitch(element, head_dim_v));
        let (low, high) = (k.and_b32(thread.lane, 15), k.shr_u32(thread.lane, 4));
        let row = k.add_u32(first_row, low);
        let place = k.mad_lo_u32(row, pitch_qk, q);
        let q = k.mad_lo_u32(high, 16, place);
        let place = k.mad_lo_u32(low, pitch_v, v);
        let v = k.mad_lo_u32(high, 16, place);
        // Matrices of k: 8 keys, their next 8 columns, then the same of the next 8 keys.
        let row = k.and_b32(thread.lane, 7);
        let row = k.mad_lo_u32(high, 8, row);
        let column = k.bfe_u32(thread.lane, 3, 1);
        let place = k.mad_lo_u32(row, pitch_qk, keys);
        let keys = k.mad_lo_u32(column, 16, place);
        Products { element, head_dim, head_dim_v, q, k: keys, v }
    }

    /// S = Q·Kᵀ
    pub(crate) fn scores(&self, k: &mut KernelBuilder, s: &Fragments) {
        let pitch = pitch(self.element, self.head_dim);
        let zero = k.mov_f32(0.0);
        for step in 0..self.head_dim.div_ceil(16) {
            let a: Vec<[B32; 4]> = (0..s.len() as u32)
                .map(|f| k.ldmatrix((self.q, f * 16 * pitch + step * 32)))
                .collect();
            for pair in 0..s[0].len() / 2 {
                let [b0, b1, b2, b3] = k.ldmatrix((self.k, pair as u32 * 16 * pitch + step * 32));
                for (s, a) in s.iter().zip(&a) {
                    for (d, b) in [(s[2 * pair], [b0, b1]), (s[2 * pair + 1], [b2, b3])] {
                        let c = if step == 0 { [zero; 4] } else { d };
                        multiply(k, self.element, d, *a, b, c);
                    }
                }
            }
        }
    }

    /// O += P·V
    pub(crate) fn values(&self, k: &mut KernelBuilder, p: &Fragments, o: &Fragments) {
        let pitch = pitch(self.element, self.head_dim_v);
        for step in 0..p[0].len() / 2 {
            let a: Vec<[B32; 4]> = p
                .iter()
                .map(|p| {
                    let [[a0, a1, a2, a3], [a4, a5, a6, a7]] = [p[2 * step], p[2 * step + 1]];
                    [(a0, a1), (a2, a3), (a4, a5), (a6, a7)]
                        .map(|(low, high): (F32, F32)| self.element.pack(k, low, high))
                })
                .collect();
            for pair in 0..o[0].len().div_ceil(2) {
                let place = (self.v, step as u32 * 16 * pitch + pair as u32 * 32);
                let [b0, b1, b2, b3] = k.ldmatrix_trans(place);
                for (o, a) in o.iter().zip(&a) {
                    multiply(k, self.element, o[2 * pair], *a, [b0, b1], o[2 * pair]);
                    if let Some(&o) = o.get(2 * pair + 1) {
                        multiply(k, self.element, o, *a, [b2, b3], o);
                    }
                }
            }
        }
    }
}

/// d = a · b + c of 16 × 8, depth 16.
pub(crate) fn multiply(
    k: &mut KernelBuilder,
    element: Element,
    d: [F32; 4],
    a: [B32; 4],
    b: [B32; 2],
    c: [F32; 4],
) {
    match element {
        Element::Bf16 => k.mma_m16n8k16_bf16(d, a, b, c),
        _ if k.target() >= Target::Sm80 => k.mma_m16n8k16_f16(d, a, b, c),
        _ => {
            k.mma_m16n8k8_f16(d, [a[0], a[1]], [b[0]], c);
            k.mma_m16n8k8_f16(d, [a[2], a[3]], [b[1]], d);
        }
    }
}
