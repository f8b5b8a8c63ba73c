//! Device memory, and copies to and from it.
//!
//! Addresses are plain numbers, since most memory belongs to the caller; [`Buffer`] is for the rest.

use super::{Context, Result, Stream};

/// Device memory that is freed with this value.
#[derive(Debug)]
pub struct Buffer {
    address: u64,
    bytes: usize,
    freed_by: FreedBy,
}

#[derive(Debug)]
enum FreedBy {
    /// At once; the driver waits for the whole device first.
    Context(Context),
    /// When the stream gets there.
    Stream(Stream),
}

impl Buffer {
    /// Where it begins; aligned to 256 bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let context = match &self.freed_by {
            FreedBy::Context(context) => context,
            FreedBy::Stream(stream) => stream.context(),
        };
        let Ok(_current) = context.enter() else { return };
        let functions = context.functions();
        // A failure means that the context is gone, and the memory with it.
        let _ = match &self.freed_by {
            // SAFETY: allocated here and freed once.
            FreedBy::Context(_) => unsafe { functions.cuMemFree_v2(self.address) },
            FreedBy::Stream(stream) => {
                // SAFETY: as above; the stream lives.
                unsafe { functions.cuMemFreeAsync(self.address, stream.raw()) }
            }
        };
    }
}

impl Context {
    /// Allocates device memory, with anything in it. Freeing it waits for the device.
    ///
    /// # Errors
    /// [`Call`](super::Error::Call) with `CUDA_ERROR_OUT_OF_MEMORY`, or `CUDA_ERROR_INVALID_VALUE`
    /// for 0 bytes.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        let _current = self.enter()?;
        let mut address = 0;
        // SAFETY: writes the address.
        unsafe { self.functions().cuMemAlloc_v2(&raw mut address, bytes)? };
        Ok(Buffer { address, bytes, freed_by: FreedBy::Context(self.clone()) })
    }

    /// Bytes of the device's memory that are free, and all of them.
    pub fn memory(&self) -> Result<(usize, usize)> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        unsafe { self.functions().cuMemGetInfo_v2(&raw mut free, &raw mut total)? };
        Ok((free, total))
    }

    /// Copies to the device, and returns when that is done. Streams of [`Context::stream`] are not
    /// waited for.
    ///
    /// # Safety
    /// The bytes at `to` must be device memory of this context that nothing else uses now.
    pub unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: reads the slice; the caller vouches for the rest.
        unsafe { self.functions().cuMemcpyHtoD_v2(to, from.as_ptr(), from.len())? };
        // From ordinary memory the copy returns when its source is read, before the data has
        // arrived (CUDA driver API, "API synchronization behavior").
        // SAFETY: the default stream is always there.
        unsafe { self.functions().cuStreamSynchronize(0) }
    }

    /// Copies from the device, and returns when that is done. Streams of [`Context::stream`] are
    /// not waited for.
    ///
    /// # Safety
    /// The bytes at `from` must be device memory of this context that nothing else writes now.
    pub unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: fills the slice; the caller vouches for the rest.
        unsafe { self.functions().cuMemcpyDtoH_v2(to.as_mut_ptr(), from, to.len()) }
    }
}

/// Everything here happens when the stream gets there; the calls return before.
impl Stream {
    /// Allocates device memory in the order of the stream, from the device's pool; it is freed in
    /// that order too.
    ///
    /// # Errors
    /// As [`Context::allocate`], and `CUDA_ERROR_NOT_SUPPORTED` on devices without pools.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        let _current = self.context().enter()?;
        let mut address = 0;
        let functions = self.context().functions();
        // SAFETY: writes the address.
        unsafe { functions.cuMemAllocAsync(&raw mut address, bytes, self.raw())? };
        Ok(Buffer { address, bytes, freed_by: FreedBy::Stream(self.clone()) })
    }

    /// Copies to the device.
    ///
    /// # Safety
    /// Both ranges must live, and `from` must stay as it is, until the stream has got there.
    pub unsafe fn copy_to_device(&self, to: u64, from: &[u8]) -> Result<()> {
        let _current = self.context().enter()?;
        let functions = self.context().functions();
        // SAFETY: the caller's promise.
        unsafe { functions.cuMemcpyHtoDAsync_v2(to, from.as_ptr(), from.len(), self.raw()) }
    }

    /// Copies from the device.
    ///
    /// # Safety
    /// Both ranges must live, and nothing else may use `to`, until the stream has got there.
    pub unsafe fn copy_to_host(&self, to: &mut [u8], from: u64) -> Result<()> {
        let _current = self.context().enter()?;
        let functions = self.context().functions();
        // SAFETY: the caller's promise.
        unsafe { functions.cuMemcpyDtoHAsync_v2(to.as_mut_ptr(), from, to.len(), self.raw()) }
    }

    /// Writes `count` times the same byte.
    ///
    /// # Safety
    /// The bytes at `to` must be device memory that lives until the stream has got there.
    pub unsafe fn fill_bytes(&self, to: u64, byte: u8, count: usize) -> Result<()> {
        let _current = self.context().enter()?;
        // SAFETY: the caller's promise.
        unsafe { self.context().functions().cuMemsetD8Async(to, byte, count, self.raw()) }
    }

    /// Writes `count` times the same four bytes; `to` must be a multiple of 4.
    ///
    /// # Safety
    /// As [`Stream::fill_bytes`].
    pub unsafe fn fill_words(&self, to: u64, word: u32, count: usize) -> Result<()> {
        let _current = self.context().enter()?;
        // SAFETY: the caller's promise.
        unsafe { self.context().functions().cuMemsetD32Async(to, word, count, self.raw()) }
    }
}
