//! Points in a stream, to wait for and to measure time between.

use super::functions::CUevent;
use super::{Context, Result, Stream};

/// A mark that a stream passes.
#[derive(Debug)]
pub struct Event {
    context: Context,
    raw: CUevent,
}

impl Context {
    /// A new event, with timing.
    pub fn event(&self) -> Result<Event> {
        let mut raw = 0;
        let current = self.enter()?;
        // SAFETY: writes the handle.
        unsafe { self.functions().cuEventCreate(&raw mut raw, 0)? };
        drop(current);
        Ok(Event { context: self.clone(), raw })
    }
}

impl Event {
    /// Puts the event into the stream.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: both live.
        unsafe { self.context.functions().cuEventRecord(self.raw, stream.raw()) }
    }

    /// Waits until the stream has passed the event; at once if it was never recorded.
    pub fn synchronize(&self) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: the event lives.
        unsafe { self.context.functions().cuEventSynchronize(self.raw) }
    }

    /// Milliseconds from this event to a later one, about half a microsecond exact.
    ///
    /// # Errors
    /// [`Call`](super::Error::Call) with `CUDA_ERROR_NOT_READY` before both have been passed, and
    /// `CUDA_ERROR_INVALID_HANDLE` if one was not recorded.
    pub fn milliseconds_until(&self, later: &Event) -> Result<f32> {
        let _current = self.context.enter()?;
        let mut milliseconds = 0.0;
        let functions = self.context.functions();
        // SAFETY: writes one number; both events live.
        unsafe { functions.cuEventElapsedTime(&raw mut milliseconds, self.raw, later.raw)? };
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: made here, destroyed once. A failure means that the context is gone.
            let _ = unsafe { self.context.functions().cuEventDestroy_v2(self.raw) };
        }
    }
}
