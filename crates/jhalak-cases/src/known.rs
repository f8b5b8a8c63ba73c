//! Inputs on which attention libraries have failed, from public reports; [`KNOWN`] names each.

use jhalak_problem::DType;

use crate::case::{Case, Tensors};
use crate::strided::Layout;

/// A call that has gone wrong somewhere.
pub struct Known {
    /// What went wrong, and the thread that says so: FA is Dao-AILab/flash-attention, PT
    /// pytorch/pytorch, FI flashinfer, XF xformers, LC llama.cpp.
    pub name: &'static str,
    case: fn(Case) -> Case,
    change: fn(Tensors) -> Tensors,
    /// Its numbers are beyond those of f16.
    wide: bool,
}

impl Known {
    /// The call in a dtype, and its tensors; `None` if it is not of that dtype.
    pub fn in_dtype(&self, dtype: DType) -> Option<(Case, Tensors)> {
        if self.wide && dtype == DType::F16 {
            return None;
        }
        let case = (self.case)(Case { dtype, ..Case::dense(1, 8, 8, 2, 16) });
        let tensors = (self.change)(case.tensors());
        Some((case, tensors))
    }
}

const fn known(name: &'static str, case: fn(Case) -> Case) -> Known {
    Known { name, case, change: |tensors| tensors, wide: false }
}

impl Known {
    const fn with(self, change: fn(Tensors) -> Tensors) -> Self {
        Known { change, ..self }
    }

    const fn wide(self) -> Self {
        Known { wide: true, ..self }
    }
}

fn sized(
    case: Case,
    [queries, keys]: [usize; 2],
    heads_k: usize,
    group: usize,
    dim: usize,
) -> Case {
    let lengths = vec![(queries, keys)];
    Case { lengths, heads_k, group, head_dim: dim, head_dim_v: dim, ..case }
}

fn packed(
    case: Case,
    lengths: &[(usize, usize)],
    heads_k: usize,
    group: usize,
    dim: usize,
) -> Case {
    let case = sized(case, [0, 0], heads_k, group, dim);
    Case { lengths: lengths.to_vec(), packed: true, ..case }
}

fn masked(mut tensors: Tensors, seen: fn(&[usize]) -> bool) -> Tensors {
    tensors.mask = tensors.mask.map(|mask| mask.replaced(|i, _| f64::from(seen(i))));
    tensors
}

fn biased(mut tensors: Tensors, value: fn(&[usize], f64) -> f64) -> Tensors {
    tensors.bias = tensors.bias.map(|bias| bias.replaced(value));
    tensors
}

fn filled(mut tensors: Tensors, [q, k, v]: [fn(&[usize], f64) -> f64; 3]) -> Tensors {
    tensors.q = tensors.q.replaced(q);
    tensors.k = tensors.k.replaced(k);
    tensors.v = tensors.v.replaced(v);
    tensors
}

const ALL: [bool; 4] = [true; 4];
const SAME: fn(&[usize], f64) -> f64 = |_, x| x;

/// All of them.
pub const KNOWN: &[Known] = &[
    known("a mask hides all keys of the last row (PT#103749)", |case| Case {
        mask: Some(ALL),
        ..sized(case, [6, 10], 2, 1, 8)
    })
    .with(|t| masked(t, |i| i[2] < 5)),
    known("a mask hides the lower half (PT#103963)", |case| Case { mask: Some(ALL), ..case })
        .with(|t| masked(t, |i| i[2] < 4)),
    known("a masked key is NaN, its value infinite (PT#101967)", |case| Case {
        mask: Some(ALL),
        ..sized(case, [2, 2], 1, 1, 4)
    })
    .with(|t| {
        let t = masked(t, |i| i[3] == 0);
        let key = |i: &[usize], x| if i[1] == 1 { f64::NAN } else { x };
        let value = |i: &[usize], x| if i[1] == 1 { f64::INFINITY } else { x };
        filled(t, [SAME, key, value])
    }),
    known("a bias is the least number in whole rows, -inf in others (PT#109517)", |case| Case {
        bias: Some((ALL, true)),
        ..case
    })
    .with(|t| {
        biased(t, |i, x| match i[2] % 3 {
            0 => f64::from(f32::MIN),
            1 => f64::NEG_INFINITY,
            _ => x,
        })
    }),
    known("a mask hides one head's keys (PT#160064)", |case| Case { mask: Some(ALL), ..case })
        .with(|t| masked(t, |i| i[1] == 1)),
    known("packed causal sequences of one key each (FA#443)", |case| Case {
        causal: true,
        spread: 3.0,
        ..packed(case, &[(76, 1), (34, 1), (146, 1)], 1, 1, 32)
    }),
    known("one query, one key (FA#334)", |case| Case {
        spread: 3.0,
        ..sized(case, [1, 1], 1, 1, 16)
    }),
    known("the only key's score is below what others call minus infinity (FI#4267)", |case| Case {
        scale: Some(1.0),
        mask: Some(ALL),
        ..sized(case, [3, 2], 1, 1, 128)
    })
    .with(|t| {
        let t = masked(t, |i| i[3] == 0);
        filled(
            t,
            [
                |i, _| if i[3] == 0 { -20000.0 } else { 0.0 },
                |i, _| {
                    if i[3] == 0 { 12.0 } else { 0.0 }
                },
                SAME,
            ],
        )
    }),
    known("a window's right side over a long context (flash-attention-npu#168)", |case| Case {
        window: Some((0, 256)),
        ..sized(case, [16, 2000], 1, 1, 59)
    }),
    known("65 keys under a cap (LC#29034)", |case| Case {
        softcap: 5.0,
        ..sized(case, [9, 65], 1, 2, 32)
    }),
    known("the first tiles lie outside the window (SG#38142)", |case| Case {
        window: Some((3, 0)),
        causal: true,
        ..sized(case, [20, 400], 1, 2, 16)
    }),
    known("704 keys, half a tile of padding, very low lse (PT#196678)", |case| Case {
        bias: Some(([false, false, true, true], true)),
        ..sized(case, [10, 704], 1, 1, 64)
    })
    .with(|t| biased(t, |_, x| x - 100.0)),
    known("causal with more keys, and with more queries (PT#108108)", |case| Case {
        causal: true,
        ..sized(case, [2, 5], 1, 1, 8)
    }),
    known("causal, 5 queries of 2 keys (PT#108108)", |case| Case {
        causal: true,
        ..sized(case, [5, 2], 1, 1, 8)
    }),
    known("twice as many queries as keys, causal (FA#1778)", |case| Case {
        causal: true,
        ..sized(case, [300, 150], 1, 1, 16)
    }),
    known("keys that no query sees get gradients of 0 (FA#20)", |case| Case {
        causal: true,
        starts: Some((0, 0)),
        ..sized(case, [70, 300], 1, 2, 16)
    }),
    known("packed, 3 queries of 7 keys, 192 wide (FA#1214)", |case| Case {
        causal: true,
        ..packed(case, &[(3, 7), (3, 7)], 2, 8, 192)
    }),
    known("a window of one key (HF#39408)", |case| Case {
        causal: true,
        window: Some((0, 0)),
        ..sized(case, [40, 40], 1, 1, 16)
    }),
    known("one more key than the window (HF#29623)", |case| Case {
        causal: true,
        window: Some((63, 0)),
        ..sized(case, [65, 65], 1, 1, 16)
    }),
    known("a window larger than the context is still causal (libflash_attn#11)", |case| Case {
        causal: true,
        window: Some((4096, 4096)),
        ..sized(case, [128, 128], 1, 1, 16)
    }),
    known("decoding in a window (HF#41228)", |case| Case {
        causal: true,
        window: Some((3, 0)),
        ..sized(case, [1, 10], 1, 4, 16)
    }),
    known("a window of 2^31 - 1 (FA commit 2ee6ae05b)", |case| Case {
        window: Some((i64::from(i32::MAX), 1_000_000_000)),
        ..case
    }),
    known("rows without keys at both ends of a band", |case| Case {
        window: Some((1, 1)),
        ..sized(case, [8, 3], 1, 1, 8)
    }),
    known("empty sequences among short ones (FA#1537)", |case| {
        packed(case, &[(0, 0), (1, 3), (0, 0), (1, 5)], 3, 3, 64)
    }),
    known("one query, four sequences (FA#1619)", |case| {
        packed(case, &[(0, 0), (0, 0), (0, 0), (1, 1)], 7, 3, 120)
    }),
    known("keys without queries (FA#1713)", |case| sized(case, [0, 5], 2, 1, 16)),
    known("packed keys without queries (FA#1713)", |case| {
        packed(case, &[(0, 5), (4, 4)], 2, 1, 16)
    }),
    known("queries without keys (FA#2503)", |case| sized(case, [5, 0], 2, 1, 16)),
    known("rows after the last sequence (PT#176793)", |case| Case {
        spare_rows: 2,
        ..packed(case, &[(9, 9), (14, 14)], 2, 1, 16)
    }),
    known("no heads (PT#141218)", |case| sized(case, [9, 7], 0, 1, 7)),
    known("no sequences (PT#133780)", |case| Case { lengths: Vec::new(), ..case }),
    known("columns that do not lie side by side (PT#187506)", |case| Case {
        layouts: [3, 3, 3, 0].map(|rotate| Layout { rotate, ..Layout::default() }),
        ..case
    }),
    known("only v is transposed (FlagGems#5896)", |case| Case {
        layouts: [0, 0, 2, 0].map(|rotate| Layout { rotate, ..Layout::default() }),
        ..sized(case, [62, 62], 4, 1, 128)
    }),
    known("k is every second row of a larger tensor (FlagAttention#45)", |case| Case {
        layouts: [0, 1, 0, 0].map(|gap| Layout { gap, ..Layout::default() }),
        ..case
    }),
    known("all heads share memory, 33 keys (PT#191937)", |case| Case {
        mask: Some(ALL),
        layouts: [0, 15, 15, 0].map(|broadcast| Layout { broadcast, ..Layout::default() }),
        ..sized(case, [20, 33], 2, 1, 128)
    }),
    known("contiguous, but not aligned (FI#4543)", |case| Case {
        layouts: [1, 1, 1, 1].map(|lead| Layout { lead, ..Layout::default() }),
        ..sized(case, [40, 40], 2, 1, 64)
    }),
    known("rows of a bias that are no multiple of 8 (XF#813)", |case| Case {
        bias: Some((ALL, false)),
        ..sized(case, [43, 43], 2, 1, 32)
    }),
    known("257 keys for one query (FA#1076)", |case| sized(case, [1, 257], 1, 1, 32)),
    known("three keys, to be split further (FA commit 26d7d92f)", |case| {
        sized(case, [1, 3], 1, 1, 32)
    }),
    known("17 rows (long-context-attention#122)", |case| sized(case, [17, 17], 2, 1, 128)),
    known("huge equal numbers (PT#121558)", |case| sized(case, [1, 1], 1, 1, 64))
        .with(|t| filled(t, [|_, _| 133_120.0; 3]))
        .wide(),
    known("large numbers, wide heads (IK#1196)", |case| sized(case, [6, 90], 1, 1, 128))
        .with(|t| filled(t, [|_, x| 250.0 * x.signum(), |_, x| 250.0 * x.signum(), SAME])),
    known("one score is infinite", |case| Case { scale: Some(1.0), ..case }).with(|t| {
        let one = |i: &[usize], x| if i[1] == 3 { f64::INFINITY } else { x };
        filled(t, [one, |_, x: f64| x.abs(), SAME])
    }),
    known("one query is NaN", |case| case)
        .with(|t| filled(t, [|i, x| if i[1] == 3 { f64::NAN } else { x }, SAME, SAME])),
    known("scale 0", |case| Case { scale: Some(0.0), ..case }),
    known("a scale below 0", |case| Case { scale: Some(-0.5), ..case }),
    known("head dimension 1 (FI#4299)", |case| sized(case, [20, 20], 1, 1, 1)),
    known("head dimension 7 (FI#4299)", |case| sized(case, [20, 20], 1, 1, 7)),
    known("head dimension 63 (LC#20031)", |case| sized(case, [20, 20], 1, 1, 63)),
    known("head dimension 72 (FA#1347)", |case| sized(case, [20, 20], 1, 1, 72)),
    known("head dimension 80 (FI#1993)", |case| sized(case, [20, 20], 1, 1, 80)),
    known("head dimension 111", |case| sized(case, [20, 20], 1, 1, 111)),
    known("head dimension 136 (FA#1347)", |case| sized(case, [20, 20], 1, 1, 136)),
    known("head dimension 256 (tiny-flash-attention#12)", |case| sized(case, [20, 20], 1, 1, 256)),
    known("head dimensions 192 and 128", |case| Case {
        head_dim_v: 128,
        ..sized(case, [30, 50], 1, 1, 192)
    }),
    known("head dimensions 64 and 80", |case| Case {
        head_dim_v: 80,
        ..sized(case, [30, 50], 1, 1, 64)
    }),
    known("71 heads share a key head", |case| sized(case, [3, 20], 1, 71, 16)),
    known("5 heads share a key head, causal", |case| Case {
        causal: true,
        ..sized(case, [30, 40], 2, 5, 16)
    }),
    known("a bias for all sequences, [1, H, S, S] (XF#636)", |case| Case {
        bias: Some(([false, true, true, true], true)),
        lengths: vec![(20, 20); 3],
        ..case
    }),
    known("a bias for all rows, [B, 1, 1, S] (JX#30593)", |case| Case {
        bias: Some(([true, false, false, true], true)),
        lengths: vec![(20, 20); 3],
        ..case
    }),
    known("a bias for all sequences and heads (JX#23701)", |case| Case {
        bias: Some(([false, false, true, true], false)),
        lengths: vec![(20, 20); 2],
        ..case
    }),
    known("ALiBi with fewer queries than keys (FA#907)", |case| Case {
        alibi: Some(false),
        ..sized(case, [7, 30], 2, 1, 16)
    }),
    known("a cap of 1 does not let the future in (FA#1025)", |case| Case {
        softcap: 1.0,
        causal: true,
        ..sized(case, [40, 40], 1, 1, 16)
    }),
    known("scores far beyond the cap, causal (FA#1033)", |case| Case {
        softcap: 30.0,
        causal: true,
        spread: 40.0,
        ..sized(case, [40, 40], 1, 1, 16)
    }),
    known("sinks, a window, and rows without keys (FA#1819)", |case| Case {
        sinks: true,
        causal: true,
        window: Some((5, 0)),
        ..sized(case, [40, 30], 2, 2, 16)
    }),
    known("dropout of 0.1 (neuron-sdk#1156)", |case| Case {
        dropout: Some(0.1),
        ..sized(case, [40, 70], 1, 2, 16)
    }),
    known("everything is dropped", |case| Case { dropout: Some(1.0), ..case }),
    known("all values are 1 (FlyDSL#1020)", |case| sized(case, [20, 90], 1, 1, 32))
        .with(|t| filled(t, [SAME, SAME, |_, _| 1.0])),
    known("33728 keys of zeros (XF#719)", |case| sized(case, [2, 33_728], 1, 1, 8))
        .with(|t| filled(t, [|_, _| 0.0; 3])),
    known("scores 80 to 104 below the highest (PT#4737)", |case| Case {
        scale: Some(1.0),
        ..sized(case, [4, 60], 1, 1, 16)
    })
    .with(|t| {
        let q: fn(&[usize], f64) -> f64 = |i, _| f64::from(i[3] == 0);
        filled(
            t,
            [q, |i, _| if i[3] == 0 && i[1] > 0 { -79.5 - 0.5 * i[1] as f64 } else { 0.0 }, SAME],
        )
    }),
];
