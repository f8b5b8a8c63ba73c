//! The arguments of a launch, packed without an allocation.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use super::TensorMap;

/// The most arguments that a launch can have here.
pub const MAX_ARGUMENTS: usize = 128;
/// The most bytes that the arguments can have together, gaps for alignment included.
pub const MAX_BYTES: usize = 2048;

/// A kernel's arguments in the order of its parameters, as the bytes that it will read.
///
/// ```
/// use jhalak_cuda::driver::Arguments;
///
/// let mut arguments = Arguments::new();
/// arguments.pointer(0x7000_0000).u32(128).f32(0.125);
/// assert_eq!(arguments.len(), 3);
/// ```
///
/// # Panics
/// Adding panics past [`MAX_ARGUMENTS`] or [`MAX_BYTES`]: that is a kernel with more parameters than
/// this is made for.
#[derive(Clone)]
pub struct Arguments {
    bytes: Bytes,
    /// Bytes in use.
    size: usize,
    /// Where each argument begins.
    offsets: [u16; MAX_ARGUMENTS],
    count: usize,
}

/// Aligned for the most demanding argument, a tensor map.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bytes([MaybeUninit<u8>; MAX_BYTES]);

impl Arguments {
    /// No arguments yet.
    #[allow(clippy::new_without_default)] // one way to begin is enough
    pub fn new() -> Self {
        let bytes = Bytes([MaybeUninit::uninit(); MAX_BYTES]);
        Arguments { bytes, size: 0, offsets: [0; MAX_ARGUMENTS], count: 0 }
    }

    /// How many arguments there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a `.param .u32`.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.push(&value.to_ne_bytes(), 4)
    }

    /// Adds a `.param .s32`.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.push(&value.to_ne_bytes(), 4)
    }

    /// Adds a `.param .u64`.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.push(&value.to_ne_bytes(), 8)
    }

    /// Adds a `.param .f32`.
    pub fn f32(&mut self, value: f32) -> &mut Self {
        self.push(&value.to_ne_bytes(), 4)
    }

    /// Adds the address of device memory, a `.param .u64`.
    pub fn pointer(&mut self, address: u64) -> &mut Self {
        self.u64(address)
    }

    /// Adds a tensor map by value, a `.param .align 64 .b8 [128]`.
    pub fn tensor_map(&mut self, map: &TensorMap) -> &mut Self {
        self.push(map.bytes(), align_of::<TensorMap>())
    }

    fn push(&mut self, value: &[u8], alignment: usize) -> &mut Self {
        let start = self.size.next_multiple_of(alignment);
        let end = start + value.len();
        assert!(
            self.count < MAX_ARGUMENTS && end <= MAX_BYTES,
            "a launch takes at most {MAX_ARGUMENTS} arguments and {MAX_BYTES} bytes of them"
        );
        for (slot, byte) in self.bytes.0[start..end].iter_mut().zip(value) {
            slot.write(*byte);
        }
        self.offsets[self.count] = start as u16;
        (self.count, self.size) = (self.count + 1, end);
        self
    }

    /// Pointers to the arguments, as a launch takes them.
    pub(crate) fn pointers(&self) -> [*const c_void; MAX_ARGUMENTS] {
        let start = self.bytes.0.as_ptr();
        self.offsets.map(|offset| start.wrapping_add(offset.into()).cast())
    }
}
