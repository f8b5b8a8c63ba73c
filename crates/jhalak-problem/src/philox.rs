//! Dropout masks from Philox4x32-10 (Salmon et al., 2011, "Parallel Random Numbers: As Easy as
//! 1, 2, 3").
//!
//! A weight's fate depends on (seed, offset, sequence, head, query position, key position) alone,
//! never on tiles, threads, devices or passes. One call of the generator gives eight 16-bit
//! numbers and serves eight of 32 neighbouring keys, in the pattern in which a lane of a GPU's
//! matrix fragment holds them:
//!
//! ```text
//! counter = (4·(j >> 5) + ((j & 7) >> 1), query position, b·Hq + h, offset)
//! number  =  2·((j >> 3) & 3) + (j & 1)            of the eight, low halves first
//! ```

/// Four words of random bits for a counter and a key.
pub fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
        }
        let wide = |m: u32, c: u32| {
            let product = u64::from(m) * u64::from(c);
            ((product >> 32) as u32, product as u32)
        };
        let (high0, low0) = wide(MULTIPLIERS[0], counter[0]);
        let (high1, low1) = wide(MULTIPLIERS[1], counter[2]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
    }
    counter
}

/// Dropout's probability and random state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    p: f64,
    seed: u64,
    offset: u32,
}

impl Dropout {
    /// Drops with probability `p`, which `Problem::new` checks to be in [0, 1].
    pub(crate) fn new(p: f64, seed: u64, offset: u32) -> Self {
        Dropout { p, seed, offset }
    }

    pub(crate) fn probability(&self) -> f64 {
        self.p
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The offset.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Of 65,536 equally likely numbers, those below this are dropped: p·65536, rounded half up.
    pub fn threshold(&self) -> u32 {
        (self.p * 65536.0 + 0.5).floor() as u32
    }

    /// What a kept weight is multiplied by: 1 / (1 − threshold / 65536); 0 if none is kept.
    pub fn keep_factor(&self) -> f64 {
        match self.threshold() {
            65536 => 0.0,
            t => 1.0 / (1.0 - f64::from(t) / 65536.0),
        }
    }

    /// Whether the weight of this query and key is kept. `sequence_head` is b·Hq + h; positions
    /// are those of visibility, and wrap to 32 bits.
    pub fn keeps(&self, sequence_head: u32, query: i64, key: i64) -> bool {
        let words = self.words(sequence_head, query, key);
        number(&words, key) >= self.threshold()
    }

    /// Writes whether the weights of keys `first_key..` of one query are kept.
    pub fn fill_kept(&self, sequence_head: u32, query: i64, first_key: i64, kept: &mut [bool]) {
        let threshold = self.threshold();
        let mut block = i64::MIN;
        let mut words = [[0u32; 4]; 4];
        for (n, kept) in kept.iter_mut().enumerate() {
            let key = first_key + n as i64;
            if key >> 5 != block {
                block = key >> 5;
                for (pair, w) in words.iter_mut().enumerate() {
                    *w = self.words(sequence_head, query, (block << 5) + 2 * pair as i64);
                }
            }
            *kept = number(&words[((key & 7) >> 1) as usize], key) >= threshold;
        }
    }

    fn words(&self, sequence_head: u32, query: i64, key: i64) -> [u32; 4] {
        let column = 4 * (key >> 5) + ((key & 7) >> 1);
        let counter = [column as u32, query as u32, sequence_head, self.offset];
        philox4x32_10(counter, [self.seed as u32, (self.seed >> 32) as u32])
    }
}

/// The 16-bit number that decides over `key`, from the call that serves it.
fn number(words: &[u32; 4], key: i64) -> u32 {
    let word = words[((key >> 3) & 3) as usize];
    if key & 1 == 0 { word & 0xFFFF } else { word >> 16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers that the authors publish with Random123 (kat_vectors).
    #[test]
    fn philox_gives_the_published_answers() {
        assert_eq!(
            philox4x32_10([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32_10([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32_10(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn a_row_is_the_same_wherever_it_is_cut() {
        let dropout = Dropout::new(0.3, 0x1234_5678_9abc_def0, 7);
        for first in [-70i64, -1, 0, 5, 31, 1000] {
            let mut row = vec![false; 97];
            dropout.fill_kept(3, -5, first, &mut row);
            for (n, &kept) in row.iter().enumerate() {
                assert_eq!(kept, dropout.keeps(3, -5, first + n as i64));
            }
        }
    }

    #[test]
    fn the_share_of_dropped_weights_is_p() {
        for p in [0.1, 0.5, 0.9] {
            let dropout = Dropout::new(p, 42, 0);
            let n = 200_000;
            let dropped = (0..n).filter(|&j| !dropout.keeps(0, j / 1000, j % 1000)).count();
            let sigma = (p * (1.0 - p) / n as f64).sqrt();
            assert!((dropped as f64 / n as f64 - p).abs() < 5.0 * sigma);
        }
    }

    #[test]
    fn the_threshold_rounds_half_up_and_reaches_both_ends() {
        let threshold = |p| Dropout::new(p, 0, 0).threshold();
        assert_eq!(threshold(0.0), 0);
        assert_eq!(threshold(1.0), 65536);
        assert_eq!(threshold(0.5 / 65536.0), 1);
        assert_eq!(threshold(0.49 / 65536.0), 0);
        assert_eq!(Dropout::new(1.0, 0, 0).keep_factor(), 0.0);
    }
}
