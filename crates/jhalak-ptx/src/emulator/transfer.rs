//! The copy engine: copies between global and shared memory that one thread asked for. They end in
//! any order, as late as somebody waits, or at an earlier moment that the seed picks.

use half::{bf16, f16};

use super::arena::Arena;
use super::block::Shared;
use super::fault::Fault;
use crate::instruction::types::Type;

/// The grain of copies in shared memory, in bytes: what a swizzle moves as one.
pub(super) const CHUNK: usize = 16;

/// 16 bytes of shared memory; of these, `from..to` are in global memory too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) shared: u64,
    pub(super) from: usize,
    pub(super) to: usize,
    /// Where byte `from` is.
    pub(super) global: u64,
}

impl Chunk {
    pub(super) fn bytes(&self) -> usize {
        self.to - self.from
    }
}

/// What a copy does at its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Writes shared memory, what is outside as `fill`, and tells the mbarrier.
    Load { barrier: u64, fill: [u8; CHUNK] },
    /// Writes global memory.
    Store,
    /// Adds to global memory.
    Add(Type),
}

/// A copy under way.
pub(super) struct Transfer {
    pub(super) kind: Kind,
    pub(super) chunks: Vec<Chunk>,
    pub(super) warp: usize,
    pub(super) lane: u32,
    /// The lane's bulk group, for copies from shared memory.
    pub(super) group: u32,
    /// The instruction.
    pub(super) at: usize,
    /// What was read of shared memory, once it was.
    pub(super) read: Option<Vec<[u8; CHUNK]>>,
}

impl Transfer {
    pub(super) fn is_load(&self) -> bool {
        matches!(self.kind, Kind::Load { .. })
    }

    /// Reads shared memory, which then is free.
    pub(super) fn read(&mut self, shared: &Arena) -> Result<(), Fault> {
        if self.read.is_none() {
            let chunks = self.chunks.iter().map(|chunk| {
                let mut value = [0; CHUNK];
                if chunk.bytes() == 0 {
                    return Ok(value);
                }
                let begin = chunk.shared + chunk.from as u64;
                value[..chunk.bytes()].copy_from_slice(shared.bytes(begin, chunk.bytes())?);
                Ok(value)
            });
            self.read = Some(chunks.collect::<Result<_, Fault>>()?);
        }
        Ok(())
    }

    /// Does all that is left to do.
    pub(super) fn finish(mut self, memory: &mut Arena, shared: &mut Shared) -> Result<(), Fault> {
        if let Kind::Load { barrier, fill } = self.kind {
            for chunk in &self.chunks {
                let mut value = fill;
                if chunk.bytes() > 0 {
                    value[chunk.from..chunk.to]
                        .copy_from_slice(memory.bytes(chunk.global, chunk.bytes())?);
                }
                shared.memory.finish_write(chunk.shared, &value)?;
            }
            return shared.mbarrier(barrier)?.end(CHUNK * self.chunks.len());
        }
        self.read(&shared.memory)?;
        for (chunk, value) in self.chunks.iter().zip(self.read.iter().flatten()) {
            let value = &value[..chunk.bytes()];
            if value.is_empty() {
                continue;
            }
            match self.kind {
                Kind::Add(ty) => {
                    let old = memory.bytes(chunk.global, chunk.bytes())?;
                    let sum = sums(ty, old, value);
                    memory.finish_write(chunk.global, &sum)?;
                }
                _ => memory.finish_write(chunk.global, value)?,
            }
        }
        Ok(())
    }
}

/// Sums of adjacent numbers, each rounded to nearest.
fn sums(ty: Type, old: &[u8], new: &[u8]) -> Vec<u8> {
    let pairs = |size| old.chunks_exact(size).zip(new.chunks_exact(size));
    let half = |x: &[u8]| u16::from_le_bytes([x[0], x[1]]);
    let float = |x: &[u8]| f32::from_le_bytes([x[0], x[1], x[2], x[3]]);
    match ty {
        Type::F16 => pairs(2)
            .flat_map(|(a, b)| {
                let [a, b] = [a, b].map(|x| f16::from_bits(half(x)).to_f32());
                f16::from_f32(a + b).to_le_bytes()
            })
            .collect(),
        Type::Bf16 => pairs(2)
            .flat_map(|(a, b)| {
                let [a, b] = [a, b].map(|x| bf16::from_bits(half(x)).to_f64());
                bf16::from_f64(a + b).to_le_bytes()
            })
            .collect(),
        _ => pairs(4).flat_map(|(a, b)| (float(a) + float(b)).to_le_bytes()).collect(),
    }
}
