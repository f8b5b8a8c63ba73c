//! NaN and infinities in the inputs reach those that see them, and nobody else.

use jhalak_cases::case::{Case, Tensors};
use jhalak_cases::gradients::Ask;
use jhalak_cases::strided::Strided;
use jhalak_cuda::plan::Limits;
use jhalak_problem::DType;
use jhalak_ptx::Target;

use crate::run::judged;

const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// The tensor with a bad number in a column of these rows.
fn spoil(tensor: Strided, rows: &[usize], column: usize) -> Strided {
    tensor.replaced(|index, value| {
        let (row, last) = (index[index.len() - 3], index[index.len() - 1]);
        match rows.iter().position(|&spoiled| spoiled == row) {
            Some(n) if last == column => BAD[n % BAD.len()],
            _ => value,
        }
    })
}

/// Every row's last number is bad.
fn spoil_unused(tensor: Strided, used: usize) -> Strided {
    tensor.replaced(|index, value| {
        let row = index[index.len() - 3];
        if row >= used { BAD[row % BAD.len()] } else { value }
    })
}

/// The kinds of kernels: by tensor cores and not, with columns that warps share and not.
fn kinds() -> impl Iterator<Item = (Case, Limits)> {
    let kinds = [
        (DType::BF16, Target::Sm80, 64),
        (DType::F16, Target::Sm80, 200),
        (DType::F16, Target::Sm75, 40),
        (DType::F32, Target::Sm80, 24),
        (DType::F32, Target::Sm80, 136),
    ];
    kinds.into_iter().map(|(dtype, target, dim)| {
        (Case { dtype, ..Case::dense(1, 90, 90, 1, dim) }, Limits::of(target))
    })
}

fn check(case: &Case, tensors: &Tensors, limits: Limits) {
    for add in [false, true] {
        let ask = Ask { add, ..Ask::default() };
        judged(case, tensors, &ask, |dout| dout, limits).unwrap();
    }
}

#[test]
fn a_bad_row_of_dout_reaches_the_keys_that_it_sees() {
    for (case, limits) in kinds() {
        let case = Case { window: Some((5, 2)), ..case };
        let spoiled = |dout| spoil(dout, &[3, 40, 77], 1);
        judged(&case, &case.tensors(), &Ask::default(), spoiled, limits).unwrap();
    }
}

#[test]
fn a_bad_query_reaches_the_keys_that_it_sees() {
    for (case, limits) in kinds() {
        let case = Case { window: Some((5, 2)), ..case };
        let tensors = case.tensors();
        let tensors = Tensors { q: spoil(tensors.q, &[3, 40, 77], 0), ..tensors };
        check(&case, &tensors, limits);
    }
}

#[test]
fn a_bad_key_or_value_reaches_the_queries_that_see_it() {
    for (case, limits) in kinds() {
        let case = Case { causal: true, window: Some((4, 0)), group: 2, ..case };
        let tensors = case.tensors();
        let tensors = Tensors { k: spoil(tensors.k, &[11, 60, 75], 2), ..tensors };
        check(&case, &tensors, limits);
        let tensors = case.tensors();
        let tensors = Tensors { v: spoil(tensors.v, &[11, 60, 75], 2), ..tensors };
        check(&case, &tensors, limits);
    }
}

#[test]
fn what_a_mask_hides_has_no_influence() {
    for (case, limits) in kinds() {
        let case = Case { mask: Some([true; 4]), ..case };
        let tensors = case.tensors();
        let hidden = [7, 50, 51];
        let mask = tensors.mask.map(|mask| {
            mask.replaced(|index, value| if hidden.contains(&index[3]) { 0.0 } else { value })
        });
        let (k, v) = (spoil(tensors.k, &hidden, 3), spoil(tensors.v, &hidden, 3));
        check(&case, &Tensors { k, v, mask, ..tensors }, limits);
    }
}

#[test]
fn rows_that_are_not_used_have_no_influence() {
    for (case, limits) in kinds() {
        let case = Case { unused: Some((20, 10)), causal: true, ..case };
        let tensors = case.tensors();
        let (q, k) = (spoil_unused(tensors.q, 70), spoil_unused(tensors.k, 80));
        let tensors = Tensors { q, k, v: spoil_unused(tensors.v, 80), ..tensors };
        let spoiled = |dout| spoil_unused(dout, 70);
        judged(&case, &tensors, &Ask::default(), spoiled, limits).unwrap();
    }
}

#[test]
fn a_query_that_sees_no_key_contributes_nothing() {
    for (case, limits) in kinds() {
        // 30 queries come before the first key.
        let case = Case { lengths: vec![(90, 60)], causal: true, ..case };
        let tensors = case.tensors();
        let tensors = Tensors { q: spoil(tensors.q, &[4, 5, 6], 0), ..tensors };
        let spoiled = |dout| spoil(dout, &[0, 10, 29], 1);
        judged(&case, &tensors, &Ask::default(), spoiled, limits).unwrap();
    }
}

/// A mask, the window and the end of the used rows hide bad keys, values and queries.
#[test]
fn what_is_hidden_does_not_reach_the_gradient_of_a_bias() {
    for (case, limits) in kinds() {
        for bias in [[true; 4], [false, true, false, true]] {
            let case =
                Case { bias: Some((bias, true)), mask: Some([true; 4]), group: 2, ..case.clone() };
            let case = Case { unused: Some((20, 10)), causal: true, ..case };
            let tensors = case.tensors();
            let hidden = [7, 50, 51];
            let mask = tensors.mask.map(|mask| {
                mask.replaced(|index, value| if hidden.contains(&index[3]) { 0.0 } else { value })
            });
            let [k, v] = [(tensors.k, 3), (tensors.v, 5)]
                .map(|(tensor, column)| spoil_unused(spoil(tensor, &hidden, column), 80));
            let tensors = Tensors { q: spoil_unused(tensors.q, 70), k, v, mask, ..tensors };
            let spoiled = |dout| spoil_unused(dout, 70);
            let ask = Ask { wanted: [false, false, false, true, false], ..Ask::default() };
            for ask in [ask, Ask::default()] {
                judged(&case, &tensors, &ask, spoiled, limits).unwrap();
            }
        }
    }
}

/// Bad keys that some queries see are added to the gradient of a bias once, and to theirs alone.
#[test]
fn a_bad_key_or_value_reaches_the_gradients_of_its_biases() {
    for (case, limits) in kinds() {
        let case =
            Case { bias: Some(([true; 4], false)), causal: true, window: Some((4, 0)), ..case };
        let tensors = case.tensors();
        let tensors = Tensors { v: spoil(tensors.v, &[11, 60, 75], 2), ..tensors };
        check(&case, &tensors, limits);
        let tensors = case.tensors();
        let tensors = Tensors { k: spoil(tensors.k, &[11, 60, 75], 2), ..tensors };
        check(&case, &tensors, limits);
    }
}
