//! Work recorded once and replayed with one call.
//!
//! The driver does not guard graphs against two threads at once; here `self` and `&mut self` do.

use super::functions::{CUgraph, CUgraphExec};
use super::{Context, Result, Stream};

/// What was put into a stream while it was captured.
#[derive(Debug)]
pub struct CapturedGraph {
    context: Context,
    raw: CUgraph,
}

/// A graph that is ready to run.
#[derive(Debug)]
pub struct ExecutableGraph {
    context: Context,
    raw: CUgraphExec,
}

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: what other threads do cannot break the capture.
const THREAD_LOCAL: u32 = 1;

impl Stream {
    /// Records what `work` puts into this stream, instead of running it. The capture ends whether
    /// `work` succeeds or not.
    ///
    /// # Errors
    /// Those of `work`, and the driver's for work that cannot be captured. The default stream
    /// cannot be captured at all.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<CapturedGraph> {
        let context = self.context();
        let _current = context.enter()?;
        // SAFETY: the stream lives.
        unsafe { context.functions().cuStreamBeginCapture_v2(self.raw(), THREAD_LOCAL)? };
        let worked = work();
        let mut raw = 0;
        // SAFETY: writes the handle; this thread began the capture.
        let ended = unsafe { context.functions().cuStreamEndCapture(self.raw(), &raw mut raw) };
        let graph = CapturedGraph { context: context.clone(), raw };
        worked.and(ended).map(|()| graph)
    }
}

impl CapturedGraph {
    /// Makes the graph ready to run, as often as one likes.
    pub fn instantiate(self) -> Result<ExecutableGraph> {
        let _current = self.context.enter()?;
        let mut raw = 0;
        let functions = self.context.functions();
        // SAFETY: writes the handle; the graph lives.
        unsafe { functions.cuGraphInstantiateWithFlags(&raw mut raw, self.raw, 0)? };
        Ok(ExecutableGraph { context: self.context.clone(), raw })
    }
}

impl ExecutableGraph {
    /// Puts the recorded work into the stream.
    ///
    /// # Safety
    /// As for what was captured: the modules and the memory of then must still be there, and stay
    /// until the work has run.
    pub unsafe fn launch(&mut self, stream: &Stream) -> Result<()> {
        let _current = self.context.enter()?;
        // SAFETY: graph and stream live; the caller vouches for what the graph does.
        unsafe { self.context.functions().cuGraphLaunch(self.raw, stream.raw()) }
    }
}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: made here, destroyed once. A failure means that the context is gone, or that
            // the capture failed and there is no graph.
            let _ = unsafe { self.context.functions().cuGraphDestroy(self.raw) };
        }
    }
}

impl Drop for ExecutableGraph {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: made here, destroyed once. A failure means that the context is gone.
            let _ = unsafe { self.context.functions().cuGraphExecDestroy(self.raw) };
        }
    }
}
