//! The same bits for any number of threads, any neighbours in the batch, any caller's
//! floating-point state.

mod common;

use common::case::{Case, any_case};
use common::run::{Ask, backward_of, engine, forward};
use common::strided::Layout;
use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::{DType, Problem};
use proptest::prelude::*;

/// The bits of every result of a case.
fn bits(case: &Case, engine: &Engine) -> Vec<Vec<u64>> {
    let tensors = case.tensors();
    let attention = case.attention(&tensors);
    let problem =
        Problem::new(&attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
    let attended = forward(engine, &problem, &Layout::default());
    let ask = Ask::default();
    let grads = backward_of(engine, &problem, &tensors, &attended, &ask, case.seed);
    let forward = [attended.out.bits(), attended.lse.bits()];
    forward.into_iter().chain(grads.iter().flatten().map(|grad| grad.bits())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn results_are_bit_equal_for_any_number_of_threads(
        case in any_case(&[DType::F32, DType::F16, DType::BF16, DType::F64], 300),
    ) {
        // Enough work that the threads are used.
        let case = Case { head_dim: 64, ..case };
        for isa in IsaKind::available() {
            let alone = bits(&case, &engine(isa, 1));
            for threads in [2, 3, 5] {
                prop_assert_eq!(&alone, &bits(&case, &engine(isa, threads)), "{} {}", isa, threads);
            }
        }
    }
}

fn busy_case() -> Case {
    Case { group: 3, causal: true, ..Case::dense(2, 300, 700, 2, 64) }
}

#[test]
fn fifty_runs_are_bit_equal() {
    let engine = engine(IsaKind::selected().unwrap(), 3);
    let first = bits(&busy_case(), &engine);
    for _ in 0..50 {
        assert_eq!(first, bits(&busy_case(), &engine));
    }
}

#[test]
fn calls_from_several_threads_at_once_give_the_bits_of_one() {
    let shared = Engine::with_isa(IsaKind::selected().unwrap()).unwrap();
    let expected = bits(&busy_case(), &shared);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(expected, bits(&busy_case(), &shared)));
        }
    });
}

#[test]
fn a_call_runs_in_the_callers_own_pool() {
    let shared = Engine::with_isa(IsaKind::selected().unwrap()).unwrap();
    let expected = bits(&busy_case(), &shared);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    assert_eq!(expected, pool.install(|| bits(&busy_case(), &shared)));
}

/// Case 111: a row keeps its bits whatever stands beside it in the batch.
#[test]
fn a_sequence_has_the_same_bits_alone_and_in_a_batch() {
    for isa in IsaKind::available() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let both = |second: usize| Case {
                dtype,
                packed: true,
                group: 7,
                lengths: vec![(1, 1500), (second, 1500)],
                ..Case::dense(1, 1, 1500, 2, 64)
            };
            let row = |case: Case| {
                let out = bits(&case, &engine(isa, 2)).swap_remove(0);
                out[..case.heads_q() * case.head_dim_v].to_vec()
            };
            let ten = row(both(10));
            assert_eq!(ten, row(both(9)), "{isa}");
            let alone = Case { lengths: vec![(1, 1500)], ..both(1) };
            assert_eq!(ten, row(alone), "{isa}");
        }
    }
}

/// Case 139: flushing of subnormal numbers is the caller's business, before and after.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_callers_floating_point_state_changes_nothing_and_is_left_as_found() {
    const FLUSH: u32 = 0x8040;
    fn state() -> u32 {
        let mut state = 0u32;
        // SAFETY: stores the 4-byte MXCSR register.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut state) };
        state
    }
    fn set(state: u32) {
        // SAFETY: a state read before, with flushing on or off.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const state) };
    }
    for spread in [1.0, 1e-39] {
        let case = Case { spread, ..Case::dense(1, 9, 20, 2, 16) };
        let tensors = case.tensors();
        let attention = case.attention(&tensors);
        let problem =
            Problem::new(&attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
        for isa in IsaKind::available() {
            let engine = engine(isa, 1);
            let expected = forward(&engine, &problem, &Layout::default());
            let before = state();
            set(before | FLUSH);
            let found = state();
            let flushed = forward(&engine, &problem, &Layout::default());
            let after = state();
            set(before);
            assert_eq!(found & !0x3F, after & !0x3F);
            assert_eq!(found & FLUSH, FLUSH);
            assert_eq!(expected.out.bits(), flushed.out.bits(), "{isa}");
            assert_eq!(expected.lse.bits(), flushed.lse.bits(), "{isa}");
        }
    }
}
