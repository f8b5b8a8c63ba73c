//! Threads with streams of their own, and calls again and again.

use jhalak_cases::case::Case;
use jhalak_cases::gradients::Ask;
use jhalak_problem::DType;
use jhalak_ptx::Target;

use crate::run::{check, engine, forward};

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
