//! The products of a warpgroup: S = Q·Kᵀ with both in shared memory, O += P·V with P in registers.

use jhalak_ptx::{B32, Descriptor, F32, KernelBuilder, LeftMatrix, MatrixLayout, Pred, Source};

use super::super::element::Element;
use super::forward::Kernel;
use super::memory::{PANEL, ROW_BYTES, SWIZZLE, tile_bytes};

/// Keys or columns that one product sums over, and their bytes.
pub(super) const DEPTH: u32 = 16;
const DEPTH_BYTES: u32 = 32;

/// Where a warpgroup's matrices are.
pub(super) struct Products {
    element: Element,
    /// D.
    head_dim: u32,
    tile_rows: u32,
    tile_keys: u32,
    tile_bytes: [u32; 3],
    /// Of the first tile in each ring; of Q, the warpgroup's rows.
    k: Descriptor,
    v: Descriptor,
    q: Descriptor,
}

impl Products {
    /// For warpgroup `index`.
    pub(super) fn new(k: &mut KernelBuilder, kernel: &Kernel<'_>, index: B32) -> Self {
        let (class, memory) = (&kernel.class.attention, &kernel.memory);
        let tile = class.tile;
        let q = k.mad_lo_u32(index, 64 * ROW_BYTES, memory.q);
        Products {
            element: class.element,
            head_dim: class.head_dim,
            tile_rows: tile.rows,
            tile_keys: tile.keys,
            tile_bytes: tile_bytes(kernel.class),
            k: k.descriptor(memory.k, MatrixLayout::k_major(SWIZZLE)),
            v: k.descriptor(memory.v, MatrixLayout::mn_major(SWIZZLE, tile.keys * ROW_BYTES)),
            q: k.descriptor(q, MatrixLayout::k_major(SWIZZLE)),
        }
    }

    /// Begins the products of the tiles of Q and of K at these places of their rings.
    pub(super) fn scores(&self, k: &mut KernelBuilder, scores: &[F32], q: B32, keys: B32) {
        let [k_bytes, _, q_bytes] = self.tile_bytes;
        let q = k.descriptor_at(self.q, q, q_bytes);
        let keys = k.descriptor_at(self.k, keys, k_bytes);
        k.wgmma_fence();
        for step in 0..self.head_dim.div_ceil(DEPTH) {
            let (panel, within) = (step * DEPTH / PANEL, step * DEPTH % PANEL);
            let place =
                |rows: u32| (panel * rows * ROW_BYTES + within / DEPTH * DEPTH_BYTES).cast_signed();
            let a = k.descriptor_advance(q, place(self.tile_rows));
            let b = k.descriptor_advance(keys, place(self.tile_keys));
            self.multiply(k, scores, a.into(), b, step > 0);
        }
        k.wgmma_commit_group();
    }

    /// Begins to add the products of the weights and the tile of V at this place of its ring.
    pub(super) fn values(&self, k: &mut KernelBuilder, results: &[F32], weights: &[B32], v: B32) {
        let [_, v_bytes, _] = self.tile_bytes;
        let v = k.descriptor_at(self.v, v, v_bytes);
        k.wgmma_fence();
        for (step, weights) in (0..).zip(weights.chunks_exact(4)) {
            let a = LeftMatrix::Registers([weights[0], weights[1], weights[2], weights[3]]);
            let b = k.descriptor_advance(v, step * (DEPTH * ROW_BYTES).cast_signed());
            self.multiply(k, results, a, b, true);
        }
        k.wgmma_commit_group();
    }

    fn multiply(
        &self,
        k: &mut KernelBuilder,
        sums: &[F32],
        a: LeftMatrix,
        b: Descriptor,
        accumulate: impl Into<Source<Pred>>,
    ) {
        match self.element {
            Element::F16 => k.wgmma_f16(sums, a, b, accumulate),
            _ => k.wgmma_bf16(sums, a, b, accumulate),
        }
    }
}
