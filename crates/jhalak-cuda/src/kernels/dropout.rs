//! Which weights are dropped: the device's side of [`jhalak_problem::Dropout`].

use jhalak_ptx::Comparison::Ge;
use jhalak_ptx::{B32, KernelBuilder, Pred};

use super::parameters::{Inputs, Parameter};
use super::row::Row;

/// Keys that one call of the generator, in each of 4 lanes, serves.
pub(crate) const BLOCK: u32 = 32;

const ROUNDS: u32 = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The generator's state that all rows of a block share.
#[derive(Clone, Copy)]
pub(crate) struct Dropout {
    key: [B32; 2],
    offset: B32,
    threshold: B32,
    /// The number of the 32 positions that the first tile begins with.
    first_block: B32,
    /// Query 0's position, for a sequence.
    query: B32,
    /// b·Hq
    first_head: B32,
}

/// Eight numbers of 16 bits, of one row.
#[derive(Clone, Copy)]
pub(crate) struct Numbers([B32; 4]);

impl Numbers {
    /// Those of the first 16 of 32 keys, or of the second.
    pub(crate) fn half(self, k: &mut KernelBuilder, second: Pred) -> Self {
        let Numbers([a, b, c, d]) = self;
        let (low, high) = (k.selp_b32(c, a, second), k.selp_b32(d, b, second));
        Numbers([low, high, low, high])
    }
}

impl Dropout {
    /// For sequence `batch`, whose queries are moved by `alignment`.
    pub(crate) fn new(k: &mut KernelBuilder, inputs: &Inputs, batch: B32, alignment: B32) -> Self {
        let query = inputs.u32(k, Parameter::DropoutQuery);
        let heads = inputs.u32(k, Parameter::HeadsQ);
        Dropout {
            key: [Parameter::SeedLow, Parameter::SeedHigh].map(|half| inputs.u32(k, half)),
            offset: inputs.u32(k, Parameter::Offset),
            threshold: inputs.u32(k, Parameter::Threshold),
            first_block: inputs.u32(k, Parameter::DropoutBlock),
            query: k.add_u32(query, alignment),
            first_head: k.mul_lo_u32(batch, heads),
        }
    }

    /// The numbers of a row for keys 8·n + 2·pair and the next, n = 0..4, of 32 keys. Blocks of 32
    /// are counted from the first tile.
    pub(crate) fn numbers(
        &self,
        k: &mut KernelBuilder,
        row: &Row,
        block: B32,
        pair: B32,
    ) -> Numbers {
        let block = k.add_u32(block, self.first_block);
        let mut counter = [
            k.mad_lo_u32(block, 4, pair),
            k.add_u32(row.i, self.query),
            k.add_u32(row.head, self.first_head),
            self.offset,
        ];
        let mut key = self.key;
        for round in 0..ROUNDS {
            if round > 0 {
                key = [k.add_u32(key[0], KEY_STEPS[0]), k.add_u32(key[1], KEY_STEPS[1])];
            }
            let high0 = k.mul_hi_u32(counter[0], MULTIPLIERS[0]);
            let low0 = k.mul_lo_u32(counter[0], MULTIPLIERS[0]);
            let high1 = k.mul_hi_u32(counter[2], MULTIPLIERS[1]);
            let low1 = k.mul_lo_u32(counter[2], MULTIPLIERS[1]);
            counter = [
                k.lop3_b32(high1, counter[1], key[0], XOR),
                low1,
                k.lop3_b32(high0, counter[3], key[1], XOR),
                low0,
            ];
        }
        Numbers(counter)
    }

    /// Whether key 8·n + 2·pair + odd is kept.
    pub(crate) fn keeps(
        &self,
        k: &mut KernelBuilder,
        numbers: Numbers,
        n: usize,
        odd: bool,
    ) -> Pred {
        let word = numbers.0[n];
        let number = if odd { k.shr_u32(word, 16) } else { k.and_b32(word, 0xFFFF) };
        k.setp_u32(Ge, number, self.threshold)
    }

    /// Whether a key is kept of a thread that holds one of every 8: key 8·n + 2·pair + odd, with n
    /// 2 more where `upper` holds, and `odd_bits` 16 for an odd key.
    pub(crate) fn keeps_lane(
        &self,
        k: &mut KernelBuilder,
        numbers: Numbers,
        n: usize,
        upper: Pred,
        odd_bits: B32,
    ) -> Pred {
        let word = k.selp_b32(numbers.0[n + 2], numbers.0[n], upper);
        let number = k.shr_u32(word, odd_bits);
        let number = k.and_b32(number, 0xFFFF);
        k.setp_u32(Ge, number, self.threshold)
    }

    /// Whether one key is kept, counted from the begin of the first tile.
    pub(crate) fn keeps_key(&self, k: &mut KernelBuilder, row: &Row, key: B32) -> Pred {
        let (block, pair) = (k.shr_u32(key, 5), k.bfe_u32(key, 1, 2));
        let Numbers(words) = self.numbers(k, row, block, pair);
        let n = k.bfe_u32(key, 3, 2);
        let mut word = words[0];
        for (other, value) in (1..).zip(&words[1..]) {
            let same = k.setp_u32(jhalak_ptx::Comparison::Eq, n, other);
            word = k.selp_b32(*value, word, same);
        }
        let odd = k.and_b32(key, 1);
        let shift = k.shl_b32(odd, 4);
        let number = k.shr_u32(word, shift);
        let number = k.and_b32(number, 0xFFFF);
        k.setp_u32(Ge, number, self.threshold)
    }
}

/// The table of a ⊕ b ⊕ c.
const XOR: u8 = 0x96;
