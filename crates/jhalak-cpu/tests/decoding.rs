//! Few queries against many keys: a path of its own, with its own cuts and merges.

mod common;

use common::case::{Case, Tensors, any_case};
use common::every::everywhere;
use common::run::{Ask, attend, check, engine, forward};
use common::strided::{Layout, noise};
use jhalak_cpu::IsaKind;
use jhalak_problem::{Attention, DType, Problem, TensorView};
use proptest::prelude::*;

/// Any call, with lengths that take several chunks.
fn decoding() -> impl Strategy<Value = Case> {
    let lengths = (1..9usize, prop_oneof![400..1100usize, 1900..2600usize]);
    let dtypes = &[DType::F32, DType::F16, DType::BF16, DType::F64];
    (any_case(dtypes, 2), lengths, 0..4usize).prop_map(|(case, (queries, keys), short)| {
        let mut lengths = vec![(queries, keys)];
        if case.packed {
            // Beside a sequence that has another shape.
            lengths.push([(0, 9), (40, 41), (3, 0), (2, 700)][short]);
        }
        let unused = case.unused.filter(|_| keys < 1100);
        let group = case.group.min(40 / queries);
        Case { lengths, unused, group: group.max(1), ..case }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_call_equals_the_reference(case in decoding(), threads in 1..4usize) {
        for isa in IsaKind::available() {
            check(&case, &Ask::default(), isa, threads)
                .map_err(|message| TestCaseError::fail(format!("{isa}: {message}")))?;
        }
    }

    #[test]
    fn results_are_bit_equal_for_any_number_of_threads(case in decoding()) {
        for isa in IsaKind::available() {
            let bits = |threads| {
                let tensors = case.tensors();
                let attention = case.attention(&tensors);
                let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
                let problem = Problem::new(&attention, q, k, v).unwrap();
                let attended = forward(&engine(isa, threads), &problem, &Layout::default());
                [attended.out.bits(), attended.lse.bits()]
            };
            let alone = bits(1);
            for threads in [2, 3, 7] {
                prop_assert_eq!(&alone, &bits(threads), "{} {}", isa, threads);
            }
        }
    }
}

/// One token at 32 query heads on 8 key heads, and heads of more sizes than a bundle of heads holds.
#[test]
fn a_token_of_a_real_model_equals_the_reference() {
    everywhere(|isa, dtype| {
        for (heads_k, group, head_dim) in [(8, 4, 128), (7, 1, 192), (1, 8, 576), (20, 3, 40)] {
            let case =
                Case { dtype, group, causal: true, ..Case::dense(1, 1, 300, heads_k, head_dim) };
            check(&case, &Ask::default(), isa, 3).unwrap_or_else(|e| panic!("{isa} {case:?}: {e}"));
        }
    });
}

/// What hidden keys hold changes no bit; what visible values hold reaches the rows that see them.
#[test]
fn spoiled_keys_and_values_reach_only_those_who_see_them() {
    everywhere(|isa, dtype| {
        let (q, k) = ([1, 4, 2, 24], [1, 3000, 2, 24]);
        let run = |place: usize, value: Option<f64>| {
            let mut tensors = Tensors::dense(dtype, [&q, &k, &k], |n, i| noise(n as u64, i));
            for tensor in [&mut tensors.k, &mut tensors.v] {
                *tensor = tensor.clone().replaced(|index, x| match value {
                    Some(value) if index[1] == place && index[2] == 1 && index[3] == 5 => value,
                    _ => x,
                });
            }
            attend(isa, &Attention::new().causal().window(1500, 0), &tensors)
        };
        let (out, lse) = run(0, None);
        for value in [f64::NAN, f64::INFINITY] {
            // Query i sees keys 1496 + i to 2996 + i.
            for (place, sees) in [
                (3, [false; 4]),
                (1498, [true, true, true, false]),
                (2998, [false, false, true, true]),
            ] {
                let (found, found_lse) = run(place, Some(value));
                for (n, (x, y)) in out.iter().zip(&found).enumerate() {
                    let (i, h) = (n / 48, n / 24 % 2);
                    if sees[i] && h == 1 {
                        // +∞ may make a score −∞, which hides the key.
                        assert!(y.is_nan() || value.is_infinite(), "{isa} {dtype} {place} {n}");
                    } else {
                        assert_eq!(x.to_bits(), y.to_bits(), "{isa} {dtype} {place} {n}");
                    }
                }
                for (n, (x, y)) in lse.iter().zip(&found_lse).enumerate() {
                    assert!(n / 4 == 1 && sees[n % 4] || x.to_bits() == y.to_bits());
                }
            }
        }
    });
}

/// An infinite value makes its column infinite for those who see it.
#[test]
fn an_infinite_value_makes_its_column_infinite() {
    everywhere(|isa, dtype| {
        let (q, k) = ([1, 2, 1, 8], [1, 2500, 1, 8]);
        let mut tensors = Tensors::dense(dtype, [&q, &k, &k], |n, i| noise(n as u64, i));
        tensors.v = tensors
            .v
            .replaced(|index, x| if index[1] == 2499 && index[3] == 2 { f64::INFINITY } else { x });
        let mut mask = vec![true; 5000];
        mask[2499] = false;
        let mask = TensorView::from_slice(&mask, &[1, 1, 2, 2500]).unwrap();
        let (out, _) = attend(isa, &Attention::new().mask(mask), &tensors);
        for (n, &x) in out.iter().enumerate() {
            assert_eq!(x == f64::INFINITY, n == 8 + 2, "{isa} {dtype} {n}: {x}");
            assert!(x.is_finite() || n == 8 + 2);
        }
    });
}

/// A context of which all but one key is hidden, in any chunk.
#[test]
fn the_only_visible_key_is_found_in_any_chunk() {
    everywhere(|isa, dtype| {
        let (q, k) = ([1, 1, 1, 4], [1, 5000, 1, 4]);
        let tensors = Tensors::dense(dtype, [&q, &k, &k], |n, i| {
            if n == 2 { (i[1] % 100) as f64 } else { noise(n as u64, i) }
        });
        for seen in [0, 31, 32, 1023, 1024, 2047, 2048, 4999] {
            let mask: Vec<bool> = (0..5000).map(|j| j == seen).collect();
            let mask = TensorView::from_slice(&mask, &[1, 1, 1, 5000]).unwrap();
            let (out, lse) = attend(isa, &Attention::new().mask(mask), &tensors);
            assert!(out.iter().all(|&x| x == (seen % 100) as f64), "{isa} {dtype} {seen}");
            assert!(lse[0].is_finite());
        }
        let nothing = [false];
        let nothing = TensorView::from_slice(&nothing, &[1, 1, 1, 1]).unwrap();
        let (out, lse) = attend(isa, &Attention::new().mask(nothing), &tensors);
        assert!(out.iter().all(|&x| x.to_bits() == 0) && lse[0] == f64::NEG_INFINITY);
    });
}

/// Equal scores: exp(lse) counts the keys, whatever their number.
#[test]
fn every_key_is_counted_once() {
    everywhere(|isa, dtype| {
        for keys in [8, 31, 33, 1023, 1024, 1025, 1056, 2048, 3001, 70_001] {
            let (q, k) = ([1, 1, 1, 8], [1, keys, 1, 8]);
            let tensors = Tensors::dense(dtype, [&q, &k, &k], |n, _| f64::from(n == 2));
            let (out, lse) = attend(isa, &Attention::new(), &tensors);
            assert!((lse[0] - (keys as f64).ln()).abs() < 1e-5, "{isa} {dtype} {keys} {lse:?}");
            assert!(out.iter().all(|x| (x - 1.0).abs() < 0.004), "{isa} {dtype} {keys}");
        }
    });
}

/// Keys that lie apart, backwards or in one place are read where they are.
#[test]
fn any_strides_are_read() {
    for isa in IsaKind::available() {
        for dtype in [DType::F32, DType::BF16] {
            for rotate in 0..4 {
                for (reversed, broadcast) in [(0, 0), (15, 0), (2, 0), (0, 2)] {
                    let layout = Layout { rotate, reversed, broadcast, gap: 1, lead: 3 };
                    let case = Case {
                        dtype,
                        group: 2,
                        layouts: [(); 4].map(|()| layout.clone()),
                        ..Case::dense(2, 2, 1100, 3, 20)
                    };
                    let ask = Ask {
                        layouts: [(); 4].map(|()| layout_of_results(rotate)),
                        ..Ask::default()
                    };
                    check(&case, &ask, isa, 2).unwrap_or_else(|e| panic!("{isa} {layout:?}: {e}"));
                }
            }
        }
    }
}

fn layout_of_results(rotate: usize) -> Layout {
    Layout { rotate, gap: 1, ..Layout::default() }
}

/// The results of a token do not depend on what is decoded beside it.
#[test]
fn a_token_keeps_its_bits_in_any_batch() {
    for isa in IsaKind::available() {
        let run = |others: usize| {
            let case = Case {
                packed: true,
                causal: true,
                group: 4,
                lengths: std::iter::once((1, 2100)).chain((0..others).map(|n| (n, 900))).collect(),
                ..Case::dense(1, 1, 1, 2, 64)
            };
            let tensors = case.tensors();
            let attention = case.attention(&tensors);
            let (out, _) = attend(isa, &attention, &tensors);
            out[..8 * 64].to_vec()
        };
        let alone = run(0);
        assert!(alone.iter().any(|&x| x != 0.0));
        for others in [1, 3, 60] {
            assert!(alone == run(others), "{isa} {others}");
        }
    }
}
