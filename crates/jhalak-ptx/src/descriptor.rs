//! Where wgmma finds a matrix in shared memory (PTX ISA, "Matrix Descriptor").
//!
//! The tensor cores read *core matrices* of 8 rows of 16 bytes. A layout says which direction is
//! contiguous and how far apart core matrices are; a descriptor is a layout with an address, in 64
//! bits:
//!
//! ```text
//! bits   0..14  address / 16, of the first 2^18 bytes of shared memory
//!       16..30  leading distance / 16
//!       32..46  stride distance / 16
//!       49..52  where the swizzle's pattern begins: 0, tiles begin with a pattern
//!       62..64  swizzle: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32
//! ```
//!
//! With a swizzle, a tile is made of *panels*: columns of rows as wide as the swizzle, one below the
//! other. That is what the copy engine writes when the box is as wide as the swizzle. Wider tiles
//! are panels one after another.
//!
//! ```text
//!            K-major: rows along M or N        MN-major: rows along K
//! panel      a row is 64 16-bit steps of k     a row is 64 elements of m or n, of one k
//!            (at 128 bytes)                    (at 128 bytes)
//! next k     + 32 bytes per wgmma              + k · row's bytes per wgmma of depth k
//! next panel more k                            more of m or n: the leading distance
//! ```

use crate::KernelBuilder;
use crate::address::{Address, Base, SharedAddress};
use crate::register::{B32, B64, Source};
use crate::shared::Placement;
use crate::swizzle::Swizzle;
use std::ops::Neg;

/// Which direction of a matrix is contiguous in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// That over which products are summed.
    K,
    /// The other one: the rows of a, the columns of b.
    Mn,
}

/// How a matrix lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixLayout {
    swizzle: Swizzle,
    major: Major,
    leading: u32,
    stride: u32,
}

impl MatrixLayout {
    /// Rows along m or n, each as wide as the swizzle, holding consecutive k. Deeper matrices
    /// continue in the next panel, which a descriptor of its own (or an
    /// [advanced](KernelBuilder::descriptor_advance) one) names.
    ///
    /// # Panics
    ///
    /// Of [`Swizzle::None`]: [`unswizzled`](Self::unswizzled) is for that.
    pub const fn k_major(swizzle: Swizzle) -> Self {
        assert!(!matches!(swizzle, Swizzle::None), "panels are as wide as a swizzle");
        // The leading distance is not used here, and 1 by custom.
        MatrixLayout { swizzle, major: Major::K, leading: 16, stride: swizzle.pattern_bytes() }
    }

    /// Rows along k, each as wide as the swizzle, holding consecutive m or n. The next m or n are in
    /// the next panel, `panel_bytes` bytes further.
    ///
    /// # Panics
    ///
    /// Of [`Swizzle::None`]: [`unswizzled`](Self::unswizzled) is for that.
    pub const fn mn_major(swizzle: Swizzle, panel_bytes: u32) -> Self {
        assert!(!matches!(swizzle, Swizzle::None), "panels are as wide as a swizzle");
        let stride = swizzle.pattern_bytes();
        MatrixLayout { swizzle, major: Major::Mn, leading: panel_bytes, stride }
    }

    /// Core matrices of 8 rows of 16 bytes, each contiguous, anywhere: `along_k` and `along_mn` are
    /// the distances in bytes from one to the next along k and along m or n.
    pub const fn unswizzled(major: Major, along_k: u32, along_mn: u32) -> Self {
        MatrixLayout { swizzle: Swizzle::None, major, leading: along_k, stride: along_mn }
    }

    /// The direction that is contiguous.
    pub fn major(&self) -> Major {
        self.major
    }

    /// The pattern in which the rows are stored.
    pub fn swizzle(&self) -> Swizzle {
        self.swizzle
    }

    /// The descriptor's bits, less the address.
    pub fn bits(&self) -> u64 {
        let swizzle = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes128 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes32 => 3,
        };
        let (leading, stride) = (u64::from(self.leading >> 4), u64::from(self.stride >> 4));
        leading << 16 | stride << 32 | swizzle << 62
    }
}

/// A matrix in shared memory, as wgmma reads it. `-descriptor` is the matrix with its signs flipped.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    pub(crate) bits: B64,
    pub(crate) major: Major,
    pub(crate) negated: bool,
}

impl Neg for Descriptor {
    type Output = Self;
    fn neg(self) -> Self {
        Descriptor { negated: !self.negated, ..self }
    }
}

impl KernelBuilder {
    /// The descriptor of the matrix of this layout that begins at `place`. The place is aligned to
    /// the swizzle's [`pattern_bytes`](Swizzle::pattern_bytes), or to 16 without one.
    #[track_caller]
    pub fn descriptor(
        &mut self,
        place: impl Into<SharedAddress>,
        layout: MatrixLayout,
    ) -> Descriptor {
        let place = place.into().0;
        self.check_layout(layout);
        self.check_pattern(&place, layout.swizzle);
        let address = self.shared_address(SharedAddress(place));
        let bits = layout.bits();
        let low = self.bfe_u32(address, 4, 14);
        self.or_b32_to(low, low, bits as u32);
        let high = self.mov_b32((bits >> 32) as u32);
        let bits = self.pack_b64(low, high);
        Descriptor { bits, major: layout.major, negated: false }
    }

    /// The same matrix `bytes` further: a multiple of 16, possibly negative.
    #[track_caller]
    pub fn descriptor_advance(&mut self, descriptor: Descriptor, bytes: i32) -> Descriptor {
        let rule = "descriptors advance by a multiple of 16 bytes";
        self.declare(bytes % 16 == 0, format!("an advance of {bytes} bytes"), rule);
        if bytes == 0 {
            return descriptor;
        }
        Descriptor { bits: self.add_u64(descriptor.bits, bytes >> 4), ..descriptor }
    }

    /// The matrix `index` times `bytes` further: one of a ring of stages. `bytes` is a multiple of
    /// 16.
    #[track_caller]
    pub fn descriptor_at(
        &mut self,
        descriptor: Descriptor,
        index: impl Into<Source<B32>>,
        bytes: u32,
    ) -> Descriptor {
        let rule = "descriptors advance by a multiple of 16 bytes";
        self.declare(bytes.is_multiple_of(16), format!("stages of {bytes} bytes"), rule);
        let bits = self.mad_wide_u32(index, bytes >> 4, descriptor.bits);
        Descriptor { bits, ..descriptor }
    }

    #[track_caller]
    fn check_layout(&mut self, layout: MatrixLayout) {
        let what = format!("{layout:?}");
        let fits = |distance: u32| distance.is_multiple_of(16) && distance < 1 << 18;
        let rule = "distances of core matrices are multiples of 16 bytes below 2^18";
        self.declare(fits(layout.leading) && fits(layout.stride), what, rule);
    }

    /// Checks what is known of an address: a place in a region, and the alignment of the whole.
    #[track_caller]
    fn check_pattern(&mut self, place: &Address, swizzle: Swizzle) {
        let pattern = if swizzle == Swizzle::None { 16 } else { swizzle.pattern_bytes() };
        let align = match place.base {
            Base::Shared(Placement::Static) => self.kernel.static_shared.align(),
            Base::Shared(Placement::Dynamic) => self.kernel.dynamic_shared.align(),
            Base::Register(_) | Base::Parameter(_) => return,
        };
        let rule = "a matrix in shared memory begins with a pattern of its swizzle: at a multiple \
                    of 1024, 512 or 256 bytes (16 without a swizzle)";
        let aligned = align >= pattern && place.may_hold(pattern);
        self.declare(aligned, format!("{swizzle:?}, offset {}", place.offset), rule);
    }
}
