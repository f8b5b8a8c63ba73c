//! [`Buffer`]: zeroed work space on cache-line boundaries, whose allocation may fail.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use jhalak_problem::{Error, Result};

/// Vectors of 64 bytes then never cross a cache line.
const ALIGNMENT: usize = 64;

/// Plain numbers for which all bits zero is a value.
///
/// # Safety
/// All-zero bytes must be a valid value, and the type must not need dropping.
pub(crate) unsafe trait Zeroable: Copy + Send + Sync {}

// SAFETY: zero is a number.
unsafe impl Zeroable for f32 {}
// SAFETY: zero is a number.
unsafe impl Zeroable for f64 {}
// SAFETY: a bf16 is its bits.
unsafe impl Zeroable for half::bf16 {}
// SAFETY: zero is false.
unsafe impl Zeroable for bool {}

/// A fixed number of elements, zero at first.
pub(crate) struct Buffer<T> {
    ptr: NonNull<T>,
    len: usize,
}

// SAFETY: owns plain numbers.
unsafe impl<T: Zeroable> Send for Buffer<T> {}
// SAFETY: shared access only reads; writes through `as_ptr` are the writers' care.
unsafe impl<T: Zeroable> Sync for Buffer<T> {}

impl<T: Zeroable> Buffer<T> {
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn zeroed(len: usize) -> Result<Self> {
        let out_of_memory = |bytes| Error::OutOfMemory { what: "work space", bytes };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(out_of_memory(usize::MAX))?;
        if bytes == 0 {
            return Ok(Buffer { ptr: NonNull::dangling(), len });
        }
        let layout = Self::layout(bytes).ok_or(out_of_memory(bytes))?;
        // SAFETY: the size is not 0.
        let ptr = unsafe { alloc_zeroed(layout) };
        match NonNull::new(ptr.cast()) {
            Some(ptr) => Ok(Buffer { ptr, len }),
            None => Err(out_of_memory(bytes)),
        }
    }

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes, ALIGNMENT).ok()
    }

    /// The first element, for reading and writing by whoever keeps threads apart.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.ptr.as_ptr()
    }
}

impl<T> std::ops::Deref for Buffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised elements.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl<T> std::ops::DerefMut for Buffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `len` initialised elements, exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        if bytes > 0 {
            let layout = Layout::from_size_align(bytes, ALIGNMENT).expect("checked when made");
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.ptr.as_ptr().cast(), layout) };
        }
    }
}

/// One value for each task that can run at once, handed out and taken back.
pub(crate) struct Pool<T>(std::sync::Mutex<Vec<T>>);

impl<T> Pool<T> {
    /// # Errors
    /// What `make` fails with.
    pub(crate) fn new(count: usize, make: impl Fn() -> Result<T>) -> Result<Self> {
        (0..count).map(|_| make()).collect::<Result<_>>().map(|v| Pool(std::sync::Mutex::new(v)))
    }

    /// Lends a value to `body`.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let mut value = self.lock().pop().expect("as many values as tasks at once");
        let result = body(&mut value);
        self.lock().push(value);
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_zero_and_aligned_and_may_fail() {
        let buffer = Buffer::<f32>::zeroed(100).unwrap();
        assert!(buffer.iter().all(|&x| x == 0.0));
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(Buffer::<f64>::zeroed(0).unwrap().len(), 0);
        assert!(matches!(Buffer::<f64>::zeroed(usize::MAX / 4), Err(Error::OutOfMemory { .. })));
        assert!(matches!(Buffer::<f64>::zeroed(1 << 55), Err(Error::OutOfMemory { .. })));
    }
}
