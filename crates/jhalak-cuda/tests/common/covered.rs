//! Cases that the kernels for Hopper cover.

use jhalak_cases::case::{Case, any_case};
use jhalak_cases::strided::Layout;
use jhalak_problem::DType;
use proptest::strategy::Strategy;

/// Cases of up to about so many positions: without bias, mask and dropout, with contiguous rows, and
/// with enough queries.
pub fn covered(longest: usize) -> impl Strategy<Value = Case> {
    any_case(&[DType::F16, DType::BF16], longest).prop_map(|case| {
        let dims = [case.head_dim, case.head_dim_v].map(|d| d.next_multiple_of(8));
        let [head_dim, head_dim_v] = dims;
        let layouts = std::array::from_fn(|_| Layout::default());
        let (bias, mask, dropout) = (None, None, None);
        let mut lengths = case.lengths;
        let least = if case.packed { 1 } else { lengths.len() };
        for (queries, keys) in &mut lengths[..least] {
            (*queries, *keys) = (64 + *queries, 1 + *keys);
        }
        Case { head_dim, head_dim_v, layouts, bias, mask, dropout, lengths, ..case }
    })
}
