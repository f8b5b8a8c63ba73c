//! Devices, contexts and launches.

use std::ffi::c_int;

use jhalak_cuda::driver::{Arguments, Error, Launch};
use libloading::Library;

use crate::shared::{basic, download, gpu, hopper, upload};

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn the_device_describes_itself() {
    let context = gpu();
    let driver = context.device().driver();
    let properties = context.device().properties().unwrap();
    println!(
        "CUDA {}, {} devices, {properties:?}",
        driver.version(),
        driver.device_count().unwrap()
    );
    assert!(!properties.name.is_empty());
    assert!(properties.compute_capability >= (7, 5));
    assert!((1..1000).contains(&properties.multiprocessors));
    assert!((48 << 10..1 << 20).contains(&properties.shared_memory_per_block));
    assert!(properties.l2_cache >= 1 << 19);
    assert!((100_000..10_000_000).contains(&properties.clock_khz));
    let (free, total) = context.memory().unwrap();
    assert!(free <= total && total as u64 <= properties.memory, "{free} {total}");
    let error = driver.device(driver.device_count().unwrap()).unwrap_err();
    assert!(error.to_string().contains("CUDA_ERROR_INVALID_DEVICE"), "{error}");
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn vectors_are_added() {
    let context = gpu();
    let (function, stream) = (basic(&context, "vector_add"), context.stream().unwrap());
    let n = 100_003;
    let numbers = |seed: u32| (0..n).map(move |i| ((i * seed) % 1009) as f32 / 8.0);
    let words = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(f32::to_bits).collect();
    let (a, b): (Vec<u32>, Vec<u32>) = (words(&mut numbers(7)), words(&mut numbers(13)));
    let (a, b) = (upload(&context, &a), upload(&context, &b));
    // One word more, which must stay as it is.
    let c = upload(&context, &vec![0x7fc0_0001; n as usize + 1]);
    let mut arguments = Arguments::new();
    arguments.pointer(a.address()).pointer(b.address()).pointer(c.address()).u32(n);
    let launch = Launch::new([n.div_ceil(256), 1, 1], [256, 1, 1]);
    // SAFETY: the kernel's parameters are three pointers to n words and n.
    unsafe { function.launch(&stream, &launch, &arguments).unwrap() };
    let mut expected: Vec<u32> = words(&mut numbers(7).zip(numbers(13)).map(|(x, y)| x + y));
    expected.push(0x7fc0_0001);
    assert_eq!(download(&stream, &c), expected);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_kernel_sees_its_arguments_bit_by_bit() {
    let context = gpu();
    let (function, stream) = (basic(&context, "store_parameters"), context.stream().unwrap());
    let out = upload(&context, &[9; 8]);
    let mut arguments = Arguments::new();
    arguments
        .u32(0x8000_0001)
        .pointer(out.address())
        .f32(-0.375)
        .i32(-5)
        .u64(0x0102_0304_0506_0708);
    // SAFETY: the kernel's parameters are these, and out has room for four times 8 bytes.
    unsafe { function.launch(&stream, &Launch::new([1; 3], [1; 3]), &arguments).unwrap() };
    let (number, negative) = ((-0.375f32).to_bits(), -5i32 as u32);
    let expected = [0x8000_0001, 0, number, 0, negative, 0, 0x0506_0708, 0x0102_0304];
    assert_eq!(download(&stream, &out), expected);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn all_of_the_shared_memory_can_be_had_once_it_is_allowed() {
    let context = gpu();
    let (function, stream) = (basic(&context, "through_shared"), context.stream().unwrap());
    let out = upload(&context, &[0]);
    let bytes = context.device().properties().unwrap().shared_memory_per_block;
    let mut arguments = Arguments::new();
    arguments.pointer(out.address()).u32(bytes);
    let launch = Launch::new([1; 3], [1; 3]).shared_bytes(bytes);
    // SAFETY: the kernel's parameters are a pointer and the bytes of shared memory.
    let run = || unsafe { function.launch(&stream, &launch, &arguments) };
    let refused = run().unwrap_err();
    assert!(refused.to_string().contains("CUDA_ERROR_INVALID_VALUE"), "{refused}");
    function.allow_shared_memory(bytes).unwrap();
    assert_eq!(function.resources().unwrap().max_dynamic_shared_bytes, bytes);
    run().unwrap();
    assert_eq!(download(&stream, &out), [bytes]);
    assert_eq!(function.blocks_per_multiprocessor(1, bytes).unwrap(), 1);
    let too_much = function.allow_shared_memory(bytes + 1).unwrap_err();
    assert!(too_much.to_string().contains("CUDA_ERROR_INVALID_VALUE"), "{too_much}");
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_kernels_resources_are_told() {
    let context = gpu();
    let resources = basic(&context, "vector_add").resources().unwrap();
    println!("{resources:?}");
    assert!((2..=64).contains(&resources.registers));
    assert_eq!((resources.shared_bytes, resources.local_bytes), (0, 0));
    assert_eq!(resources.max_threads, 1024);
    let function = basic(&context, "vector_add");
    assert!(function.blocks_per_multiprocessor(256, 0).unwrap() >= 4);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_block_too_large_is_an_error_and_harms_nothing() {
    let context = gpu();
    let (function, stream) = (basic(&context, "add_number"), context.stream().unwrap());
    let buffer = upload(&context, &[1; 128]);
    let mut arguments = Arguments::new();
    arguments.pointer(buffer.address()).u32(1);
    // SAFETY: the launch is refused.
    let refused =
        unsafe { function.launch(&stream, &Launch::new([1; 3], [2048, 1, 1]), &arguments) };
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Call { function: "cuLaunchKernelEx", .. }), "{error}");
    assert_eq!(download(&stream, &buffer), [1; 128]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn an_overlapping_kernel_waits_where_it_says_so() {
    let context = gpu();
    let Some(first) = hopper(&context, "store_late") else { return };
    let second = first.module().function("times_ten_after_previous").unwrap();
    let stream = context.stream().unwrap();
    for _ in 0..20 {
        let x = upload(&context, &[0]);
        let mut arguments = Arguments::new();
        arguments.pointer(x.address());
        let launch = Launch::new([1; 3], [1; 3]);
        // SAFETY: both kernels have one parameter, a pointer to a word.
        unsafe {
            first.launch(&stream, &launch, &arguments).unwrap();
            second.launch(&stream, &launch.overlaps_previous(), &arguments).unwrap();
        }
        assert_eq!(download(&stream, &x), [10]);
    }
}

/// Asks the driver itself, not through jhalak.
fn current_context(library: &Library) -> usize {
    let mut context = 0;
    // SAFETY: the function's type, as in cuda.h; it writes the handle.
    let result = unsafe {
        let get = library.get::<unsafe extern "system" fn(*mut usize) -> c_int>("cuCtxGetCurrent");
        get.unwrap()(&raw mut context)
    };
    assert_eq!(result, 0);
    context
}

/// Everything that makes a context current: memory, modules, streams, events, launches.
fn work() {
    let context = gpu();
    let stream = context.stream().unwrap();
    let function = basic(&context, "add_number");
    let buffer = upload(&context, &[1; 128]);
    let event = context.event().unwrap();
    crate::shared::add_number(&function, &stream, &buffer, 2);
    event.record(&stream).unwrap();
    event.synchronize().unwrap();
    assert_eq!(download(&stream, &buffer), [3; 128]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn the_callers_context_is_as_it_was() {
    let context = gpu();
    let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
    // SAFETY: the driver, which is loaded already.
    let library = unsafe { Library::new(name) }.unwrap();
    assert_eq!(current_context(&library), 0, "a new thread has no context");
    work();
    assert_eq!(current_context(&library), 0);
    {
        let _current = context.enter().unwrap();
        assert_eq!(current_context(&library), context.raw());
        work();
        assert_eq!(current_context(&library), context.raw());
    }
    assert_eq!(current_context(&library), 0);

    let mut theirs = 0;
    // SAFETY: the function's type, as in cuda.h; makes a context and puts it on this thread.
    let result = unsafe {
        type Create = unsafe extern "system" fn(*mut usize, u32, c_int) -> c_int;
        library.get::<Create>("cuCtxCreate_v2").unwrap()(&raw mut theirs, 0, 0)
    };
    assert_eq!(result, 0);
    assert_eq!(current_context(&library), theirs);
    work();
    assert_eq!(current_context(&library), theirs);
    // SAFETY: the context made above, which nothing uses any more.
    let result = unsafe {
        library.get::<unsafe extern "system" fn(usize) -> c_int>("cuCtxDestroy_v2").unwrap()(theirs)
    };
    assert_eq!(result, 0);
}
