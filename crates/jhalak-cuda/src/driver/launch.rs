//! Starting a kernel.

use std::ffi::c_void;
use std::ptr::null;

use super::functions::CUstream;
use super::{Arguments, Function, Result, Stream};

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    overlaps_previous: bool,
}

impl Launch {
    /// This many blocks, of this many threads.
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Launch { grid, block, shared_bytes: 0, overlaps_previous: false }
    }

    /// Bytes of dynamic shared memory of a block; more than 48 KiB must be
    /// [allowed](Function::allow_shared_memory) first.
    pub fn shared_bytes(self, shared_bytes: u32) -> Self {
        Launch { shared_bytes, ..self }
    }

    /// Lets the kernel start while the one before it in the stream still runs. It must execute
    /// `griddepcontrol.wait` before it touches what that one writes (PTX ISA, `griddepcontrol`).
    pub fn overlaps_previous(self) -> Self {
        Launch { overlaps_previous: true, ..self }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: CUstream,
    attributes: *const LaunchAttribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`: a number, then a union of 64 bytes, aligned to 8.
#[repr(C)]
struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`; its value is an `int`.
const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;

/// One pointer for each argument.
pub(crate) type LaunchParameters = *const *const c_void;

impl Function {
    /// Puts the kernel into the stream and returns at once. Nothing is allocated and nothing is
    /// waited for, so it may be captured into a graph.
    ///
    /// # Safety
    /// The arguments must be those that the kernel declares, in number, order and size, and the
    /// memory they point to must live until the kernel has run. The stream must belong to the
    /// function's device.
    ///
    /// # Errors
    /// [`Call`](super::Error::Call) for a shape that the device cannot run, and for failures of
    /// earlier work.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        launch: &Launch,
        arguments: &Arguments,
    ) -> Result<()> {
        let mut attribute =
            LaunchAttribute { id: PROGRAMMATIC_STREAM_SERIALIZATION, padding: 0, value: [0; 16] };
        attribute.value[0] = 1;
        let config = LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            stream: stream.raw(),
            attributes: &raw const attribute,
            attribute_count: launch.overlaps_previous.into(),
        };
        let context = self.module().context();
        let _current = context.enter()?;
        let pointers = arguments.pointers();
        // SAFETY: the layouts are those of cuda.h; the driver copies the arguments before it
        // returns; the caller vouches for the rest.
        unsafe {
            context.functions().cuLaunchKernelEx(
                &raw const config,
                self.raw(),
                pointers.as_ptr(),
                null(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn layouts_are_those_of_cuda_h() {
        assert_eq!(size_of::<LaunchConfig>(), 56);
        assert_eq!(offset_of!(LaunchConfig, stream), 32);
        assert_eq!(offset_of!(LaunchConfig, attributes), 40);
        assert_eq!(size_of::<LaunchAttribute>(), 72);
        assert_eq!(offset_of!(LaunchAttribute, value), 8);
    }
}
