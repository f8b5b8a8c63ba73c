//! Merging partial results, in f64.

use super::Attended;

/// Merges results of the same rows over disjoint keys: `parts` hold `rows`·`width` outs and `rows`
/// lse, rows in the same order. A part whose lse is −∞ or +∞ saw no key; its out counts nothing.
///
/// # Panics
/// If a part has another length.
pub fn merge(parts: &[(&[f64], &[f64])], width: usize) -> Attended {
    let rows = parts.first().map_or(0, |part| part.1.len());
    for (out, lse) in parts {
        assert!(lse.len() == rows && out.len() == rows * width, "a part has another length");
    }
    let mut merged = Attended { out: vec![0.0; rows * width], lse: vec![f64::NEG_INFINITY; rows] };
    for i in 0..rows {
        let seen = parts.iter().filter(|(_, lse)| !lse[i].is_infinite());
        let max = seen.clone().fold(f64::NEG_INFINITY, |max, (_, lse)| max.max(lse[i]));
        let sum: f64 = seen.clone().map(|(_, lse)| (lse[i] - max).exp()).sum();
        if seen.clone().next().is_none() {
            continue;
        }
        merged.lse[i] = max + sum.ln();
        for (out, lse) in seen {
            let weight = (lse[i] - max).exp() / sum;
            for c in 0..width {
                merged.out[i * width + c] += weight * out[i * width + c];
            }
        }
    }
    merged
}
