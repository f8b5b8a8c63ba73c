//! One tile of the backward pass.

use jhalak_problem::{Problem, Visibility};

use super::bias::BiasGradient;
use super::careful;
use super::plan::{KEY_BLOCK, ROW_BLOCK, TILE_STRIDE, Wants};
use crate::isa::{Float, Isa};
use crate::memory::Buffer;
use crate::scores::{Rules, Tile};
use crate::softcap::Softcap;
use crate::tile::gemm::{Gemm, Init, Left, Product, Right};
use crate::tile::gradient::{Probabilities, ScoreGradient};

/// One task's work space.
pub(super) struct Scratch<E> {
    /// Rows of q and dout, padded to whole vectors.
    pub(super) queries: Buffer<E>,
    pub(super) douts: Buffer<E>,
    /// The same as panels of NR columns, [rows][NR] each.
    pub(super) query_columns: Buffer<E>,
    pub(super) dout_columns: Buffer<E>,
    /// Whether q, dout, lse or delta of the rows hold NaN or infinities.
    pub(super) unusual_rows: bool,
    /// Scores, then P.
    p: Buffer<E>,
    /// dP, then dS.
    ds: Buffer<E>,
    /// The softcap's derivative, where there is one.
    slopes: Buffer<E>,
    /// What dropout keeps, where it drops anything.
    kept: Buffer<bool>,
    /// Work space for NR rows of q, k, v or dout, or a row of anything.
    pub(super) row: Buffer<E>,
    pub(super) row2: Buffer<E>,
}

impl<E: Float> Scratch<E> {
    pub(super) fn new<I: Isa<Elem = E>>(problem: &Problem<'_>) -> jhalak_problem::Result<Self> {
        let (d, dv) = (problem.head_dim(), problem.head_dim_v());
        let tile = ROW_BLOCK * TILE_STRIDE;
        let only_if = |needed: bool| if needed { tile } else { 0 };
        let widest = (I::NR * I::pad(d.max(dv))).max(KEY_BLOCK);
        Ok(Scratch {
            queries: Buffer::zeroed(ROW_BLOCK * I::pad(d))?,
            douts: Buffer::zeroed(ROW_BLOCK * I::pad(dv))?,
            query_columns: Buffer::zeroed(ROW_BLOCK * d.next_multiple_of(I::NR))?,
            dout_columns: Buffer::zeroed(ROW_BLOCK * dv.next_multiple_of(I::NR))?,
            unusual_rows: false,
            p: Buffer::zeroed(tile)?,
            ds: Buffer::zeroed(tile)?,
            slopes: Buffer::zeroed(only_if(problem.softcap().is_some()))?,
            kept: Buffer::zeroed(only_if(problem.dropout().is_some()))?,
            row: Buffer::zeroed(widest)?,
            row2: Buffer::zeroed(widest)?,
        })
    }
}

/// What a tile reads and adds to: addresses of its first row or key. Gradients that are not
/// wanted are `None`.
#[derive(Clone, Copy)]
pub(super) struct Operands<E> {
    /// Padded row lengths of D and Dv.
    pub(super) d: usize,
    pub(super) dv: usize,
    pub(super) queries: *const E,
    pub(super) douts: *const E,
    pub(super) key_panels: *const E,
    pub(super) value_panels: *const E,
    pub(super) query_columns: *const E,
    pub(super) dout_columns: *const E,
    pub(super) key_columns: *const E,
    /// Keys of the whole block that `key_columns` holds.
    pub(super) block_keys: usize,
    pub(super) lse: *const E,
    pub(super) delta: *const E,
    pub(super) dq_sums: Option<*mut E>,
    pub(super) dk_sums: Option<*mut E>,
    pub(super) dv_sums: Option<*mut E>,
}

/// What all tiles of a pass share.
pub(super) struct TilePass<'p, I: Isa> {
    pub(super) isa: I,
    pub(super) problem: &'p Problem<'p>,
    pub(super) rules: Rules<'p, I::Elem>,
    pub(super) wants: Wants,
    pub(super) bias: Option<BiasGradient<I::Elem>>,
}

impl<I: Isa<Elem: Softcap>> TilePass<'_, I> {
    /// Computes a tile and adds it to the gradients.
    ///
    /// # Safety
    /// The operands reach what the tile says, and no other task adds to these rows, nor for these
    /// keys.
    pub(super) unsafe fn run(
        &self,
        tile: &Tile<'_>,
        visibility: &Visibility,
        operands: &Operands<I::Elem>,
        unusual: bool,
        scratch: &mut Scratch<I::Elem>,
    ) {
        let shape = tile.shape;
        let (head_dim, head_dim_v) = (self.problem.head_dim(), self.problem.head_dim_v());
        // SAFETY: the caller's promise.
        unsafe {
            let queries = (operands.queries, operands.d);
            self.products(tile, head_dim, queries, operands.key_panels, &mut scratch.p);
        }
        let has_slopes = self.problem.softcap().is_some();
        let slopes = has_slopes.then_some(&mut scratch.slopes[..]);
        self.rules.apply(self.isa, tile, visibility, &mut scratch.p, &mut scratch.row, slopes);
        // SAFETY: one lse per row.
        let lse = unsafe { std::slice::from_raw_parts(operands.lse, shape.rows) };
        let visible = unusual.then(|| careful::visible_pairs(tile, &scratch.p, lse));
        let probabilities = Probabilities {
            isa: self.isa,
            rows: shape.rows,
            cols: shape.cols,
            s: scratch.p.as_ptr(),
            stride: shape.stride,
            scale: self.rules.pending_scale(),
            lse: operands.lse,
        };
        // SAFETY: as above.
        unsafe { probabilities.run() };
        self.fill_kept(tile, &mut scratch.kept);
        if self.wants.ds() {
            // SAFETY: as above.
            unsafe {
                let douts = (operands.douts, operands.dv);
                self.products(tile, head_dim_v, douts, operands.value_panels, &mut scratch.ds);
                self.drop(tile, &scratch.kept, &mut scratch.ds);
                let gradient = ScoreGradient {
                    isa: self.isa,
                    rows: shape.rows,
                    cols: shape.cols,
                    p: scratch.p.as_ptr(),
                    dp: scratch.ds.as_ptr(),
                    stride: shape.stride,
                    delta: operands.delta,
                };
                gradient.run();
                if let Some(bias) = &self.bias {
                    bias.add(tile, &scratch.ds, visible.as_deref());
                }
            }
            if has_slopes {
                multiply(tile, &scratch.slopes, &mut scratch.ds);
            }
        }
        self.drop(tile, &scratch.kept, &mut scratch.p);
        // SAFETY: as above.
        unsafe {
            match visible {
                Some(visible) => {
                    careful::accumulate(tile, I::NR, &visible, &scratch.p, &scratch.ds, operands);
                }
                None => self.accumulate(tile, operands, &scratch.p, &scratch.ds),
            }
        }
    }

    /// out[row][key] = a[row]·b[key] over `depth`.
    ///
    /// # Safety
    /// `a` and `panels` reach what the tile says.
    unsafe fn products(
        &self,
        tile: &Tile<'_>,
        depth: usize,
        (a, a_row): (*const I::Elem, usize),
        panels: *const I::Elem,
        out: &mut Buffer<I::Elem>,
    ) {
        let product = Gemm {
            isa: self.isa,
            rows: tile.shape.rows,
            cols: tile.shape.cols,
            depth,
            a: Left { ptr: a, row: a_row, col: 1 },
            b: Right { ptr: panels, panel: depth * I::NR, row: I::NR },
            c: Product { ptr: out.as_ptr(), row: tile.shape.stride },
            init: Init::Zero,
        };
        // SAFETY: the caller's promise.
        unsafe { product.run() }
    }

    /// The three products that add to gradients.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    unsafe fn accumulate(
        &self,
        tile: &Tile<'_>,
        operands: &Operands<I::Elem>,
        p: &Buffer<I::Elem>,
        ds: &Buffer<I::Elem>,
    ) {
        let (rows, keys, stride) = (tile.shape.rows, tile.keys.len(), tile.shape.stride);
        let Operands { d, dv, .. } = *operands;
        let add = |rows, depth, a, (b, b_rows): (_, usize), width, sums: *mut I::Elem| {
            let product = Gemm {
                isa: self.isa,
                rows,
                cols: width,
                depth,
                a,
                b: Right { ptr: b, panel: b_rows * I::NR, row: I::NR },
                c: Product { ptr: sums, row: width },
                init: Init::Add,
            };
            // SAFETY: the caller's promise.
            unsafe { product.run() }
        };
        // A tile read by columns is its transpose.
        if let Some(sums) = operands.dv_sums {
            let a = Left { ptr: p.as_ptr().cast_const(), row: 1, col: stride };
            add(keys, rows, a, (operands.dout_columns, rows), dv, sums);
        }
        if let Some(sums) = operands.dk_sums {
            let a = Left { ptr: ds.as_ptr().cast_const(), row: 1, col: stride };
            add(keys, rows, a, (operands.query_columns, rows), d, sums);
        }
        if let Some(sums) = operands.dq_sums {
            let a = Left { ptr: ds.as_ptr().cast_const(), row: stride, col: 1 };
            add(rows, keys, a, (operands.key_columns, operands.block_keys), d, sums);
        }
    }

    fn fill_kept(&self, tile: &Tile<'_>, kept: &mut [bool]) {
        if kept.is_empty() {
            return;
        }
        for n in 0..tile.rows.len() {
            let row = &mut kept[n * tile.shape.stride..][..tile.keys.len()];
            self.rules.fill_kept(tile, n, row);
        }
    }

    /// Multiplies a tile by dropout's factors, where there are any.
    fn drop(&self, tile: &Tile<'_>, kept: &[bool], values: &mut [I::Elem]) {
        if kept.is_empty() {
            return;
        }
        for n in 0..tile.rows.len() {
            let at = n * tile.shape.stride..n * tile.shape.stride + tile.keys.len();
            self.rules.drop_row(&mut values[at.clone()], &kept[at]);
        }
    }
}

fn multiply<E: Float>(tile: &Tile<'_>, slopes: &[E], values: &mut [E]) {
    for n in 0..tile.rows.len() {
        let at = n * tile.shape.stride..n * tile.shape.stride + tile.keys.len();
        for (x, &slope) in values[at.clone()].iter_mut().zip(&slopes[at]) {
            *x = *x * slope;
        }
    }
}
