//! A driver that is none: it does nothing, writes down every call, and returns what it is told to.
//!
//! The tests compile this file to a library with rustc (`tests/common/fake.rs`) and load it in the
//! place of libcuda. Each test loads a copy of its own, so that none sees the calls of another.
//! Exports that begin with `fake_` are the tests' side of it. With `--cfg lean` it lacks a few
//! functions, like an older driver.

#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{LazyLock, Mutex};

#[derive(Default)]
struct State {
    /// One line a call, in order.
    calls: Vec<String>,
    /// What the tests set: numbers, also the results of functions by their names, and texts.
    numbers: HashMap<String, i64>,
    texts: HashMap<String, CString>,
    /// The last handle that was given out.
    handle: usize,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

thread_local! {
    /// The contexts of this thread; the last one is current.
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn number(name: &str, default: i64) -> i64 {
    STATE.lock().unwrap().numbers.get(name).copied().unwrap_or(default)
}

fn current() -> usize {
    CONTEXTS.with_borrow(|contexts| contexts.last().copied().unwrap_or(0))
}

fn new_handle() -> usize {
    let mut state = STATE.lock().unwrap();
    state.handle += 16;
    state.handle
}

fn write_down(call: String) {
    STATE.lock().unwrap().calls.push(call);
}

/// Writes a call down and returns the result that was set for the function; success otherwise. A
/// function that needs a context fails without one.
fn called(function: &str, arguments: &str, needs_context: bool) -> i32 {
    write_down(format!("{function}({arguments})"));
    match number(function, 0) as i32 {
        0 if needs_context && current() == 0 => 201,
        result => result,
    }
}

macro_rules! quiet {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $out:ident: $of:ty = $value:expr)?;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "system" fn $name($($out: *mut $of,)? $($argument: $kind),*) -> i32 {
            let arguments: &[String] = &[$(format!("{}={:?}", stringify!($argument), $argument)),*];
            let name = stringify!($name);
            let result = called(name, &arguments.join(" "), needs_context(name));
            $(if result == 0 { unsafe { *$out = $value } })?
            result
        }
    )*};
}

fn needs_context(function: &str) -> bool {
    !["cuInit", "cuDevice", "cuDriver", "cuCtx"].iter().any(|prefix| function.starts_with(prefix))
}

// The plain ones: what they write, if anything, comes first in their arguments.
quiet! {
    cuInit(flags: u32);
    cuDriverGetVersion() -> version: i32 = number("version", 12080) as i32;
    cuDeviceGetCount() -> count: i32 = number("devices", 2) as i32;
    cuDeviceGet(ordinal: i32) -> device: i32 = 100 + ordinal;
    cuDeviceGetAttribute(attribute: i32, device: i32) -> value: i32 = 1000 + attribute;
    cuDeviceTotalMem_v2(device: i32) -> bytes: usize = 150_000_000_000;
    cuDevicePrimaryCtxRetain(device: i32) -> context: usize = 0xC0 + device as usize;
    cuDevicePrimaryCtxRelease_v2(device: i32);
    cuModuleUnload(module: usize);
    cuFuncGetAttribute(attribute: i32, function: usize) -> value: i32 = 10 + attribute;
    cuFuncSetAttribute(function: usize, attribute: i32, value: i32);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(function: usize, threads: i32, bytes: usize) -> n: i32 = 3;
    cuMemAlloc_v2(bytes: usize) -> address: u64 = 0x7000_0000;
    cuMemFree_v2(address: u64);
    cuMemFreeAsync(address: u64, stream: usize);
    cuMemsetD8Async(to: u64, value: u8, count: usize, stream: usize);
    cuMemsetD32Async(to: u64, value: u32, count: usize, stream: usize);
    cuStreamCreate(flags: u32) -> stream: usize = new_handle();
    cuStreamDestroy_v2(stream: usize);
    cuStreamSynchronize(stream: usize);
    cuStreamBeginCapture_v2(stream: usize, mode: u32);
    cuEventCreate(flags: u32) -> event: usize = new_handle();
    cuEventDestroy_v2(event: usize);
    cuEventRecord(event: usize, stream: usize);
    cuEventSynchronize(event: usize);
    cuEventElapsedTime(start: usize, end: usize) -> milliseconds: f32 = 1.5;
    cuGraphInstantiateWithFlags(graph: usize, flags: u64) -> executable: usize = new_handle();
    cuGraphLaunch(executable: usize, stream: usize);
    cuGraphExecDestroy(executable: usize);
    cuGraphDestroy(graph: usize);
}

#[cfg(not(lean))]
quiet! {
    cuMemAllocAsync(bytes: usize, stream: usize) -> address: u64 = 0x7100_0000;
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuGetErrorName(code: i32, name: *mut *const c_char) -> i32 {
    let known = match code {
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        100 => c"CUDA_ERROR_NO_DEVICE",
        201 => c"CUDA_ERROR_INVALID_CONTEXT",
        218 => c"CUDA_ERROR_INVALID_PTX",
        500 => c"CUDA_ERROR_NOT_FOUND",
        900 => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        901 => c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        _ => return 1,
    };
    unsafe { *name = known.as_ptr() };
    0
}

#[cfg(not(lean))]
#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuGetErrorString(code: i32, message: *mut *const c_char) -> i32 {
    unsafe { *message = if code == 999 { std::ptr::null() } else { c"in words".as_ptr() } };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuDeviceGetName(name: *mut c_char, size: i32, device: i32) -> i32 {
    let given = c"Fake GPU".to_bytes_with_nul();
    unsafe { given.as_ptr().copy_to(name.cast(), given.len()) };
    called("cuDeviceGetName", &format!("size={size} device={device}"), false)
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuCtxGetCurrent(context: *mut usize) -> i32 {
    unsafe { *context = current() };
    number("cuCtxGetCurrent", 0) as i32
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuCtxPushCurrent_v2(context: usize) -> i32 {
    CONTEXTS.with_borrow_mut(|contexts| contexts.push(context));
    called("cuCtxPushCurrent_v2", &format!("{context:#x}"), false)
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuCtxPopCurrent_v2(context: *mut usize) -> i32 {
    let popped = CONTEXTS.with_borrow_mut(Vec::pop).unwrap_or(0);
    unsafe { *context = popped };
    called("cuCtxPopCurrent_v2", &format!("{popped:#x}"), false)
}

/// Writes the logs that the test has set into the buffers of the options.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuModuleLoadDataEx(
    module: *mut usize,
    image: *const c_char,
    count: u32,
    options: *const i32,
    values: *const *mut c_void,
) -> i32 {
    let count = count as usize;
    let options = unsafe { std::slice::from_raw_parts(options, count) };
    let values = unsafe { std::slice::from_raw_parts(values, count) };
    let value = |option| values[options.iter().position(|&given| given == option).unwrap()];
    for (text, buffer, size) in [("info_log", 3, 4), ("error_log", 5, 6)] {
        let state = STATE.lock().unwrap();
        let log = state.texts.get(text).map_or(&[0][..], |log| log.as_bytes_with_nul());
        let log = &log[..log.len().min(value(size) as usize)];
        unsafe { log.as_ptr().copy_to(value(buffer).cast(), log.len()) };
    }
    unsafe { *module = new_handle() };
    let image = unsafe { CStr::from_ptr(image) };
    std::thread::sleep(std::time::Duration::from_millis(number("load_milliseconds", 0) as u64));
    let level = value(7) as usize;
    called("cuModuleLoadDataEx", &format!("image={image:?} level={level}"), true)
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuModuleGetFunction(
    function: *mut usize,
    module: usize,
    name: *const c_char,
) -> i32 {
    let name = unsafe { CStr::from_ptr(name) };
    unsafe { *function = new_handle() };
    called("cuModuleGetFunction", &format!("module={module} name={name:?}"), true)
}

#[repr(C)]
pub struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: *mut c_void,
    attributes: *const [u32; 18],
    attribute_count: u32,
}

/// Writes down the bytes of the arguments, for which the test has set `argument_sizes`, `4 8 128`
/// say: a kernel knows its parameters, a launch does not.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuLaunchKernelEx(
    config: *const LaunchConfig,
    function: usize,
    parameters: *const *const u8,
    extra: *const c_void,
) -> i32 {
    let config = unsafe { &*config };
    let mut text = format!(
        "function={function} grid={:?} block={:?} shared={} stream={} extra={}",
        config.grid, config.block, config.shared_bytes, config.stream as usize, extra as usize
    );
    for i in 0..config.attribute_count as usize {
        let attribute = unsafe { &*config.attributes.add(i) };
        text += &format!(" attribute[{}]={}", attribute[0], attribute[2]);
    }
    let sizes = STATE.lock().unwrap().texts.get("argument_sizes").cloned().unwrap_or_default();
    for (i, size) in sizes.to_str().unwrap().split_whitespace().enumerate() {
        let size: usize = size.parse().unwrap();
        let pointer = unsafe { *parameters.add(i) };
        let bytes = unsafe { std::slice::from_raw_parts(pointer, size) };
        let hex: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
        let misaligned = pointer as usize % size.min(64);
        text += &format!(" {hex}{}", if misaligned == 0 { "" } else { " misaligned" });
    }
    called("cuLaunchKernelEx", &text, true)
}

#[cfg(not(lean))]
#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuTensorMapEncodeTiled(
    map: *mut [u8; 128],
    dtype: u32,
    rank: u32,
    address: u64,
    dims: *const u64,
    strides: *const u64,
    tile: *const u32,
    element_strides: *const u32,
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> i32 {
    let n = rank as usize;
    let dims = unsafe { std::slice::from_raw_parts(dims, n) };
    let strides = unsafe { std::slice::from_raw_parts(strides, n - 1) };
    let tile = unsafe { std::slice::from_raw_parts(tile, n) };
    let element_strides = unsafe { std::slice::from_raw_parts(element_strides, n) };
    unsafe { *map = std::array::from_fn(|i| i as u8) };
    let text = format!(
        "dtype={dtype} address={address:#x} dims={dims:?} strides={strides:?} tile={tile:?} \
         element_strides={element_strides:?} interleave={interleave} swizzle={swizzle} \
         promotion={promotion} fill={fill} misaligned={}",
        map as usize % 64
    );
    called("cuTensorMapEncodeTiled", &text, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> i32 {
    unsafe { (*free, *total) = (5, 7) };
    called("cuMemGetInfo_v2", "", true)
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> i32 {
    let result = called("cuStreamEndCapture", &format!("stream={stream}"), true);
    unsafe { *graph = if result == 0 { new_handle() } else { 0 } };
    result
}

fn copied(function: &str, bytes: &[u8], device: u64, stream: Option<usize>) -> i32 {
    let stream = stream.map(|stream| format!(" stream={stream}")).unwrap_or_default();
    called(function, &format!("device={device:#x} bytes={bytes:?}{stream}"), true)
}

/// What a copy from the device finds there: 1, 2, 3 …
unsafe fn fill(to: *mut u8, count: usize) -> &'static [u8] {
    let bytes = unsafe { std::slice::from_raw_parts_mut(to, count) };
    bytes.iter_mut().zip(1..).for_each(|(byte, value)| *byte = value);
    bytes
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuMemcpyHtoD_v2(to: u64, from: *const u8, count: usize) -> i32 {
    copied("cuMemcpyHtoD_v2", unsafe { std::slice::from_raw_parts(from, count) }, to, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, count: usize) -> i32 {
    copied("cuMemcpyDtoH_v2", unsafe { fill(to, count) }, from, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const u8,
    count: usize,
    stream: usize,
) -> i32 {
    let bytes = unsafe { std::slice::from_raw_parts(from, count) };
    copied("cuMemcpyHtoDAsync_v2", bytes, to, Some(stream))
}

#[unsafe(no_mangle)]
pub unsafe extern "system" fn cuMemcpyDtoHAsync_v2(
    to: *mut u8,
    from: u64,
    count: usize,
    stream: usize,
) -> i32 {
    copied("cuMemcpyDtoHAsync_v2", unsafe { fill(to, count) }, from, Some(stream))
}

/// Sets a number: the result of the function of that name, or what it answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_set_number(name: *const c_char, value: i64) {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned();
    STATE.lock().unwrap().numbers.insert(name, value);
}

/// Sets a text: a log, or the sizes of a kernel's arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_set_text(name: *const c_char, text: *const c_char) {
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned();
    let text = unsafe { CStr::from_ptr(text) }.to_owned();
    STATE.lock().unwrap().texts.insert(name, text);
}

/// Hands over the calls written down since the last time, one a line. The text is not freed.
#[unsafe(no_mangle)]
pub extern "C" fn fake_take_calls() -> *const c_char {
    let calls = std::mem::take(&mut STATE.lock().unwrap().calls);
    CString::new(calls.join("\n")).unwrap().into_raw()
}
