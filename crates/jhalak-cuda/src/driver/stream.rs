//! Queues of work on a device.

use std::sync::Arc;

use super::functions::CUstream;
use super::{Context, Result};

/// A stream: what is put into it runs in order. Its own, or borrowed from the caller.
#[derive(Clone, Debug)]
pub struct Stream {
    context: Context,
    raw: CUstream,
    /// Destroys an own stream with the last clone.
    _owned: Option<Arc<Owned>>,
}

#[derive(Debug)]
struct Owned {
    context: Context,
    raw: CUstream,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: made here, and the last clone is gone. The driver finishes its work first. A
            // failure means that the context is gone.
            let _ = unsafe { self.context.functions().cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// `CU_STREAM_NON_BLOCKING`: does not wait for the default stream, nor that for it.
const NON_BLOCKING: u32 = 1;

impl Context {
    /// A new stream, independent of the default one.
    pub fn stream(&self) -> Result<Stream> {
        let mut raw = 0;
        let current = self.enter()?;
        // SAFETY: writes the handle.
        unsafe { self.functions().cuStreamCreate(&raw mut raw, NON_BLOCKING)? };
        drop(current);
        let owned = Arc::new(Owned { context: self.clone(), raw });
        Ok(Stream { context: self.clone(), raw, _owned: Some(owned) })
    }
}

impl Stream {
    /// A stream of somebody else, by its `CUstream`: PyTorch's
    /// `torch.cuda.current_stream().cuda_stream`, or 0 for the default one. Never destroyed here.
    ///
    /// # Safety
    /// It must belong to this context and live as long as this value and its clones.
    pub unsafe fn borrow(context: &Context, raw: usize) -> Self {
        Stream { context: context.clone(), raw, _owned: None }
    }

    /// The context it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The `CUstream`.
    pub fn raw(&self) -> usize {
        self.raw
    }

    /// Waits until everything in the stream has run.
    ///
    /// # Errors
    /// [`Call`](super::Error::Call) with the failure of a kernel, if one failed.
    pub fn synchronize(&self) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the stream lives.
        unsafe { self.context.functions().cuStreamSynchronize(self.raw) }
    }
}
