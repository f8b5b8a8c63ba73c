//! The device's primary context, and making it current for a while.

use std::marker::PhantomData;
use std::sync::Arc;

use super::functions::{CUcontext, Functions};
use super::{Device, Result};

/// The primary context of a device, held. The last clone releases it.
#[derive(Clone, Debug)]
pub struct Context {
    primary: Arc<Primary>,
}

#[derive(Debug)]
struct Primary {
    device: Device,
    raw: CUcontext,
}

impl Drop for Primary {
    fn drop(&mut self) {
        let driver = self.device.driver();
        if driver.check_process().is_ok() {
            // SAFETY: was retained once. A failure means that the driver is shutting down.
            let _ = unsafe { driver.functions().cuDevicePrimaryCtxRelease_v2(self.device.raw()) };
        }
    }
}

impl Context {
    pub(crate) fn retain(device: Device) -> Result<Self> {
        device.driver().check_process()?;
        let mut raw = 0;
        let functions = device.driver().functions();
        // SAFETY: writes the handle.
        unsafe { functions.cuDevicePrimaryCtxRetain(&raw mut raw, device.raw())? };
        Ok(Context { primary: Arc::new(Primary { device, raw }) })
    }

    /// The device it belongs to.
    pub fn device(&self) -> Device {
        self.primary.device
    }

    /// The `CUcontext`.
    pub fn raw(&self) -> usize {
        self.primary.raw
    }

    /// Makes this context the calling thread's until the guard is dropped. Every function of this
    /// layer does so itself; around several of them it saves a few calls.
    ///
    /// Guards of different devices must end in the reverse order of their beginning, as they do
    /// when they are left to the end of their blocks.
    ///
    /// # Errors
    /// [`Forked`](super::Error::Forked), and what the driver says.
    pub fn enter(&self) -> Result<Current<'_>> {
        self.device().driver().check_process()?;
        let mut before = 0;
        // SAFETY: writes the handle; a thread without a context gets null.
        unsafe { self.functions().cuCtxGetCurrent(&raw mut before)? };
        let pushed = before != self.raw();
        if pushed {
            // SAFETY: this context is held. The guard takes it off the thread's stack again.
            unsafe { self.functions().cuCtxPushCurrent_v2(self.raw())? };
        }
        Ok(Current { context: self, pushed, thread: PhantomData })
    }

    pub(crate) fn functions(&self) -> &'static Functions {
        self.device().driver().functions()
    }
}

/// While this lives, its context is the calling thread's. Then the one before is again.
#[must_use = "the context is current only as long as this value lives"]
#[derive(Debug)]
pub struct Current<'a> {
    context: &'a Context,
    pushed: bool,
    /// The stack of contexts belongs to a thread, so the guard stays on it.
    thread: PhantomData<*const ()>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = 0;
            // SAFETY: takes off what `enter` put there. A failure means that the driver is shutting
            // down, and then no context matters any more.
            let _ = unsafe { self.context.functions().cuCtxPopCurrent_v2(&raw mut popped) };
        }
    }
}
