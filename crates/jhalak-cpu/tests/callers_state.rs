//! Case 139: the caller's floating-point state (flushing of subnormal numbers, rounding) changes
//! no bit of any result and is left as found.

#![cfg(target_arch = "x86_64")]

mod common;

use common::case::{Case, any_case};
use common::run::{Ask, backward_of, engine, forward};
use common::strided::{Layout, Strided};
use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::{DType, Problem, Tensor};
use proptest::prelude::*;

const FLUSH: u32 = 0x8040;
const TOWARDS_ZERO: u32 = 0x6000;
/// The sticky exception flags.
const FLAGS: u32 = 0x3F;

fn state() -> u32 {
    let mut state = 0u32;
    // SAFETY: stores the 4-byte MXCSR register.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut state) };
    state
}

fn set(state: u32) {
    // SAFETY: a state read before, with modes of the manual set.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const state) };
}

/// Runs `body` in this state and checks that it is there afterwards.
fn within<R>(modes: u32, body: impl FnOnce() -> R) -> R {
    let before = state();
    set(before | modes);
    let result = body();
    let after = state();
    set(before);
    assert_eq!((before | modes) & !FLAGS, after & !FLAGS);
    result
}

/// All results of a case; the calls themselves under these modes, from the making of the engine on.
fn bits(case: &Case, isa: IsaKind, threads: usize, modes: u32) -> Vec<Vec<u64>> {
    let tensors = case.tensors();
    let attention = case.attention(&tensors);
    let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
    let problem = Problem::new(&attention, q, k, v).unwrap();
    let sound: Engine = engine(isa, threads);
    let attended = within(modes, || forward(&sound, &problem, &Layout::default()));
    let grads = {
        let ask = Ask { dlse: true, ..Ask::default() };
        within(modes, || backward_of(&sound, &problem, &tensors, &attended, &ask, case.seed))
    };
    let first = [attended.out.bits(), attended.lse.bits()].into_iter();
    first.chain(grads.iter().flatten().map(Strided::bits)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn flushing_changes_no_bit(
        case in any_case(&[DType::F32, DType::F16, DType::BF16, DType::F64], 120),
        threads in 1..4usize,
        tiny in any::<bool>(),
    ) {
        let case = Case { spread: if tiny { 1e-39 } else { case.spread }, ..case };
        for isa in IsaKind::available() {
            let expected = bits(&case, isa, threads, 0);
            prop_assert!(expected == bits(&case, isa, threads, FLUSH), "{isa}");
        }
    }
}

/// A call large enough for the pool, with every option that computes something on the way.
fn busy() -> Case {
    Case {
        sinks: true,
        bias: Some(([false, true, true, true], true)),
        alibi: Some(true),
        softcap: 3.0,
        dropout: Some(0.1),
        group: 2,
        ..Case::dense(2, 150, 260, 2, 40)
    }
}

#[test]
fn rounding_modes_change_no_bit() {
    for isa in IsaKind::available() {
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            let case = Case { dtype, ..busy() };
            let tensors = case.tensors();
            let attention = case.attention(&tensors);
            let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
            let problem = Problem::new(&attention, q, k, v).unwrap();
            for threads in [1, 3] {
                let engine = engine(isa, threads);
                let run = |modes| within(modes, || forward(&engine, &problem, &Layout::default()));
                let (expected, found) = (run(0), run(TOWARDS_ZERO | FLUSH));
                assert_eq!(expected.out.bits(), found.out.bits(), "{isa} {dtype} {threads}");
                assert_eq!(expected.lse.bits(), found.lse.bits(), "{isa} {dtype} {threads}");
            }
        }
    }
}

#[test]
fn merging_does_not_depend_on_the_callers_state() {
    let tensor =
        |values: [f32; 2], shape: &[usize]| Tensor::from_vec(values.to_vec(), shape).unwrap();
    let (out_shape, lse_shape) = ([1, 2, 1, 1], [1, 1, 2]);
    let parts = [([1e-39, 0.3], [0.1, 0.7]), ([3e-39, 0.7], [-0.2, 0.1])]
        .map(|(out, lse)| (tensor(out, &out_shape), tensor(lse, &lse_shape)));
    let views = [0, 1].map(|n| (parts[n].0.view(), parts[n].1.view()));
    let engine = engine(IsaKind::selected().unwrap(), 1);
    let run = |modes| {
        let mut out = tensor([f32::NAN; 2], &out_shape);
        let mut lse = tensor([f32::NAN; 2], &lse_shape);
        within(modes, || engine.merge(&views, out.view_mut(), lse.view_mut()).unwrap());
        let bits = |x: &Tensor| x.as_slice::<f32>().unwrap().iter().map(|x| x.to_bits()).collect();
        let both: [Vec<u32>; 2] = [bits(&out), bits(&lse)];
        both
    };
    assert_eq!(run(0), run(FLUSH | TOWARDS_ZERO));
}
