//! Short queries against long contexts, whose keys are split.

use jhalak_cases::case::Case;
use jhalak_cases::gradients::Ask;
use jhalak_problem::{DType, Problem};
use jhalak_ptx::Target;

use crate::run::{check, engine};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn one_query_sees_a_long_context_in_parts() {
    for target in [Target::Sm75, Target::Sm80] {
        for (queries, group, dim) in [(1, 4, 128), (1, 1, 64), (5, 8, 64), (16, 1, 256)] {
            for causal in [false, true] {
                let case = Case {
                    dtype: DType::F16,
                    causal,
                    group,
                    sinks: true,
                    ..Case::dense(2, queries, 9000, 1, dim)
                };
                let tensors = case.tensors();
                let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
                let problem = Problem::new(&case.attention(&tensors), q, k, v).unwrap();
                assert!(engine(target).forward_workspace_bytes(&problem).unwrap() > 0, "{case:?}");
                check(&case, &Ask::default(), target).unwrap();
            }
        }
    }
}
