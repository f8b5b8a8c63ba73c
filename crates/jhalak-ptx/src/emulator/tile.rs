//! Where the elements of a tensor's box are: in global memory and, swizzled, in shared memory.

use super::transfer::{CHUNK, Chunk};
use crate::tensor_map::TensorMapSpec;

/// The chunks of the box whose first element has these coordinates (innermost first), stored from
/// `tile` on. `base` is the tensor's address.
///
/// A row of the box (its innermost dimension) is contiguous in shared memory, a multiple of 16
/// bytes; rows follow each other. The swizzle exchanges bits of the whole address.
pub(super) fn tile_chunks(spec: &TensorMapSpec, base: u64, first: &[i64], tile: u64) -> Vec<Chunk> {
    let size = i64::from(spec.element.bytes());
    let counts: Vec<u32> = spec.tile_elements().collect();
    let row_bytes = i64::from(counts[0]) * size;
    let rows: u32 = counts[1..].iter().product();
    let mut chunks = Vec::new();
    for row in 0..rows {
        let mut rest = row;
        let mut inside = true;
        let mut begin = base.cast_signed();
        for dimension in 1..spec.rank() {
            let step = rest % counts[dimension];
            rest /= counts[dimension];
            let at = first[dimension] + i64::from(step * spec.element_strides[dimension]);
            inside &= at >= 0 && at.cast_unsigned() < spec.dims[dimension];
            begin += at * spec.strides[dimension - 1].cast_signed();
        }
        // The bytes of this row that lie inside the tensor, counted from the row's begin.
        let end = (spec.dims[0].cast_signed() - first[0]) * size;
        let (low, high) = if inside { (-first[0] * size, end) } else { (0, 0) };
        begin += first[0] * size;
        for offset in (0..row_bytes).step_by(CHUNK) {
            let clip = |at: i64| (at - offset).clamp(0, CHUNK as i64);
            let (from, to) = (clip(low), clip(high).max(clip(low)));
            let place = tile + u64::from(row) * row_bytes.cast_unsigned() + offset.cast_unsigned();
            chunks.push(Chunk {
                shared: spec.swizzle.offset(place as u32).into(),
                from: from as usize,
                to: to as usize,
                global: (begin + offset + from).cast_unsigned(),
            });
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swizzle::Swizzle;
    use crate::tensor_map::TensorElement;

    fn matrix(swizzle: Swizzle) -> TensorMapSpec {
        TensorMapSpec::matrix(TensorElement::Bf16, [5, 24], [4, 16], swizzle)
    }

    #[test]
    fn rows_follow_each_other() {
        let chunks = tile_chunks(&matrix(Swizzle::None), 4096, &[8, 1], 1024);
        assert_eq!(chunks.len(), 8);
        for (index, chunk) in chunks.iter().enumerate() {
            let (row, half) = (index as u64 / 2, index as u64 % 2);
            assert_eq!(chunk.shared, 1024 + 32 * row + 16 * half);
            assert_eq!(chunk.global, 4096 + 48 * (row + 1) + 16 + 16 * half);
            assert_eq!(chunk.bytes(), CHUNK);
        }
    }

    #[test]
    fn what_is_outside_has_no_bytes() {
        let chunks = tile_chunks(&matrix(Swizzle::None), 4096, &[20, 3], 1024);
        let bytes: Vec<usize> = chunks.iter().map(Chunk::bytes).collect();
        assert_eq!(bytes, [8, 0, 8, 0, 0, 0, 0, 0]);
        let chunks = tile_chunks(&matrix(Swizzle::None), 4096, &[-2, 0], 1024);
        assert_eq!((chunks[0].from, chunks[0].to, chunks[0].global), (4, 16, 4096));
    }

    #[test]
    fn a_swizzle_exchanges_chunks_of_the_absolute_address() {
        let chunks = tile_chunks(&matrix(Swizzle::Bytes32), 4096, &[0, 0], 1024 + 128);
        assert!(chunks.iter().all(|chunk| (1152..1280).contains(&chunk.shared)));
        assert_eq!(chunks[0].shared, 1152 + 16);
    }
}
