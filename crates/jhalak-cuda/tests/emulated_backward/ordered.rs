//! Gradients whose bits must be the same every time.

use jhalak_cases::attended::Attended;
use jhalak_cases::case::{Case, any_case};
use jhalak_cases::gradients::{Ask, Gradients};
use jhalak_cuda::plan::{BackwardPlan, BackwardWorkspace, Limits};
use jhalak_problem::{Backward, BackwardInputs, DType, Device, OutOrDelta, Problem};
use jhalak_ptx::Target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::run::{backward, check};

const DEVICE: Device = Device::Cuda(0);

fn deterministic(case: Case) -> Case {
    let bias = case.bias.map(|(_, f32)| ([true; 4], f32));
    Case { deterministic: true, bias, ..case }
}

fn any_case_in_order(target: Target, dtypes: &'static [DType], count: usize) {
    let cases = any_case(dtypes, 150).prop_map(deterministic);
    let mut runner = TestRunner::deterministic();
    for _ in 0..count {
        let case = cases.new_tree(&mut runner).unwrap().current();
        if let Err(error) = check(&case, &Ask::default(), Limits::of(target)) {
            panic!("{error}\n{case:?}");
        }
    }
}

#[test]
fn any_case_in_order_on_ampere_is_right() {
    any_case_in_order(Target::Sm80, &[DType::F16, DType::BF16, DType::F32], 60);
}

#[test]
fn any_case_in_order_on_turing_is_right() {
    any_case_in_order(Target::Sm75, &[DType::F16, DType::F32], 30);
}

/// The bits of dq, with blocks and warps in different orders.
fn bits(case: &Case, orders: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    // Added to floats, so that no rounding hides a bit.
    let (tensors, ask) = (case.tensors(), Ask { dlse: false, add: true, ..Ask::default() });
    let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
    let problem = Problem::new(&case.attention(&tensors), q, k, v).unwrap();
    let (dout, _) = ask.upstream(&problem, case.seed);
    let limits = Limits::of(Target::Sm80);
    orders
        .map(|order| {
            let upstream = (&dout, None);
            let all = backward(case, &tensors, &problem, &ask, upstream, limits, order).unwrap();
            all.tensors[0].as_ref().expect("dq is asked for").bytes()
        })
        .collect()
}

#[test]
fn the_bits_of_dq_do_not_depend_on_the_order_of_blocks() {
    let dense = |dtype| Case { dtype, group: 2, ..Case::dense(1, 150, 500, 1, 16) };
    let packed =
        Case { packed: true, lengths: vec![(130, 390), (0, 40), (70, 300)], ..dense(DType::F16) };
    let windowed = Case { window: Some((100, 20)), ..dense(DType::F32) };
    for case in [dense(DType::F32), packed, windowed] {
        for causal in [false, true] {
            let free = Case { causal, ..case.clone() };
            let any = bits(&free, 0..8);
            assert!(any.iter().any(|bits| *bits != any[0]), "{free:?} says nothing");
            let ordered = bits(&Case { deterministic: true, ..free.clone() }, 0..8);
            assert!(ordered.iter().all(|bits| *bits == ordered[0]), "{free:?}");
        }
    }
}

#[test]
fn a_wrong_hint_of_the_longest_sequence_stops_nobody() {
    let case = Case {
        dtype: DType::F16,
        deterministic: true,
        packed: true,
        lengths: vec![(60, 900), (200, 300)],
        ..Case::dense(1, 1, 1, 1, 16)
    };
    for causal in [false, true] {
        for hint in [(1, 1), (64, 200), (1000, 400)] {
            let case = Case { causal, max_seqlens: Some(hint), ..case.clone() };
            check(&case, &Ask::default(), Limits::of(Target::Sm80)).unwrap();
        }
    }
}

#[test]
fn the_gradient_of_a_bias_that_is_broadcast_is_refused() {
    let case = Case {
        dtype: DType::F16,
        deterministic: true,
        bias: Some(([true, false, true, true], true)),
        ..Case::dense(2, 20, 30, 2, 16)
    };
    let tensors = case.tensors();
    let views = tensors.views_on(DEVICE, |_| 1 << 20);
    let options = case.options(&views);
    let problem = Problem::new(&options, views.q, views.k, views.v).unwrap();
    let ask = Ask { dlse: false, ..Ask::default() };
    let (dout, _) = ask.upstream(&problem, 0);
    let attended = Attended::poisoned(&problem, &case.layouts[3]);
    let mut gradients = Gradients::poisoned(&problem, &tensors, &ask);
    // SAFETY: the host reads and writes nothing of another device's memory.
    let inputs = unsafe {
        BackwardInputs {
            dout: dout.view_at(2 << 40, DEVICE),
            out: OutOrDelta::Out(attended.out.view_at(3 << 40, DEVICE)),
            lse: attended.lse.view_at(4 << 40, DEVICE),
            dlse: None,
        }
    };
    // SAFETY: as above.
    let targets =
        gradients.targets(|n, tensor| unsafe { tensor.view_mut_at((5 + n as u64) << 40, DEVICE) });
    let call = Backward::new(&problem, inputs, targets).unwrap();
    let workspace = BackwardWorkspace { delta: 0, dq_sum: None, dbias_sum: None, turns: None };
    let error = BackwardPlan::new(&call, Limits::of(Target::Sm80), &workspace).unwrap_err();
    let expected = "dbias of a bias that is broadcast cannot be deterministic on a GPU";
    assert_eq!(error.to_string(), expected);
}
