//! [`Arithmetic`]: the number formats and products of a forward pass; [`Wide`]: everything in
//! f32 (or f64).
//!
//! Operands are packed so that the register-tiled products read them in order:
//!
//! ```text
//! keys    panels of NR keys, each [D][NR]: lane = key    S += q[d] · panel[d][0..NR]
//! values  panels of NR columns, each [keys of a block][NR]  O += p[key] · panel[key][0..NR]
//! ```

use jhalak_problem::Matrix;

use crate::isa::{Float, Isa};
use crate::memory::Zeroable;
use crate::pack::{all_finite, lay_panels, load_rows, transpose_panel};
use crate::softcap::Softcap;
use crate::tile::gemm::{Gemm, Init, Left, Product, Right};
use crate::tile::softmax::{SoftmaxRows, SoftmaxStep};

/// The element type of scores, sums and outputs.
pub(crate) type Elem<A> = <<A as Arithmetic>::Isa as Isa>::Elem;

/// How the operands of a forward pass are stored and multiplied.
pub(crate) trait Arithmetic: Copy + Send + Sync {
    /// The instructions for scores, softmax and outputs.
    type Isa: Isa<Elem: Softcap>;
    /// What packed queries, keys, values and weights are made of.
    type Operand: Zeroable;

    /// The instructions' token.
    fn isa(self) -> Self::Isa;

    /// Columns of a score tile for `keys` keys.
    fn pad_keys(keys: usize) -> usize {
        Self::Isa::pad(keys)
    }
    /// Operands per packed query row.
    fn query_stride(head_dim: usize) -> usize;
    /// Operands per panel of [`Isa::NR`] keys.
    fn key_panel(head_dim: usize) -> usize;
    /// Operands per `keys` rows of values, an even number.
    fn values(keys: usize, head_dim_v: usize) -> usize {
        keys * head_dim_v.next_multiple_of(Self::Isa::NR)
    }
    /// Operands that the weights of a score tile of `elements` take beside it; 0 where they
    /// replace the scores.
    fn weights(elements: usize) -> usize;

    /// Packs one query row.
    ///
    /// # Safety
    /// Host memory; `row` inside `q`; `dst` holds one [`query_stride`](Self::query_stride).
    unsafe fn pack_query(self, q: &Matrix<'_>, row: usize, dst: &mut [Self::Operand]);

    /// Packs keys `first..first + count` (at most NR) as one panel; missing keys are 0.
    ///
    /// # Safety
    /// Host memory; the keys lie inside `k`; `scratch` holds NR padded rows.
    unsafe fn pack_keys(
        self,
        k: &Matrix<'_>,
        first: usize,
        count: usize,
        scratch: &mut [Elem<Self>],
        dst: &mut [Self::Operand],
    );

    /// Packs value rows `first..first + count` as the panels of one block; `dst` is as long as
    /// [`values`](Self::values) of `count` rounded up to even says, missing rows are 0.
    ///
    /// Returns whether products with them are right whatever the weights: whether all are finite,
    /// and not flushed to 0.
    ///
    /// # Safety
    /// Host memory; the rows lie inside `v`; `scratch` holds NR padded rows.
    unsafe fn pack_values(
        self,
        v: &Matrix<'_>,
        first: usize,
        count: usize,
        scratch: &mut [Elem<Self>],
        dst: &mut [Self::Operand],
    ) -> bool;

    /// Raw scores s[row][key] = q[row]·k[key] of `rows` packed queries and `cols` keys (whole
    /// vectors), from the panel that `keys` points to on.
    ///
    /// # Safety
    /// The pointers reach what the sizes say.
    unsafe fn scores(
        self,
        shape: TileShape,
        head_dim: usize,
        queries: *const Self::Operand,
        keys: *const Self::Operand,
        s: *mut Elem<Self>,
    );

    /// One online-softmax step. Weights replace the scores; if they are `final_weights`, they go
    /// to where [`accumulate`](Self::accumulate) reads them.
    ///
    /// # Safety
    /// As [`scores`](Self::scores).
    unsafe fn softmax(
        self,
        shape: TileShape,
        factor: f64,
        s: *mut Elem<Self>,
        weights: *mut Self::Operand,
        state: SoftmaxRows<Elem<Self>>,
        final_weights: bool,
    );

    /// Brings weights that dropout has changed to where [`accumulate`](Self::accumulate) reads
    /// them.
    ///
    /// # Safety
    /// As [`scores`](Self::scores).
    unsafe fn round_weights(
        self,
        shape: TileShape,
        s: *const Elem<Self>,
        weights: *mut Self::Operand,
    );

    /// o[row] = alpha[row]·o[row] + Σ_key weight[row][key]·v[key], over the first `keys` keys of
    /// the block of `block_keys` packed rows (an even number) at `values`.
    ///
    /// # Safety
    /// As [`scores`](Self::scores).
    unsafe fn accumulate(
        self,
        shape: TileShape,
        keys: usize,
        block_keys: usize,
        head_dim_v: usize,
        s: *const Elem<Self>,
        weights: *const Self::Operand,
        values: *const Self::Operand,
        alpha: *const Elem<Self>,
        o: *mut Elem<Self>,
    );
}

/// The part of a score tile in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileShape {
    pub(crate) rows: usize,
    /// Keys, padded to whole vectors.
    pub(crate) cols: usize,
    /// Elements from one row of the tile to the next.
    pub(crate) stride: usize,
}

/// All products in the ISA's own element type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide<I>(pub(crate) I);

impl<I: Isa<Elem: Softcap>> Arithmetic for Wide<I> {
    type Isa = I;
    type Operand = I::Elem;

    fn isa(self) -> I {
        self.0
    }

    fn query_stride(head_dim: usize) -> usize {
        I::pad(head_dim)
    }

    fn key_panel(head_dim: usize) -> usize {
        head_dim * I::NR
    }

    fn weights(_elements: usize) -> usize {
        0
    }

    unsafe fn pack_query(self, q: &Matrix<'_>, row: usize, dst: &mut [I::Elem]) {
        // SAFETY: the caller's promise.
        unsafe { load_rows(self.0, q, row, 1, dst.len(), dst) };
    }

    unsafe fn pack_keys(
        self,
        k: &Matrix<'_>,
        first: usize,
        count: usize,
        scratch: &mut [I::Elem],
        dst: &mut [I::Elem],
    ) {
        let stride = I::pad(k.cols());
        // SAFETY: the caller's promise.
        unsafe { load_rows(self.0, k, first, count, stride, scratch) };
        transpose_panel(self.0, scratch, count, stride, k.cols(), dst);
    }

    unsafe fn pack_values(
        self,
        v: &Matrix<'_>,
        first: usize,
        count: usize,
        scratch: &mut [I::Elem],
        dst: &mut [I::Elem],
    ) -> bool {
        let (stride, block_keys) = (I::pad(v.cols()), count.next_multiple_of(2));
        let mut finite = true;
        for n in (0..count).step_by(I::NR) {
            let some = I::NR.min(count - n);
            // SAFETY: the caller's promise.
            unsafe { load_rows(self.0, v, first + n, some, stride, scratch) };
            finite &= all_finite(self.0, &scratch[..some * stride]);
            lay_panels(self.0, scratch, some, stride, (n, block_keys), dst);
        }
        if block_keys > count {
            scratch[..stride].fill(I::Elem::ZERO);
            lay_panels(self.0, scratch, 1, stride, (count, block_keys), dst);
        }
        finite
    }

    unsafe fn scores(
        self,
        shape: TileShape,
        head_dim: usize,
        queries: *const I::Elem,
        keys: *const I::Elem,
        s: *mut I::Elem,
    ) {
        let product = Gemm {
            isa: self.0,
            rows: shape.rows,
            cols: shape.cols,
            depth: head_dim,
            a: Left { ptr: queries, row: Self::query_stride(head_dim), col: 1 },
            b: Right { ptr: keys, panel: Self::key_panel(head_dim), row: I::NR },
            c: Product { ptr: s, row: shape.stride },
            init: Init::Zero,
        };
        // SAFETY: the caller's promise.
        unsafe { product.run() }
    }

    unsafe fn softmax(
        self,
        shape: TileShape,
        factor: f64,
        s: *mut I::Elem,
        _weights: *mut I::Elem,
        state: SoftmaxRows<I::Elem>,
        _final_weights: bool,
    ) {
        let TileShape { rows, cols, stride } = shape;
        let step = SoftmaxStep { isa: self.0, rows, cols, s, stride, factor, state };
        // SAFETY: the caller's promise.
        unsafe { step.run() }
    }

    unsafe fn round_weights(self, _: TileShape, _: *const I::Elem, _: *mut I::Elem) {}

    unsafe fn accumulate(
        self,
        shape: TileShape,
        keys: usize,
        block_keys: usize,
        head_dim_v: usize,
        s: *const I::Elem,
        _weights: *const I::Elem,
        values: *const I::Elem,
        alpha: *const I::Elem,
        o: *mut I::Elem,
    ) {
        let cols = I::pad(head_dim_v);
        let product = Gemm {
            isa: self.0,
            rows: shape.rows,
            cols,
            depth: keys,
            a: Left { ptr: s, row: shape.stride, col: 1 },
            b: Right { ptr: values, panel: block_keys * I::NR, row: I::NR },
            c: Product { ptr: o, row: cols },
            init: Init::Scale(alpha),
        };
        // SAFETY: the caller's promise.
        unsafe { product.run() }
    }
}
