//! What a tensor map says, as plain data. The host encodes it for the copy engine (CUDA driver API,
//! `cuTensorMapEncodeTiled`) and passes it as a kernel's parameter; the emulator reads it as it is.

use crate::swizzle::Swizzle;

/// The elements of a tensor in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorElement {
    /// One byte, of any kind: e4m3 too.
    U8,
    /// Half precision.
    F16,
    /// The upper half of a float.
    Bf16,
    /// Single precision.
    F32,
}

impl TensorElement {
    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            TensorElement::U8 => 1,
            TensorElement::F16 | TensorElement::Bf16 => 2,
            TensorElement::F32 => 4,
        }
    }
}

/// What a load writes for elements outside the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutOfBounds {
    /// 0.
    Zeros,
    /// NaN; for floats only.
    Nan,
}

/// A tensor in global memory, and the box of it that one copy moves. Lists begin with the innermost
/// dimension, whose elements are adjacent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapSpec {
    /// What the elements are.
    pub element: TensorElement,
    /// Elements of each dimension, 1 to 2³².
    pub dims: Vec<u64>,
    /// Bytes from one element to the next along each dimension but the innermost: multiples of 16
    /// below 2⁴⁰.
    pub strides: Vec<u64>,
    /// Elements that the box spans along each dimension, 1 to 256.
    pub tile: Vec<u32>,
    /// Every so many elements are taken along each dimension, 1 to 8; along the innermost all are.
    pub element_strides: Vec<u32>,
    /// How the box's rows lie in shared memory.
    pub swizzle: Swizzle,
    /// What is loaded outside the tensor.
    pub fill: OutOfBounds,
}

/// A tensor map that the copy engine would not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}; here: {found}")]
pub struct TensorMapError {
    /// What must hold.
    pub rule: &'static str,
    /// What was found instead.
    pub found: String,
}

/// A tensor begins at a multiple of so many bytes.
pub const TENSOR_ALIGN: u64 = 16;

impl TensorMapSpec {
    /// A tensor of which every element of a box is taken, with zeros outside.
    pub fn new(
        element: TensorElement,
        dims: &[u64],
        strides: &[u64],
        tile: &[u32],
        swizzle: Swizzle,
    ) -> Self {
        TensorMapSpec {
            element,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            tile: tile.to_vec(),
            element_strides: vec![1; dims.len()],
            swizzle,
            fill: OutOfBounds::Zeros,
        }
    }

    /// A matrix of `rows` rows of `columns` adjacent elements, without gaps.
    pub fn matrix(
        element: TensorElement,
        [rows, columns]: [u64; 2],
        [tile_rows, tile_columns]: [u32; 2],
        swizzle: Swizzle,
    ) -> Self {
        let pitch = columns * u64::from(element.bytes());
        Self::new(element, &[columns, rows], &[pitch], &[tile_columns, tile_rows], swizzle)
    }

    /// How many dimensions there are.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Elements that a box holds along each dimension.
    pub fn tile_elements(&self) -> impl Iterator<Item = u32> {
        self.tile.iter().zip(&self.element_strides).map(|(span, step)| span.div_ceil(*step))
    }

    /// Bytes of a box in shared memory: those that a barrier expects of a load.
    pub fn tile_bytes(&self) -> u32 {
        self.tile_elements().product::<u32>() * self.element.bytes()
    }

    /// Whether the copy engine takes it (CUDA driver API, `cuTensorMapEncodeTiled`).
    ///
    /// # Errors
    ///
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), TensorMapError> {
        let rank = self.rank();
        rule((1..=5).contains(&rank), "a tensor has 1 to 5 dimensions", &self.dims)?;
        let lengths = [self.strides.len() + 1, self.tile.len(), self.element_strides.len()];
        let rule_of_lengths =
            "tile and element strides are as many as dimensions, strides one fewer";
        rule(lengths == [rank; 3], rule_of_lengths, &(rank, lengths))?;
        each(&self.dims, |dim| (1..=1 << 32).contains(&dim), "dimensions are 1 to 2^32 elements")?;
        let known = |stride: u64| stride.is_multiple_of(16) && stride < 1 << 40;
        each(&self.strides, known, "strides are multiples of 16 bytes below 2^40")?;
        each(&self.tile, |span| (1..=256).contains(&span), "a box spans 1 to 256 elements")?;
        each(&self.element_strides, |step| (1..=8).contains(&step), "element strides are 1 to 8")?;
        let adjacent = self.element_strides[0] == 1;
        rule(
            adjacent,
            "along the innermost dimension all elements are taken",
            &self.element_strides,
        )?;
        let row = self.tile[0] * self.element.bytes();
        rule(row.is_multiple_of(16), "a box's row is a multiple of 16 bytes", &row)?;
        let fits = self.swizzle == Swizzle::None || row <= self.swizzle.row_bytes();
        rule(fits, "a box's row is no wider than the swizzle", &(row, self.swizzle))?;
        let fill = self.fill == OutOfBounds::Zeros || self.element != TensorElement::U8;
        rule(fill, "only floats are filled with NaN", &self.element)
    }
}

fn rule(
    holds: bool,
    rule: &'static str,
    found: &impl std::fmt::Debug,
) -> Result<(), TensorMapError> {
    if holds { Ok(()) } else { Err(TensorMapError { rule, found: format!("{found:?}") }) }
}

fn each<T: Copy + std::fmt::Debug>(
    values: &[T],
    holds: impl Fn(T) -> bool,
    text: &'static str,
) -> Result<(), TensorMapError> {
    rule(values.iter().all(|value| holds(*value)), text, &values)
}
