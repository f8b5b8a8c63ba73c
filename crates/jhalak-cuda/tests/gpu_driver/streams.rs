//! Memory, streams, events, graphs and threads.

use std::sync::Arc;

use jhalak_cuda::driver::{Context, Error, ModuleCache, Stream};

use crate::shared::{BASICS, add_number, basic, download, fresh, gpu, upload, words};

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn memory_comes_back_as_it_went() {
    let context = gpu();
    let stream = context.stream().unwrap();
    let sent: Vec<u32> = (0..1 << 20).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
    let buffer = upload(&context, &sent);
    assert_eq!(buffer.address() % 256, 0);
    assert_eq!(download(&stream, &buffer), sent);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_stream_copies_and_fills_in_order() {
    let context = gpu();
    let stream = context.stream().unwrap();
    let buffer = stream.allocate(4096).unwrap();
    let (sent, mut received) = ([0x11u8; 4096], [0u8; 4096]);
    let start = buffer.address();
    // SAFETY: the ranges lie in the buffer; the host's arrays live until the stream is done.
    unsafe {
        stream.copy_to_device(start, &sent).unwrap();
        stream.fill_bytes(start + 4, 0x22, 5).unwrap();
        stream.fill_words(start + 16, 0x3344_5566, 2).unwrap();
        stream.copy_to_host(&mut received, start).unwrap();
    }
    stream.synchronize().unwrap();
    drop(buffer);
    let found = words(&received);
    let expected = [0x1111_1111, 0x2222_2222, 0x1111_1122, 0x1111_1111, 0x3344_5566, 0x3344_5566];
    assert_eq!(found[..6], expected);
    assert!(found[6..].iter().all(|word| *word == 0x1111_1111));
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn more_memory_than_there_is_is_an_error() {
    let context = gpu();
    let (_, total) = context.memory().unwrap();
    let error = context.allocate(2 * total).unwrap_err();
    assert!(error.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
    context.allocate(1024).unwrap();
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn the_default_stream_can_be_borrowed() {
    let context = gpu();
    // SAFETY: stream 0 is there for as long as the context.
    let stream = unsafe { Stream::borrow(&context, 0) };
    let buffer = upload(&context, &[1; 128]);
    add_number(&basic(&context, "add_number"), &stream, &buffer, 41);
    assert_eq!(download(&stream, &buffer), [42; 128]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn events_measure_time() {
    let context = gpu();
    let stream = context.stream().unwrap();
    let [start, end, never] = [(); 3].map(|()| context.event().unwrap());
    let buffer = context.allocate(256 << 20).unwrap();
    start.record(&stream).unwrap();
    // SAFETY: the whole buffer, which lives on.
    unsafe { stream.fill_words(buffer.address(), 7, buffer.bytes() / 4).unwrap() };
    end.record(&stream).unwrap();
    end.synchronize().unwrap();
    let milliseconds = start.milliseconds_until(&end).unwrap();
    println!("filling 256 MiB took {milliseconds} ms");
    assert!(milliseconds > 0.01 && milliseconds < 1000.0);
    let error = start.milliseconds_until(&never).unwrap_err();
    assert!(matches!(error, Error::Call { function: "cuEventElapsedTime", .. }), "{error}");
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_captured_graph_runs_as_often_as_it_is_launched() {
    let context = gpu();
    let (function, stream) = (basic(&context, "add_number"), context.stream().unwrap());
    let buffer = upload(&context, &[0; 1024]);
    let capture = || {
        add_number(&function, &stream, &buffer, 3);
        add_number(&function, &stream, &buffer, 4);
        Ok(())
    };
    let mut graph = stream.capture(capture).unwrap().instantiate().unwrap();
    assert_eq!(download(&stream, &buffer), [0; 1024], "capturing runs nothing");
    for _ in 0..10 {
        // SAFETY: the module and the buffer live.
        unsafe { graph.launch(&stream).unwrap() };
    }
    assert_eq!(download(&stream, &buffer), [70; 1024]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn what_cannot_be_captured_is_an_error_and_the_stream_works_on() {
    let context = gpu();
    let (function, stream) = (basic(&context, "add_number"), context.stream().unwrap());
    let buffer = upload(&context, &[0; 128]);
    let error = stream.capture(|| stream.synchronize()).unwrap_err();
    assert!(error.to_string().contains("CUDA_ERROR_STREAM_CAPTURE"), "{error}");
    add_number(&function, &stream, &buffer, 5);
    assert_eq!(download(&stream, &buffer), [5; 128]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn threads_share_a_kernel_that_is_compiled_once() {
    let context = gpu();
    let (cache, ptx) = (ModuleCache::new(), fresh(BASICS));
    let worker = |number: u32| {
        let load = |context: &Context| context.load_module(&ptx, 4)?.function("add_number");
        let function = cache.get_or_load(&context, "add_number", load).unwrap();
        let stream = context.stream().unwrap();
        let buffer = upload(&context, &[number; 1 << 16]);
        for _ in 0..100 {
            add_number(&function, &stream, &buffer, number);
        }
        assert_eq!(download(&stream, &buffer), [101 * number; 1 << 16]);
        function
    };
    let functions = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4).map(|i| scope.spawn(move || worker(i))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(functions.iter().all(|function| Arc::ptr_eq(function, &functions[0])));
    assert_eq!(cache.len(), 1);
    cache.clear();
    assert!(cache.is_empty());
}
