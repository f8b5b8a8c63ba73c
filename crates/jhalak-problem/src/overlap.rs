//! Whether two views, or two elements of one view, share memory.
//!
//! Slices of one buffer often interleave without sharing an element (dq, dk and dv inside one
//! dqkv), so comparing address ranges is not enough. Two elements share memory when their
//! offsets differ by less than an element:
//!
//! ```text
//! −size_b < base_a − base_b + Σ i_d·stride_a_d − Σ j_d·stride_b_d < size_a     (bytes)
//! ```
//!
//! Terms are tried from the largest stride down; what is left to the smaller ones bounds each
//! choice to very few values for any layout that people use. A search that does not end within
//! its limit counts as an overlap.

use crate::tensor::{Layout, TensorView};

/// One term of the sum: `stride` bytes times 0..=`last`. Strides are positive.
#[derive(Clone, Copy)]
struct Term {
    stride: i128,
    last: i128,
}

/// Steps of the search before it gives up.
const STEP_LIMIT: usize = 100_000;

/// Whether any element of `a` shares memory with any element of `b`.
pub(crate) fn views_overlap(a: &TensorView<'_>, b: &TensorView<'_>) -> bool {
    let (Some(extent_a), Some(extent_b)) = (a.layout().extent(), b.layout().extent()) else {
        return false;
    };
    if a.device() != b.device() {
        return false;
    }
    let (size_a, size_b) = (a.dtype().size() as i128, b.dtype().size() as i128);
    let lowest = |view: &TensorView<'_>, extent: (i128, i128), size: i128| {
        view.as_ptr() as usize as i128 + extent.0 * size
    };
    // Measured from its lowest element, a view has positive strides only.
    let (low_a, low_b) = (lowest(a, extent_a, size_a), lowest(b, extent_b, size_b));
    let end = |low: i128, extent: (i128, i128), size: i128| {
        let elements = extent.1.saturating_sub(extent.0).saturating_add(1);
        low.saturating_add(elements.saturating_mul(size))
    };
    if end(low_a, extent_a, size_a) <= low_b || end(low_b, extent_b, size_b) <= low_a {
        return false;
    }
    let mut terms = Vec::new();
    let mut difference = low_a - low_b;
    for term in byte_terms(a.layout(), size_a) {
        terms.push(term);
    }
    for term in byte_terms(b.layout(), size_b) {
        // −j·stride for j in 0..=last is i·stride − last·stride for i in 0..=last.
        difference -= term.stride * term.last;
        terms.push(term);
    }
    let terms = merge_and_sort(terms);
    // difference + sum must lie in (−size_a, size_b): a starts before b's element ends, and ends
    // after it starts.
    reaches(&terms, -size_a + 1 - difference, size_b - 1 - difference, &mut 0)
}

/// Whether two different elements of a view share memory.
///
/// Sorted by stride, each dimension must step over everything that the smaller ones reach. This
/// holds for every permuted, sliced or padded dense buffer.
pub(crate) fn overlaps_itself(layout: &Layout) -> bool {
    if layout.extent().is_none() {
        return false;
    }
    let mut reach = 0i128;
    for term in merge_and_sort_keeping_zero(layout) {
        if term.stride <= reach {
            return true;
        }
        reach += term.stride * term.last;
    }
    false
}

fn byte_terms(layout: &Layout, size: i128) -> impl Iterator<Item = Term> {
    let (shape, strides) = layout.shape_and_strides();
    let terms: Vec<Term> = shape
        .iter()
        .zip(strides)
        .filter(|&(&n, &stride)| n > 1 && stride != 0)
        .map(|(&n, &stride)| Term { stride: (stride as i128).abs() * size, last: n as i128 - 1 })
        .collect();
    terms.into_iter()
}

/// Largest stride first; terms of one stride become one.
fn merge_and_sort(mut terms: Vec<Term>) -> Vec<Term> {
    terms.sort_by_key(|term| std::cmp::Reverse(term.stride));
    let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
    for term in terms {
        match merged.last_mut() {
            Some(previous) if previous.stride == term.stride => previous.last += term.last,
            _ => merged.push(term),
        }
    }
    merged
}

/// A layout's own dimensions of size above 1, smallest stride first, stride 0 included.
fn merge_and_sort_keeping_zero(layout: &Layout) -> Vec<Term> {
    let (shape, strides) = layout.shape_and_strides();
    let mut terms: Vec<Term> = shape
        .iter()
        .zip(strides)
        .filter(|&(&n, _)| n > 1)
        .map(|(&n, &stride)| Term { stride: (stride as i128).abs(), last: n as i128 - 1 })
        .collect();
    terms.sort_by_key(|term| term.stride);
    terms
}

/// Whether some choice of the terms sums to a number in `low..=high`.
fn reaches(terms: &[Term], low: i128, high: i128, steps: &mut usize) -> bool {
    let Some((term, rest)) = terms.split_first() else {
        return low <= 0 && 0 <= high;
    };
    let rest_reach: i128 = rest.iter().map(|t| t.stride * t.last).sum();
    // n·stride + (0..=rest_reach) must meet low..=high.
    let first = (low - rest_reach).div_euclid(term.stride)
        + i128::from((low - rest_reach).rem_euclid(term.stride) != 0);
    let last = high.div_euclid(term.stride);
    let (first, last) = (first.max(0), last.min(term.last));
    let mut n = first;
    while n <= last {
        *steps += 1;
        if *steps > STEP_LIMIT {
            return true;
        }
        let taken = n * term.stride;
        if reaches(rest, low - taken, high - taken, steps) {
            return true;
        }
        n += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<'a>(
        data: &'a [f32],
        offset: usize,
        shape: &[usize],
        strides: &[isize],
    ) -> TensorView<'a> {
        TensorView::strided(data, offset, shape, strides).unwrap()
    }

    #[test]
    fn slices_of_a_packed_qkv_buffer_do_not_overlap() {
        let data = vec![0f32; 2 * 5 * 3 * 4 * 8];
        // [B, S, 3, H, D]
        let part = |n: usize| view(&data, n * 32, &[2, 5, 4, 8], &[480, 96, 8, 1]);
        assert!(!views_overlap(&part(0), &part(1)));
        assert!(!views_overlap(&part(2), &part(1)));
        assert!(views_overlap(&part(1), &part(1)));
        let shifted = view(&data, 33, &[2, 4, 4, 8], &[480, 96, 8, 1]);
        assert!(views_overlap(&part(1), &shifted));
    }

    #[test]
    fn a_stride_of_zero_overlaps_itself() {
        let data = vec![0f32; 64];
        assert!(overlaps_itself(view(&data, 0, &[2, 8], &[0, 1]).layout()));
        assert!(overlaps_itself(view(&data, 0, &[4, 8], &[4, 1]).layout()));
        assert!(!overlaps_itself(view(&data, 0, &[1, 8], &[0, 1]).layout()));
        assert!(!overlaps_itself(view(&data, 63, &[8, 8], &[-1, -8]).layout()));
    }

    /// The search agrees with listing every address, over small layouts of every kind.
    #[test]
    fn the_search_agrees_with_listing_all_addresses() {
        let data = vec![0f32; 200];
        let strides = [-7isize, -3, -1, 0, 1, 2, 5, 8];
        let mut found = [0usize; 2];
        for (n, &s0) in strides.iter().enumerate() {
            for &s1 in &strides {
                for &t0 in &strides {
                    for offset in [60usize, 61, 67, 90] {
                        let a = view(&data, 60, &[3, 4], &[s0, s1]);
                        let b = view(&data, offset, &[2, 3], &[t0, strides[(n + 3) % 8]]);
                        let listed = addresses(&a).iter().any(|x| addresses(&b).contains(x));
                        assert_eq!(views_overlap(&a, &b), listed, "{a:?} {b:?} {offset}");
                        found[usize::from(listed)] += 1;
                    }
                }
            }
        }
        assert!(found.iter().all(|&n| n > 100));
    }

    fn addresses(view: &TensorView<'_>) -> Vec<usize> {
        let mut all = Vec::new();
        crate::tensor::for_each_index(view.shape(), |index| {
            all.push(view.element_ptr(index) as usize);
        });
        all
    }
}
