//! Tensor maps: what Hopper's copy engine (TMA) must know of a tensor.
//!
//! The driver answers a wrong one with `CUDA_ERROR_INVALID_VALUE` and no more, so the rules are
//! checked here first, and named. Sources: CUDA driver API, `cuTensorMapEncodeTiled`; PTX ISA,
//! tensors and their access modes.

use std::ffi::c_void;

use super::{Context, Error, Result};

/// An encoded map, `CUtensorMap`: 128 bytes that a kernel gets by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct TensorMap([u8; 128]);

impl TensorMap {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The type of a tensor's elements, as the copy engine sees them: it only counts bytes, and fills
/// what lies outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorMapType {
    /// One byte; also for fp8.
    U8,
    /// IEEE half.
    F16,
    /// IEEE single.
    F32,
    /// bfloat16.
    Bf16,
}

impl TensorMapType {
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            TensorMapType::U8 => 1,
            TensorMapType::F16 | TensorMapType::Bf16 => 2,
            TensorMapType::F32 => 4,
        }
    }

    /// `CUtensorMapDataType`.
    fn code(self) -> u32 {
        match self {
            TensorMapType::U8 => 0,
            TensorMapType::F16 => 6,
            TensorMapType::F32 => 7,
            TensorMapType::Bf16 => 9,
        }
    }
}

/// How 16-byte pieces change places within a row of shared memory, so that columns are read without
/// bank conflicts. The value is `CUtensorMapSwizzle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// As in memory.
    None = 0,
    /// Within 32 bytes.
    Bytes32 = 1,
    /// Within 64 bytes.
    Bytes64 = 2,
    /// Within 128 bytes.
    Bytes128 = 3,
}

impl Swizzle {
    /// The widest row of a box, in bytes.
    pub fn width(self) -> Option<u64> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }
}

/// A tensor in device memory, and the box of it that one copy moves. Dimensions are ordered from the
/// innermost, whose elements are neighbours in memory.
///
/// Elements outside the tensor are read as zero and not written.
#[derive(Clone, Copy, Debug)]
pub struct TiledTensor<'a> {
    /// The element type.
    pub dtype: TensorMapType,
    /// Where the tensor begins, a multiple of 16.
    pub address: u64,
    /// Elements in each dimension: 1 to 5 dimensions, each 1 to 2³².
    pub dims: &'a [u64],
    /// Bytes from one element to the next, for each dimension but the innermost: multiples of 16
    /// below 2⁴⁰.
    pub strides: &'a [u64],
    /// Elements of the box in each dimension: 1 to 256. The innermost must make a multiple of 16
    /// bytes, and at most the swizzle's width. A kernel's innermost coordinate must do so too: an
    /// H200 ends others with an illegal instruction.
    pub tile: &'a [u32],
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
    /// Fill what lies outside with NaN instead of zero; for floating point only.
    pub fill_nan: bool,
}

const LARGEST_DIM: u64 = 1 << 32;
const LARGEST_STRIDE: u64 = (1 << 40) - 16;
const LARGEST_TILE: u32 = 256;
/// Bytes that everything the copy engine touches must be a multiple of.
const UNIT: u64 = 16;
/// `CU_TENSOR_MAP_L2_PROMOTION_L2_256B`: a box's rows are fetched into L2 in long pieces.
const PROMOTION: u32 = 3;

impl TiledTensor<'_> {
    /// Checks the hardware's rules and encodes the map, for the device of the context.
    ///
    /// # Errors
    /// [`Error::TensorMap`] for a broken rule; [`Error::MissingFunction`], before CUDA 12.0.
    pub fn encode(&self, context: &Context) -> Result<TensorMap> {
        self.check()?;
        // The driver refuses where no context is current.
        let _current = context.enter()?;
        let mut map = TensorMap([0; 128]);
        let element_strides = [1; 5];
        // SAFETY: the map has its 128 bytes and alignment; `check` has made sure that dims and tile
        // have one number for each dimension, and strides one less.
        unsafe {
            context.functions().cuTensorMapEncodeTiled(
                (&raw mut map).cast::<c_void>(),
                self.dtype.code(),
                self.dims.len() as u32,
                self.address,
                self.dims.as_ptr(),
                self.strides.as_ptr(),
                self.tile.as_ptr(),
                element_strides.as_ptr(),
                0,
                self.swizzle as u32,
                PROMOTION,
                self.fill_nan.into(),
            )?;
        }
        Ok(map)
    }

    /// Whether the hardware can work with this.
    ///
    /// # Errors
    /// [`Error::TensorMap`] with the first rule that is broken.
    pub fn check(&self) -> Result<()> {
        let rank = self.dims.len();
        if !(1..=5).contains(&rank) {
            return broken("dims", "1 to 5 numbers", rank);
        }
        if self.strides.len() != rank - 1 {
            return broken("strides", "one number for each outer dimension", self.strides.len());
        }
        if self.tile.len() != rank {
            return broken("tile", "one number for each dimension", self.tile.len());
        }
        if self.address == 0 || !self.address.is_multiple_of(UNIT) {
            let address = format!("{:#x}", self.address);
            return broken("address", "a multiple of 16 bytes, not null", address);
        }
        for (i, &dim) in self.dims.iter().enumerate() {
            if !(1..=LARGEST_DIM).contains(&dim) {
                return broken(format!("dims[{i}]"), "1 to 2^32 elements", dim);
            }
        }
        for (i, &stride) in self.strides.iter().enumerate() {
            if !stride.is_multiple_of(UNIT) || stride > LARGEST_STRIDE {
                let rule = "a multiple of 16 bytes below 2^40";
                return broken(format!("strides[{i}]"), rule, stride);
            }
        }
        for (i, &size) in self.tile.iter().enumerate() {
            if !(1..=LARGEST_TILE).contains(&size) {
                return broken(format!("tile[{i}]"), "1 to 256 elements", size);
            }
        }
        if self.fill_nan && self.dtype == TensorMapType::U8 {
            return broken("fill_nan", "false for a type that is not floating point", true);
        }
        self.check_row()
    }

    /// The rules for a row of the box.
    fn check_row(&self) -> Result<()> {
        let row = u64::from(self.tile[0]) * self.dtype.bytes();
        if !row.is_multiple_of(UNIT) {
            return broken("a row of the tile", "a multiple of 16 bytes", row);
        }
        match self.swizzle.width() {
            Some(width) if row > width => {
                let rule = format!("at most the {width} bytes of its swizzle");
                broken("a row of the tile", rule, row)
            }
            _ => Ok(()),
        }
    }
}

fn broken(argument: impl Into<String>, rule: impl Into<String>, got: impl ToString) -> Result<()> {
    Err(Error::TensorMap { argument: argument.into(), rule: rule.into(), got: got.to_string() })
}
