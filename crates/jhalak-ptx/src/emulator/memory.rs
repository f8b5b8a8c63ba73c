//! The device's memory, as the host sees it.

use half::{bf16, f16};

use super::arena::{Allocation, Arena};
use super::fault::Fault;
use crate::address::Space;

/// Where the first allocation begins.
const FIRST: u64 = 0x7000_0000_0000;
/// Allocations are aligned as cudaMalloc aligns them, and this far apart, so that whoever runs out
/// of one does not get into the next.
const ALIGN: u64 = 256;
const GUARD: u64 = 1 << 20;

/// Memory of the emulated device. What a launch writes, the next one reads.
pub struct Memory {
    pub(super) arena: Arena,
    next: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Memory {
    /// A device without allocations.
    pub fn new() -> Self {
        Memory { arena: Arena::new(Space::Global), next: FIRST }
    }

    /// Room for so many bytes, which nobody has written. The address is a multiple of 256.
    pub fn alloc_uninitialised(&mut self, bytes: usize) -> u64 {
        let base = self.next;
        self.next = (base + bytes as u64 + GUARD).next_multiple_of(ALIGN);
        self.arena.allocations.push(Allocation::new(base, bytes));
        base
    }

    /// A copy of these values on the device. The address is a multiple of 256.
    pub fn alloc<T: Value>(&mut self, values: &[T]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_bytes()).collect();
        let base = self.alloc_uninitialised(bytes.len());
        if let Some(allocation) = self.arena.allocations.last_mut() {
            allocation.written.fill(true);
            allocation.bytes = bytes;
        }
        base
    }

    /// Copies values to the device.
    ///
    /// # Errors
    ///
    /// [`Fault::OutOfBounds`] where nothing is allocated; then nothing was copied.
    pub fn write<T: Value>(&mut self, address: u64, values: &[T]) -> Result<(), Fault> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_bytes()).collect();
        let (index, start) = self.arena.find(address, bytes.len())?;
        let allocation = &mut self.arena.allocations[index];
        let end = start + bytes.len();
        allocation.bytes[start..end].copy_from_slice(&bytes);
        allocation.written[start..end].fill(true);
        Ok(())
    }

    /// Values from the device.
    ///
    /// # Errors
    ///
    /// [`Fault::OutOfBounds`] where nothing is allocated, [`Fault::Uninitialised`] where nobody
    /// wrote.
    pub fn read<T: Value>(&self, address: u64, count: usize) -> Result<Vec<T>, Fault> {
        let size = size_of::<T>();
        let (index, start) = self.arena.find(address, count * size)?;
        let allocation = &self.arena.allocations[index];
        let end = start + count * size;
        if let Some(first) = allocation.written[start..end].iter().position(|written| !written) {
            let address = address + first as u64;
            return Err(Fault::Uninitialised { space: Space::Global, address });
        }
        Ok(allocation.bytes[start..end].chunks_exact(size).map(T::from_bytes).collect())
    }
}

/// A number that memory holds, as the device lays it out (little endian).
pub trait Value: Copy + private::Sealed {
    #[doc(hidden)]
    fn to_bytes(self) -> impl IntoIterator<Item = u8>;
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Self;
}

mod private {
    pub trait Sealed {}
}

macro_rules! values {
    ($($ty:ty)*) => {$(
        impl private::Sealed for $ty {}

        impl Value for $ty {
            fn to_bytes(self) -> impl IntoIterator<Item = u8> {
                self.to_le_bytes()
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                let mut whole = [0; size_of::<$ty>()];
                whole.copy_from_slice(bytes);
                <$ty>::from_le_bytes(whole)
            }
        }
    )*};
}

values! { u8 u16 u32 u64 i32 i64 f32 f16 bf16 }
