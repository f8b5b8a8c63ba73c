//! Any call against the f64 reference: shapes, strides, dtypes and options drawn together, forward
//! and backward, on every instruction set of the machine.

mod common;

use common::case::{Case, any_case};
use common::run::{Ask, check};
use common::strided::Layout;
use jhalak_cpu::IsaKind;
use jhalak_problem::DType;
use proptest::prelude::*;

fn any_ask() -> impl Strategy<Value = Ask> {
    let wanted = prop_oneof![2 => Just([true; 5]), 1 => any::<[bool; 5]>()];
    let layout = || {
        (0..4usize, 0..16u8, 0..2usize, 0..4usize).prop_map(|(rotate, reversed, gap, lead)| {
            Layout { rotate, reversed, broadcast: 0, gap, lead }
        })
    };
    let layouts = [layout(), layout(), layout(), layout()];
    (wanted, any::<bool>(), any::<bool>(), any::<bool>(), layouts).prop_map(
        |(wanted, add, give_delta, dlse, layouts)| Ask { wanted, add, give_delta, dlse, layouts },
    )
}

fn on_every_isa(case: &Case, ask: &Ask, threads: usize) -> Result<(), TestCaseError> {
    for isa in IsaKind::available() {
        check(case, ask, isa, threads).map_err(|message| {
            TestCaseError::fail(format!("{isa}, {threads} threads: {message}"))
        })?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn short_calls_equal_the_reference(
        case in any_case(&[DType::F32, DType::F16, DType::BF16, DType::F64], 40),
        ask in any_ask(),
        threads in 1..3usize,
    ) {
        on_every_isa(&case, &ask, threads)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Long enough for several tiles, parts and phases.
    #[test]
    fn long_calls_equal_the_reference(
        case in any_case(&[DType::F32, DType::F16, DType::BF16], 400),
        ask in any_ask(),
        threads in 1..4usize,
    ) {
        let case = Case { lengths: case.lengths[..1].to_vec(), heads_k: 1, ..case };
        on_every_isa(&case, &ask, threads)?;
    }
}
