//! Threads with streams of their own, and calls again and again.

use jhalak_cases::case::Case;
use jhalak_cases::gradients::Ask;
use jhalak_problem::{DType, Problem};
use jhalak_ptx::Target;

use crate::run::{backward, check, engine, forward};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn threads_with_streams_of_their_own_do_not_meet() {
    std::thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || {
                let case = Case {
                    dtype: DType::F16,
                    causal: true,
                    seed,
                    ..Case::dense(2, 300, 400, 2, 64)
                };
                for _ in 0..5 {
                    check(&case, &Ask::default(), Target::Sm80).unwrap();
                }
            });
        }
    });
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn forward_bits_are_the_same_every_time() {
    let case = Case { dtype: DType::BF16, causal: true, ..Case::dense(2, 700, 900, 4, 128) };
    let tensors = case.tensors();
    for target in [Target::Sm80, Target::Sm90a] {
        let first = forward(&engine(target), &case, &tensors).unwrap();
        for _ in 0..50 {
            let again = forward(&engine(target), &case, &tensors).unwrap();
            assert!(again.out.bytes() == first.out.bytes());
            assert!(again.lse.bytes() == first.lse.bytes());
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn gradients_bits_are_the_same_every_time_if_asked_for() {
    for (dtype, causal) in [(DType::BF16, true), (DType::F16, false), (DType::F32, true)] {
        let case = Case {
            dtype,
            causal,
            group: 2,
            deterministic: true,
            ..Case::dense(2, 1500, 1600, 2, 64)
        };
        let (tensors, ask) = (case.tensors(), Ask { dlse: false, add: true, ..Ask::default() });
        let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
        let problem = Problem::new(&case.attention(&tensors), q, k, v).unwrap();
        let (dout, _) = ask.upstream(&problem, case.seed);
        let engine = engine(Target::Sm80);
        let attended = forward(&engine, &case, &tensors).unwrap();
        let bits = || {
            let all = backward(&engine, &case, &tensors, &attended, &ask, (&dout, None)).unwrap();
            all.tensors.map(|gradient| gradient.map(|gradient| gradient.bytes()))
        };
        let first = bits();
        assert!(first[0].is_some());
        for _ in 0..50 {
            assert!(bits() == first, "{dtype}");
        }
    }
}
