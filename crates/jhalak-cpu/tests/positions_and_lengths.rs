//! Which keys a query sees where lengths differ: alignment, windows, chunks, packed sequences. The
//! numbers are those of the reports on which other libraries failed.

mod common;

use common::case::{Case, Tensors};
use common::run::{Ask, attend, check, engine};
use common::strided::{Layout, Strided, noise};
use jhalak_cpu::IsaKind;
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Forward, Gradient, GradientTargets, Merge,
    OutOrDelta, Problem, Tensor, TensorView,
};

const HALF_AND_SINGLE: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn check_everywhere(case: Case) {
    for isa in IsaKind::available() {
        for dtype in HALF_AND_SINGLE {
            let case = Case { dtype, ..case.clone() };
            check(&case, &Ask::default(), isa, 2).unwrap_or_else(|e| panic!("{isa} {case:?}: {e}"));
        }
    }
}

/// How many keys each query sees: exp(lse) of equal scores.
fn seen(isa: IsaKind, attention: &Attention<'_>, queries: usize, keys: usize) -> Vec<f64> {
    let (q, k) = ([1, queries, 1, 4], [1, keys, 1, 4]);
    let tensors = Tensors::dense(DType::F32, [&q, &k, &k], |_, _| 0.0);
    attend(isa, attention, &tensors).1.into_iter().map(|x| x.exp().round()).collect()
}

/// Case 22.
#[test]
fn causal_puts_the_last_query_on_the_last_key_or_the_first_on_the_first() {
    for isa in IsaKind::available() {
        let causal = || Attention::new().causal();
        assert_eq!(seen(isa, &causal(), 2, 5), [4.0, 5.0]);
        assert_eq!(seen(isa, &causal(), 5, 2), [0.0, 0.0, 0.0, 1.0, 2.0]);
        assert_eq!(seen(isa, &causal().q_start(0), 2, 5), [1.0, 2.0]);
        assert_eq!(seen(isa, &causal().q_start(0), 5, 2), [1.0, 2.0, 2.0, 2.0, 2.0]);
    }
}

/// Cases 23 and 24.
#[test]
fn more_queries_than_keys_and_fewer_equal_the_reference() {
    check_everywhere(Case { causal: true, ..Case::dense(1, 300, 150, 1, 16) });
    check_everywhere(Case { causal: true, ..Case::dense(1, 3, 150, 2, 16) });
    for isa in IsaKind::available() {
        let rows = seen(isa, &Attention::new().causal(), 2048, 1024);
        assert!(rows[..1024].iter().all(|&n| n == 0.0) && rows[1024] == 1.0);
    }
}

/// Case 25: chunked prefill, for every chunk size.
#[test]
fn chunks_of_a_prompt_equal_the_whole() {
    let total = 37;
    let tensor =
        |seed: u64| -> Vec<f32> { (0..total * 16).map(|i| noise(seed, &[i]) as f32).collect() };
    let [q, k, v] = [1, 2, 3].map(tensor);
    let view = |x: &[f32], from: usize, to: usize| {
        let shape = [1, to - from, 2, 8];
        let x = &x[from * 16..to * 16];
        Strided::new(DType::F32, &shape, &Layout::default(), |i| {
            f64::from(x[(i[1] * 2 + i[2]) * 8 + i[3]])
        })
    };
    for isa in IsaKind::available() {
        for window in [-1, 5] {
            let attention = Attention::new().causal().window(window, 0);
            let whole = Tensors::plain(view(&q, 0, total), view(&k, 0, total), view(&v, 0, total));
            let (expected, _) = attend(isa, &attention, &whole);
            for chunk in 1..=total {
                for start in (0..total).step_by(chunk) {
                    let end = total.min(start + chunk);
                    let part =
                        Tensors::plain(view(&q, start, end), view(&k, 0, end), view(&v, 0, end));
                    let (out, _) = attend(isa, &attention, &part);
                    for (a, b) in out.iter().zip(&expected[start * 16..]) {
                        assert!((a - b).abs() < 1e-6, "{isa} {chunk} {start}");
                    }
                }
            }
        }
    }
}

/// Cases 82, 85 and 87: parts of the keys, merged, with empty ones and lse far apart.
#[test]
fn merged_parts_equal_the_whole_and_empty_parts_count_nothing() {
    for isa in IsaKind::available() {
        let engine = engine(isa, 2);
        let merge = |parts: &[(&[f32], &[f32])]| {
            let views: Vec<_> = parts
                .iter()
                .map(|(out, lse)| {
                    let out = TensorView::from_slice(out, &[1, 2, 1, 2]).unwrap();
                    (out, TensorView::from_slice(lse, &[1, 1, 2]).unwrap())
                })
                .collect();
            let mut out = Tensor::zeros(DType::F32, &[1, 2, 1, 2]).unwrap();
            let mut lse = Tensor::zeros(DType::F32, &[1, 1, 2]).unwrap();
            assert!(Merge::new(&views, out.view_mut(), lse.view_mut()).is_ok());
            engine.merge(&views, out.view_mut(), lse.view_mut()).unwrap();
            (out.to_f64_vec(), lse.to_f64_vec())
        };
        let (minus, plus, nan) = (f32::NEG_INFINITY, f32::INFINITY, f32::NAN);
        let some: (&[f32], &[f32]) = (&[1.0, 2.0, 3.0, 4.0], &[0.5, 100.0]);
        for empty in [minus, plus] {
            let none: (&[f32], &[f32]) = (&[nan; 4], &[empty; 2]);
            let (out, lse) = merge(&[none, none]);
            assert!(out.iter().all(|x| x.to_bits() == 0));
            assert_eq!(lse, [f64::NEG_INFINITY; 2]);
            let (out, lse) = merge(&[none, some, none]);
            assert_eq!((out, lse), (vec![1.0, 2.0, 3.0, 4.0], vec![0.5, 100.0]));
        }
        // exp(200) is no f32 number; its share is.
        let low: (&[f32], &[f32]) = (&[5.0; 4], &[0.5, -100.0]);
        let (out, lse) = merge(&[some, low]);
        assert_eq!(&out[..2], [3.0, 3.5]);
        assert_eq!(&out[2..], [3.0, 4.0]);
        assert!((lse[0] - (0.5 + 2f64.ln())).abs() < 1e-6);
        assert_eq!(lse[1], 100.0);

        // A call cut into parts of the keys, one of them seeing nothing.
        let case = Case { causal: true, ..Case::dense(2, 9, 24, 2, 16) };
        let tensors = case.tensors();
        let (out, lse) = attend(isa, &case.attention(&tensors), &tensors);
        let (k, v) = (tensors.k.values(), tensors.v.values());
        let mut parts = Vec::new();
        for (from, to) in [(0, 3), (3, 23), (23, 24), (24, 24)] {
            let cut = |x: &[f64]| {
                Strided::new(DType::F32, &[2, to - from, 2, 16], &Layout::default(), |i| {
                    x[((i[0] * 24 + i[1] + from) * 2 + i[2]) * 16 + i[3]]
                })
            };
            let part = Tensors::plain(tensors.q.clone(), cut(&k), cut(&v));
            let blocks = Attention::new().causal().q_start(15).k_start(from as i64);
            let (out, lse) = attend(isa, &blocks, &part);
            let single = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect::<Vec<f32>>();
            parts.push((single(out), single(lse)));
        }
        let views: Vec<_> = parts
            .iter()
            .map(|(out, lse)| {
                let out = TensorView::from_slice(out, &[2, 9, 2, 16]).unwrap();
                (out, TensorView::from_slice(lse, &[2, 2, 9]).unwrap())
            })
            .collect();
        let mut merged = Tensor::zeros(DType::F32, &[2, 9, 2, 16]).unwrap();
        let mut merged_lse = Tensor::zeros(DType::F32, &[2, 2, 9]).unwrap();
        engine.merge(&views, merged.view_mut(), merged_lse.view_mut()).unwrap();
        for (a, b) in merged.to_f64_vec().iter().zip(&out) {
            assert!((a - b).abs() < 1e-6);
        }
        for (a, b) in merged_lse.to_f64_vec().iter().zip(&lse) {
            assert!((a - b).abs() < 1e-5);
        }
    }
}

/// Cases 30, 31, 32, 33 and 34.
#[test]
fn windows_are_inclusive_saturate_and_keep_causal() {
    for isa in IsaKind::available() {
        let window = |l, r| Attention::new().window(l, r);
        assert_eq!(seen(isa, &window(3, 0), 6, 6), [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
        assert_eq!(seen(isa, &window(0, 0), 4, 4), [1.0; 4]);
        assert_eq!(seen(isa, &window(3, 0), 1, 10), [4.0]);
        let causal = seen(isa, &Attention::new().causal(), 128, 128);
        for wide in [4096, 1_000_000_000, i64::from(i32::MAX), i64::MAX, -1] {
            assert_eq!(seen(isa, &window(wide, wide).causal(), 128, 128), causal);
            assert_eq!(seen(isa, &window(wide, -1), 3, 5), [5.0; 3]);
        }
    }
    for keys in [16, 17, 18] {
        check_everywhere(Case { window: Some((16, 0)), ..Case::dense(1, keys, keys, 1, 8) });
    }
}

/// Cases 27, 43, 44, 46, 47 and 48; every output is poisoned beforehand.
#[test]
fn packed_sequences_of_any_lengths_equal_the_reference() {
    let packed = |lengths: &[(usize, usize)], heads_k, group, head_dim| Case {
        packed: true,
        lengths: lengths.to_vec(),
        heads_k,
        group,
        head_dim,
        head_dim_v: head_dim,
        ..Case::default()
    };
    for causal in [false, true] {
        check_everywhere(Case { causal, ..packed(&[(3, 7); 2], 16, 1, 192) });
        check_everywhere(Case { causal, ..packed(&[(0, 0), (1, 3), (0, 0), (1, 5)], 3, 3, 64) });
        check_everywhere(Case { causal, ..packed(&[(0, 0), (0, 2), (0, 1), (1, 4)], 7, 3, 120) });
        check_everywhere(Case { causal, ..packed(&[(0, 5), (0, 2)], 2, 1, 8) });
        check_everywhere(Case { causal, ..packed(&[(4, 0), (2, 0)], 2, 1, 8) });
        check_everywhere(Case { causal, ..packed(&[(0, 0)], 2, 1, 8) });
        check_everywhere(Case { causal, spare_rows: 2, ..packed(&[(40, 40), (54, 54)], 1, 2, 16) });
        check_everywhere(Case {
            causal,
            unused: Some((3, 1)),
            spare_rows: 1,
            ..packed(&[(9, 4), (2, 70)], 1, 2, 16)
        });
    }
}

/// Cases 53 and 54: sizes of 0 give empty or zero results.
#[test]
fn calls_without_batch_queries_keys_or_heads_do_nothing() {
    for (batch, queries, keys, heads_k) in
        [(0, 3, 3, 2), (2, 0, 5, 2), (2, 5, 0, 2), (7, 9, 7, 0), (0, 0, 0, 0)]
    {
        let case = Case { heads_k, ..Case::dense(batch, queries, keys, 1, 7) };
        check_everywhere(case);
    }
}

/// Shapes without elements may have sizes of any magnitude: such a call takes neither time nor
/// memory.
#[test]
fn an_empty_call_costs_nothing_whatever_its_other_sizes() {
    let engine = engine(IsaKind::selected().unwrap(), 2);
    for (b, q, k, heads) in
        [(1 << 36, 0, 0, 2), (1, 0, 0, 1 << 36), (1 << 20, 0, 1, 0), (0, 9, 9, 9)]
    {
        let empty = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
        let (q, k) = (empty(&[b, q, heads, 4]), empty(&[b, k, heads, 4]));
        let attention = Attention::new().causal();
        let problem = Problem::new(&attention, q.view(), k.view(), k.view()).unwrap();
        let (mut out, mut lse) = (empty(&problem.out_shape()), empty(&problem.lse_shape()));
        let call = Forward::new(&problem, out.view_mut(), lse.view_mut()).unwrap();
        engine.forward(&call).unwrap();
        let inputs = BackwardInputs {
            dout: out.view(),
            out: OutOrDelta::Out(out.view()),
            lse: lse.view(),
            dlse: None,
        };
        let (mut dq, mut dk) = (empty(q.shape()), empty(k.shape()));
        let mut targets = GradientTargets::default();
        targets.dq = Some(Gradient::Write(dq.view_mut()));
        targets.dk = Some(Gradient::Write(dk.view_mut()));
        engine.backward(&Backward::new(&problem, inputs, targets).unwrap()).unwrap();
    }
}
