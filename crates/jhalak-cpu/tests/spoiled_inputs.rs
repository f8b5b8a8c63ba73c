//! NaN and infinities in inputs: they go where the definition takes them, and nowhere else.

mod common;

use common::case::{Case, Tensors, any_case};
use common::every::everywhere;
use common::run::{Ask, attend, backward, engine, forward, gradient_shapes, gradients, upstream};
use common::strided::{Layout, Strided, noise};
use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::{Attention, DType, Problem, TensorView, reference};
use proptest::prelude::*;

const NAMES: [&str; 7] = ["out", "lse", "dq", "dk", "dv", "dbias", "dsinks"];

/// Puts `value` into one element of some of the rows.
fn spoil(tensor: Strided, seed: u64, value: f64) -> Strided {
    tensor.replaced(|index, x| {
        let (c, row) = index.split_last().unwrap();
        let chosen = noise(seed, row) > 1.8 && *c == seed as usize % 3;
        if chosen { value } else { x }
    })
}

/// The case with scores so close together that no weight is 0 in f32: what 0 · NaN is there, the
/// definition, whose weights are never 0, does not say; the engine takes it as 0 in dS.
fn without_underflow(case: Case) -> Case {
    let longest = case.lengths.iter().map(|l| l.0.max(l.1)).max().unwrap_or(0);
    let near = longest <= 40 && case.starts.is_none();
    Case {
        spread: 1.0,
        scale: case.scale.filter(|scale| scale.abs() < 0.5),
        alibi: case.alibi.filter(|_| near),
        ..case
    }
}

/// All results of an engine, then of the reference.
fn both(
    engine: &Engine,
    case: &Case,
    tensors: &Tensors,
    upstream: &(Strided, Option<Strided>),
) -> [Vec<Option<Vec<f64>>>; 2] {
    let attention = case.attention(tensors);
    let problem =
        Problem::new(&attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
    let attended = forward(engine, &problem, &Layout::default());
    let shapes = gradient_shapes(tensors);
    let grads = backward(engine, &problem, shapes, &attended, upstream, &Ask::default());
    let grads = grads.iter().map(|grad| grad.as_ref().map(Strided::values));
    let found = [attended.out.values(), attended.lse.values()].map(Some).into_iter();
    let found = found.chain(grads).collect();
    let exact = reference::forward(&problem).unwrap();
    let (dout, dlse) = (upstream.0.values(), upstream.1.as_ref().map(Strided::values));
    let truth = reference::backward(&problem, &dout, dlse.as_deref()).unwrap();
    let first = [exact.out, exact.lse, truth.dq, truth.dk, truth.dv].map(Some);
    let truth = first.into_iter().chain([truth.dbias, truth.dsinks]).collect();
    [found, truth]
}

/// Which of q, k, v, bias, dout and dlse are spoiled.
fn spoiled(case: &Case, which: u8, value: f64) -> (Tensors, (Strided, Option<Strided>)) {
    let mut tensors = case.tensors();
    let up = {
        let attention = case.attention(&tensors);
        let problem =
            Problem::new(&attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
        upstream(&problem, &Ask::default(), case.seed)
    };
    let (mut dout, mut dlse) = up;
    let each = |tensor: Strided, n: u64| {
        if which >> n & 1 == 1 { spoil(tensor, case.seed * 8 + n, value) } else { tensor }
    };
    let Tensors { q, k, v, bias, .. } = &mut tensors;
    for (n, tensor) in [q, k, v].into_iter().chain(bias.as_mut()).chain([&mut dout]).enumerate() {
        *tensor = each(tensor.clone(), n as u64);
    }
    dlse = dlse.map(|dlse| each(dlse, 5));
    (tensors, (dout, dlse))
}

fn spread_as_the_reference_says(
    case: &Case,
    which: u8,
    value: f64,
    threads: usize,
    same: impl Fn(f64, f64) -> bool,
) -> Result<(), TestCaseError> {
    let case = &without_underflow(case.clone());
    let (tensors, upstream) = spoiled(case, which, value);
    for isa in IsaKind::available() {
        let [found, truth] = both(&engine(isa, threads), case, &tensors, &upstream);
        for (name, (found, truth)) in NAMES.iter().zip(found.into_iter().zip(truth)) {
            let (Some(found), Some(truth)) = (found, truth) else { continue };
            for (n, (x, y)) in found.iter().zip(&truth).enumerate() {
                prop_assert!(same(*x, *y), "{isa} {name}[{n}] is {x}, should be {y}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Cases 7, 93 and 94, whatever the options.
    #[test]
    fn nan_spreads_as_the_reference_says_and_no_further(
        case in any_case(&[DType::F32, DType::F16, DType::BF16, DType::F64], 40),
        which in 1..64u8,
        threads in 1..3usize,
    ) {
        let same = |x: f64, y: f64| x.is_nan() == y.is_nan();
        spread_as_the_reference_says(&case, which, f64::NAN, threads, same)?;
    }

    /// A score of +∞ makes its row NaN, one of −∞ hides the key.
    #[test]
    fn infinities_spread_as_the_reference_says_and_no_further(
        case in any_case(&[DType::F32, DType::F16, DType::BF16, DType::F64], 40),
        which in 1..64u8,
        negative in any::<bool>(),
    ) {
        let value = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
        // A weight that is 0 in f32 and tiny in f64 makes NaN of what should be ∞.
        let same = |x: f64, y: f64| x.is_finite() == y.is_finite();
        spread_as_the_reference_says(&case, which, value, 1, same)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Spoiled tiles next to sound ones.
    #[test]
    fn nan_in_one_tile_leaves_the_others_sound(
        case in any_case(&[DType::F32, DType::F16, DType::BF16], 400),
        which in 1..64u8,
        threads in 1..3usize,
    ) {
        let case = Case { lengths: case.lengths[..1].to_vec(), heads_k: 1, ..case };
        let same = |x: f64, y: f64| x.is_nan() == y.is_nan();
        spread_as_the_reference_says(&case, which, f64::NAN, threads, same)?;
    }
}

/// Case 7, in packed sequences: one that holds NaN throughout, rows that are not used and rows
/// after the last sequence do not change a bit elsewhere.
#[test]
fn spoiled_sequences_and_unused_rows_change_no_bit_elsewhere() {
    everywhere(|isa, dtype| {
        let case = Case {
            dtype,
            packed: true,
            spare_rows: 3,
            unused: Some((2, 5)),
            group: 2,
            sinks: true,
            lengths: vec![(9, 30), (20, 12), (6, 300)],
            ..Case::dense(1, 1, 1, 1, 20)
        };
        let run = |value: Option<f64>| {
            let mut tensors = case.tensors();
            let (used_q, used_k) = (tensors.used_q.clone(), tensors.used_k.clone());
            let spoil = |tensor: &Strided, ends: &[i32], used: &[i64], rows: usize| {
                tensor.clone().replaced(|index, x| {
                    let row = index[rows] as i64;
                    let of = |b: &usize| row < i64::from(ends[b + 1]);
                    let hidden = match (0..3).find(of) {
                        None | Some(1) => true,
                        Some(b) => row - i64::from(ends[b]) >= used[b],
                    };
                    if hidden { value.unwrap_or(x) } else { x }
                })
            };
            let (dout, dlse) = {
                let attention = case.attention(&tensors);
                let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
                let problem = Problem::new(&attention, q, k, v).unwrap();
                upstream(&problem, &Ask::default(), 5)
            };
            let dout = spoil(&dout, &tensors.cu_q, &used_q, 0);
            let dlse = dlse.map(|dlse| spoil(&dlse, &tensors.cu_q, &used_q, 1));
            tensors.q = spoil(&tensors.q, &tensors.cu_q, &used_q, 0);
            tensors.k = spoil(&tensors.k, &tensors.cu_k, &used_k, 0);
            tensors.v = spoil(&tensors.v, &tensors.cu_k, &used_k, 0);
            let attention = case.attention(&tensors);
            let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
            let problem = Problem::new(&attention, q, k, v).unwrap();
            let engine = engine(isa, 2);
            let attended = forward(&engine, &problem, &Layout::default());
            let ask = Ask { wanted: [true, true, true, false, false], ..Ask::default() };
            let shapes = gradient_shapes(&tensors);
            let grads = backward(&engine, &problem, shapes, &attended, &(dout, dlse), &ask);
            let [dq, dk, dv, ..] = grads.map(|grad| grad.map_or(Vec::new(), |grad| grad.values()));
            [attended.out.values(), dq, dk, dv]
        };
        let clean = run(None);
        for value in [f64::NAN, f64::INFINITY] {
            for (n, (clean, found)) in clean.iter().zip(run(Some(value))).enumerate() {
                // Of sequence 1: rows 9..29 of the queries, 30..42 of the keys.
                let (heads, spoiled) = if n < 2 { (2, 9..27) } else { (1, 30..37) };
                for (at, (x, y)) in clean.iter().zip(&found).enumerate() {
                    let row = at / (heads * 20);
                    if !spoiled.contains(&row) {
                        assert_eq!(x.to_bits(), y.to_bits(), "{isa} {dtype} {n} row {row}");
                    }
                }
            }
        }
    });
}

/// What a mask hides stays hidden though the bias there is NaN or +∞.
#[test]
fn bias_of_hidden_keys_may_hold_anything() {
    everywhere(|isa, dtype| {
        let tensors = Tensors::dense(dtype, [&[1, 6, 1, 12]; 3], |n, i| noise(n as u64, i));
        let mask: Vec<bool> = (0..36).map(|n| n % 6 != 4).collect();
        let mask = TensorView::from_slice(&mask, &[1, 1, 6, 6]).unwrap();
        let run = |value: f32| {
            let bias: Vec<f32> =
                (0..36).map(|n| if n % 6 > n / 6 || n % 6 == 4 { value } else { 0.5 }).collect();
            let bias = TensorView::from_slice(&bias, &[1, 1, 6, 6]).unwrap();
            let attention = Attention::new().causal().mask(mask).bias(bias);
            let dout = Strided::new(dtype, &[1, 6, 1, 12], &Layout::default(), |_| 1.0);
            (attend(isa, &attention, &tensors), gradients(isa, &attention, &tensors, dout))
        };
        let clean = run(0.5);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            assert_eq!(clean, run(value), "{isa} {dtype} {value}");
        }
    });
}

/// Case 93: one score of +∞, through the bias.
#[test]
fn one_infinite_score_makes_its_row_nan_and_no_other() {
    everywhere(|isa, dtype| {
        let tensors = Tensors::dense(dtype, [&[1, 40, 1, 8]; 3], |n, i| noise(n as u64, i));
        let mut bias = vec![0f32; 1600];
        bias[7 * 40 + 5] = f32::INFINITY;
        let bias = TensorView::from_slice(&bias, &[1, 1, 40, 40]).unwrap();
        let attention = Attention::new().causal().bias(bias);
        let (out, lse) = attend(isa, &attention, &tensors);
        let dout = Strided::new(dtype, &[1, 40, 1, 8], &Layout::default(), |i| noise(9, i));
        let [dq, dk, dv] = gradients(isa, &attention, &tensors, dout);
        for row in 0..40 {
            let all = |x: &[f64], nan| x[row * 8..][..8].iter().all(|x| x.is_nan() == nan);
            assert!(lse[row].is_nan() == (row == 7) && all(&out, row == 7), "{isa} {dtype} {row}");
            assert!(all(&dq, row == 7), "{isa} {dtype} dq {row}");
            assert!(all(&dk, row <= 7) && all(&dv, row <= 7), "{isa} {dtype} dk, dv {row}");
        }
    });
}
