//! The driver's functions, by the names and versions that are pinned here.
//!
//! `cuda.h` maps a name like `cuMemAlloc` to the newest version a program was compiled for. jhalak
//! asks for the versioned symbol itself, whose meaning never changes. Each may be absent: the
//! error comes when it is called.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;

use libloading::Library;

use super::launch::{LaunchConfig, LaunchParameters};
use super::{Error, Result};

// Handles are pointers that only the driver follows; here they are numbers of the same size, so
// that they can be sent between threads and taken from Python as they are.
pub(crate) type CUdevice = i32;
pub(crate) type CUcontext = usize;
pub(crate) type CUmodule = usize;
pub(crate) type CUfunction = usize;
pub(crate) type CUstream = usize;
pub(crate) type CUevent = usize;
pub(crate) type CUgraph = usize;
pub(crate) type CUgraphExec = usize;
pub(crate) type CUdeviceptr = u64;
type CUresult = i32;
/// `cuGetErrorName` and `cuGetErrorString`: the only functions whose failure is no error.
type ErrorText = unsafe extern "system" fn(CUresult, *mut *const c_char) -> CUresult;

macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// A table of what this driver has.
        #[allow(non_snake_case)] // the driver's own names, to be found in its documentation
        pub(crate) struct Functions {
            error_name: Option<ErrorText>,
            error_message: Option<ErrorText>,
            $($name: Option<unsafe extern "system" fn($($kind),*) -> CUresult>,)*
        }

        impl Functions {
            /// Looks every function up.
            ///
            /// # Safety
            /// The library must be NVIDIA's driver or behave like it, and must stay loaded for as
            /// long as the table is used.
            pub unsafe fn load(library: &Library) -> Self {
                // SAFETY: the types are those of cuda.h, and the caller keeps the library loaded.
                unsafe {
                    Functions {
                        error_name: library.get("cuGetErrorName").ok().map(|f| *f),
                        error_message: library.get("cuGetErrorString").ok().map(|f| *f),
                        $($name: library.get(stringify!($name)).ok().map(|f| *f),)*
                    }
                }
            }

            $(
                /// The driver's function of this name.
                ///
                /// # Safety
                /// As its documentation says: pointers must lead to what it reads and writes.
                #[allow(non_snake_case)]
                pub unsafe fn $name(&self, $($argument: $kind),*) -> Result<()> {
                    let name = stringify!($name);
                    let Some(function) = self.$name else {
                        return Err(Error::MissingFunction { function: name });
                    };
                    // SAFETY: the caller's promise.
                    match unsafe { function($($argument),*) } {
                        0 => Ok(()),
                        code => Err(self.failed(name, code)),
                    }
                }
            )*
        }
    };
}

functions! {
    cuInit(flags: u32);
    cuDriverGetVersion(version: *mut i32);

    cuDeviceGetCount(count: *mut i32);
    cuDeviceGet(device: *mut CUdevice, ordinal: i32);
    cuDeviceGetName(name: *mut c_char, size: i32, device: CUdevice);
    cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);

    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxPushCurrent_v2(context: CUcontext);
    cuCtxPopCurrent_v2(context: *mut CUcontext);

    cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_char, count: u32, options: *const i32,
        values: *mut usize
    );
    cuModuleUnload(module: CUmodule);
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuFuncGetAttribute(value: *mut i32, attribute: i32, function: CUfunction);
    cuFuncSetAttribute(function: CUfunction, attribute: i32, value: i32);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut i32, function: CUfunction, threads: i32, shared_bytes: usize
    );
    cuLaunchKernelEx(
        config: *const LaunchConfig, function: CUfunction, parameters: LaunchParameters,
        extra: *const c_void
    );
    cuTensorMapEncodeTiled(
        map: *mut c_void, dtype: u32, rank: u32, address: CUdeviceptr, dims: *const u64,
        strides: *const u64, tile: *const u32, element_strides: *const u32, interleave: u32,
        swizzle: u32, promotion: u32, fill: u32
    );

    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(address: CUdeviceptr);
    cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
    cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const u8, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut u8, from: CUdeviceptr, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const u8, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(to: *mut u8, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemsetD8Async(to: CUdeviceptr, value: u8, count: usize, stream: CUstream);
    cuMemsetD32Async(to: CUdeviceptr, value: u32, count: usize, stream: CUstream);

    cuStreamCreate(stream: *mut CUstream, flags: u32);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuStreamBeginCapture_v2(stream: CUstream, mode: u32);
    cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    cuEventCreate(event: *mut CUevent, flags: u32);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventSynchronize(event: CUevent);
    cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: u64);
    cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
    cuGraphExecDestroy(executable: CUgraphExec);
    cuGraphDestroy(graph: CUgraph);
}

impl Functions {
    fn failed(&self, function: &'static str, code: CUresult) -> Error {
        let name = text(self.error_name, code).unwrap_or_else(|| format!("CUDA error {code}"));
        let message = text(self.error_message, code).unwrap_or_else(|| "no description".into());
        Error::Call { function, code, name, message }
    }
}

fn text(lookup: Option<ErrorText>, code: CUresult) -> Option<String> {
    let mut text = null();
    // SAFETY: writes a pointer to a text that is never freed, or null for a code it does not know.
    let result = unsafe { lookup?(code, &raw mut text) };
    // SAFETY: as above.
    let found = (result == 0 && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
    Some(found.to_string_lossy().into_owned())
}
