//! The calls that `jhalak check` makes: every option, alone and with others, on small tensors.

use jhalak::{Attention, DType, Element, Tensor, bf16, f16};

use crate::failure::Failure;
use crate::inputs::Normal;

/// One call.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    sizes: Sizes,
    packed: bool,
    options: for<'a> fn(Attention<'a>, &'a Tensors) -> Attention<'a>,
}

#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    seqlen_q: usize,
    seqlen_k: usize,
    heads_q: usize,
    heads_k: usize,
    head_dim: usize,
    head_dim_v: usize,
}

/// The tensors of a call; its options pick what they need.
pub(crate) struct Tensors {
    pub(crate) q: Tensor,
    pub(crate) k: Tensor,
    pub(crate) v: Tensor,
    pub(crate) dout: Tensor,
    bias: Tensor,
    bias_row: Tensor,
    mask: Tensor,
    slopes: Tensor,
    sinks: Tensor,
    starts_q: Tensor,
    starts_k: Tensor,
    used_q: Tensor,
    used_k: Tensor,
}

const fn sizes(seqlens: [usize; 2], heads: [usize; 2], head_dims: [usize; 2]) -> Sizes {
    Sizes {
        batch: 2,
        seqlen_q: seqlens[0],
        seqlen_k: seqlens[1],
        heads_q: heads[0],
        heads_k: heads[1],
        head_dim: head_dims[0],
        head_dim_v: head_dims[1],
    }
}

/// Longer than a block of keys in every engine, and a multiple of nothing.
const LONG: Sizes = sizes([203, 301], [1, 1], [32, 32]);
const USUAL: Sizes = sizes([67, 83], [4, 2], [24, 24]);
const SQUARE: Sizes = sizes([75, 75], [2, 2], [32, 32]);

type Options = for<'a> fn(Attention<'a>, &'a Tensors) -> Attention<'a>;

const fn dense(name: &'static str, sizes: Sizes, options: Options) -> Case {
    Case { name, sizes, packed: false, options }
}

const fn packed(name: &'static str, options: Options) -> Case {
    Case { name, sizes: USUAL, packed: true, options }
}

/// A few dozen calls that together use everything there is.
pub(crate) const CASES: [Case; 36] = [
    dense("plain", USUAL, |a, _| a),
    dense("long", LONG, |a, _| a),
    dense("long, causal", LONG, |a, _| a.causal()),
    dense("long, window", LONG, |a, _| a.window(100, 20)),
    dense("one query", sizes([1, 130], [8, 2], [64, 64]), |a, _| a.causal()),
    // Not one: its gradients of q and k are exactly 0, and no rounding is within a multiple of 0.
    dense("two keys", sizes([9, 2], [2, 2], [16, 16]), |a, _| a),
    dense("fewer keys than queries", sizes([90, 31], [2, 2], [32, 32]), |a, _| a.causal()),
    dense("head dimension 1", sizes([20, 21], [2, 1], [1, 1]), |a, _| a),
    dense("head dimension 128", sizes([33, 65], [2, 1], [128, 128]), |a, _| a.causal()),
    dense("head dimensions 24 and 72", sizes([33, 40], [2, 1], [24, 72]), |a, _| a),
    dense("multi-query", sizes([40, 40], [6, 1], [32, 32]), |a, _| a.causal()),
    dense("causal", SQUARE, |a, _| a.causal()),
    dense("causal from the top left", USUAL, |a, _| a.causal().q_start(0)),
    dense("blocks of a longer sequence", USUAL, |a, _| a.causal().q_start(50).k_start(-10)),
    dense("window", SQUARE, |a, _| a.window(7, 3)),
    dense("window to the left", SQUARE, |a, _| a.window(7, -1)),
    dense("window, causal", SQUARE, |a, _| a.window(15, 40).causal()),
    dense("scale", USUAL, |a, _| a.scale(0.3)),
    dense("scale 0", USUAL, |a, _| a.scale(0.0)),
    dense("negative scale", USUAL, |a, _| a.scale(-0.2)),
    dense("softcap", USUAL, |a, _| a.softcap(1.5)),
    dense("bias", USUAL, |a, t| a.bias(t.bias.view())),
    dense("bias for each key", USUAL, |a, t| a.bias(t.bias_row.view())),
    dense("mask", USUAL, |a, t| a.mask(t.mask.view())),
    dense("mask, causal", USUAL, |a, t| a.mask(t.mask.view()).causal()),
    dense("ALiBi", USUAL, |a, t| a.alibi_slopes(t.slopes.view()).causal()),
    dense("sinks", USUAL, |a, t| a.sinks(t.sinks.view()).window(9, 0)),
    dense("dropout", USUAL, |a, _| a.dropout(0.2, 1234, 5)),
    dense("all dropped", USUAL, |a, _| a.dropout(1.0, 1, 0)),
    dense("used lengths", USUAL, |a, t| {
        a.seqused_q(t.used_q.view()).seqused_k(t.used_k.view()).causal()
    }),
    dense("f32 out", USUAL, |a, _| a.out_dtype(DType::F32)),
    dense("softcap, bias, ALiBi, dropout", USUAL, |a, t| {
        a.softcap(2.0).bias(t.bias.view()).alibi_slopes(t.slopes.view()).dropout(0.1, 9, 9)
    }),
    dense("everything", USUAL, |a, t| {
        let a = a.causal().window(40, 0).scale(0.2).softcap(3.0).bias(t.bias.view());
        let a = a.mask(t.mask.view()).alibi_slopes(t.slopes.view()).sinks(t.sinks.view());
        a.dropout(0.3, 77, 1).q_start(20).k_start(3)
    }),
    packed("packed", |a, _| a),
    packed("packed, causal", |a, _| a.causal()),
    packed("packed, window, dropout", |a, t| {
        a.window(9, 2).dropout(0.5, 3, 3).seqused_k(t.used_k.view())
    }),
];

impl Case {
    /// The tensors of the call, q, k, v and dout of this dtype.
    pub(crate) fn tensors(&self, dtype: DType) -> Result<Tensors, Failure> {
        let s = self.sizes;
        let mut normal = Normal::new(s.seqlen_q as u64);
        let shaped = |rows: usize, heads: usize, dim: usize| {
            let dense = vec![s.batch, rows, heads, dim];
            if self.packed { vec![s.batch * rows, heads, dim] } else { dense }
        };
        let mut random = |shape: Vec<usize>, dtype: DType| {
            let numbers = normal.take(shape.iter().product());
            of_dtype(dtype, &numbers, &shape)
        };
        let (rows_q, rows_k) = (s.seqlen_q, s.seqlen_k);
        let mask = (0..s.batch * rows_q * rows_k).map(|n| n * n % 7 != 0).collect();
        // Three sequences: one ordinary, one without rows, and one that leaves rows unused.
        let starts = |total: usize| {
            let total = total as i32;
            Tensor::from_vec(vec![0, total / 3, total / 3, total - 2], &[4])
        };
        let sequences = if self.packed { 3 } else { s.batch };
        let used = |first: i32| {
            let lengths = (0..sequences as i32).map(|b| if b == 1 { 0 } else { first - b });
            Tensor::from_vec(lengths.collect(), &[sequences])
        };
        Ok(Tensors {
            q: random(shaped(rows_q, s.heads_q, s.head_dim), dtype)?,
            k: random(shaped(rows_k, s.heads_k, s.head_dim), dtype)?,
            v: random(shaped(rows_k, s.heads_k, s.head_dim_v), dtype)?,
            dout: random(shaped(rows_q, s.heads_q, s.head_dim_v), dtype)?,
            bias: random(vec![s.batch, s.heads_q, rows_q, rows_k], DType::F32)?,
            bias_row: random(vec![1, s.heads_q, 1, rows_k], DType::F32)?,
            mask: Tensor::from_vec(mask, &[s.batch, 1, rows_q, rows_k])?,
            slopes: Tensor::from_vec(
                (0..s.heads_q).map(|h| 0.5f32.powi(h as i32 + 1)).collect(),
                &[s.heads_q],
            )?,
            sinks: random(vec![s.heads_q], DType::F32)?,
            starts_q: starts(s.batch * rows_q)?,
            starts_k: starts(s.batch * rows_k)?,
            used_q: used(rows_q as i32 / 2)?,
            used_k: used(rows_k as i32 / 2)?,
        })
    }

    /// The options of the call.
    pub(crate) fn attention<'a>(&self, tensors: &'a Tensors) -> Attention<'a> {
        let attention = (self.options)(Attention::new(), tensors);
        if self.packed {
            attention.cu_seqlens(tensors.starts_q.view(), tensors.starts_k.view())
        } else {
            attention
        }
    }
}

/// The numbers as a tensor, rounded.
fn of_dtype(dtype: DType, numbers: &[f32], shape: &[usize]) -> jhalak::Result<Tensor> {
    fn rounded<T: Element>(numbers: &[f32], shape: &[usize]) -> jhalak::Result<Tensor> {
        Tensor::from_vec(numbers.iter().map(|&x| T::from_f64(x.into())).collect(), shape)
    }
    match dtype {
        DType::F16 => rounded::<f16>(numbers, shape),
        DType::BF16 => rounded::<bf16>(numbers, shape),
        DType::F64 => rounded::<f64>(numbers, shape),
        _ => rounded::<f32>(numbers, shape),
    }
}
