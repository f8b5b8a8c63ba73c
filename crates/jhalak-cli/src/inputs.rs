//! Numbers that look like a model's: independent, normally distributed.

use std::f64::consts::TAU;

/// A stream of normal numbers, the same for the same seed (SplitMix64, then Box-Muller).
pub(crate) struct Normal(u64);

impl Normal {
    pub(crate) fn new(seed: u64) -> Self {
        Normal(seed)
    }

    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        // Never 0, whose logarithm is infinite.
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) * 2f64.powi(-53)
    }

    /// The next `n` numbers.
    pub(crate) fn take(&mut self, n: usize) -> Vec<f32> {
        let mut numbers = Vec::with_capacity(n + 1);
        while numbers.len() < n {
            let radius = (-2.0 * self.uniform().ln()).sqrt();
            let (sin, cos) = (TAU * self.uniform()).sin_cos();
            numbers.extend([(radius * cos) as f32, (radius * sin) as f32]);
        }
        numbers.truncate(n);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_mean_0_and_variance_1() {
        let x = Normal::new(1).take(100_001);
        assert_eq!(x.len(), 100_001);
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / x.len() as f64;
        let square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / x.len() as f64;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.03, "{mean} {square}");
    }
}
