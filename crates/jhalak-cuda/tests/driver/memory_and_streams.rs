//! Memory, streams, events and graphs: each call reaches the driver, and everything is given back.

use crate::common::fake::Fake;
use jhalak_cuda::driver::{Error, Stream};

#[test]
fn memory_is_freed_where_it_was_allocated() {
    let fake = Fake::new();
    let context = fake.context();
    let buffer = context.allocate(1000).unwrap();
    assert_eq!((buffer.address(), buffer.bytes()), (0x7000_0000, 1000));
    drop(buffer);
    assert_eq!(fake.work(), ["cuMemAlloc_v2(bytes=1000)", "cuMemFree_v2(address=1879048192)"]);

    // SAFETY: the fake driver looks at no handle.
    let stream = unsafe { Stream::borrow(&context, 77) };
    let buffer = stream.allocate(2000).unwrap();
    assert_eq!((buffer.address(), buffer.bytes()), (0x7100_0000, 2000));
    drop((stream, buffer));
    let expected =
        ["cuMemAllocAsync(bytes=2000 stream=77)", "cuMemFreeAsync(address=1895825408 stream=77)"];
    assert_eq!(fake.work(), expected);
}

#[test]
fn free_and_total_memory_are_not_mixed_up() {
    assert_eq!(Fake::new().context().memory().unwrap(), (5, 7));
}

#[test]
fn a_function_that_the_driver_lacks_is_an_error_when_it_is_needed() {
    let fake = Fake::lean();
    let context = fake.context();
    context.allocate(8).unwrap();
    let error = context.stream().unwrap().allocate(8).unwrap_err();
    assert_eq!(error, Error::MissingFunction { function: "cuMemAllocAsync" });
    assert!(error.to_string().contains("has no function cuMemAllocAsync"), "{error}");
}

#[test]
fn bytes_are_copied_and_filled() {
    let fake = Fake::new();
    let context = fake.context();
    // SAFETY: the fake driver looks at no handle.
    let stream = unsafe { Stream::borrow(&context, 77) };
    let mut host = [0; 3];
    // SAFETY: the fake driver touches host memory only, and at once.
    unsafe {
        context.copy_to_device(0x10, &[7, 8]).unwrap();
        context.copy_to_host(&mut host, 0x20).unwrap();
        assert_eq!(host, [1, 2, 3]);
        stream.copy_to_device(0x30, &[9]).unwrap();
        stream.copy_to_host(&mut host[1..], 0x40).unwrap();
        assert_eq!(host, [1, 1, 2]);
        stream.fill_bytes(0x50, 0xAB, 5).unwrap();
        stream.fill_words(0x60, 0x7fc0_0000, 6).unwrap();
    }
    let expected = [
        "cuMemcpyHtoD_v2(device=0x10 bytes=[7, 8])",
        "cuStreamSynchronize(stream=0)",
        "cuMemcpyDtoH_v2(device=0x20 bytes=[1, 2, 3])",
        "cuMemcpyHtoDAsync_v2(device=0x30 bytes=[9] stream=77)",
        "cuMemcpyDtoHAsync_v2(device=0x40 bytes=[1, 2] stream=77)",
        "cuMemsetD8Async(to=80 value=171 count=5 stream=77)",
        "cuMemsetD32Async(to=96 value=2143289344 count=6 stream=77)",
    ];
    assert_eq!(fake.work(), expected);
}

#[test]
fn an_own_stream_is_destroyed_with_its_last_clone_and_a_borrowed_one_never() {
    let fake = Fake::new();
    let context = fake.context();
    let stream = context.stream().unwrap();
    assert_eq!(stream.raw(), 16);
    let clone = stream.clone();
    drop(stream);
    clone.synchronize().unwrap();
    // SAFETY: the fake driver looks at no handle.
    let borrowed = unsafe { Stream::borrow(&context, 77) };
    borrowed.synchronize().unwrap();
    drop(borrowed);
    let expected = [
        "cuStreamCreate(flags=1)",
        "cuStreamSynchronize(stream=16)",
        "cuStreamSynchronize(stream=77)",
    ];
    assert_eq!(fake.work(), expected);
    drop(clone);
    assert_eq!(fake.work(), ["cuStreamDestroy_v2(stream=16)"]);
}

#[test]
fn events_are_recorded_waited_for_and_compared() {
    let fake = Fake::new();
    let context = fake.context();
    // SAFETY: the fake driver looks at no handle.
    let stream = unsafe { Stream::borrow(&context, 77) };
    let (start, end) = (context.event().unwrap(), context.event().unwrap());
    start.record(&stream).unwrap();
    end.synchronize().unwrap();
    assert_eq!(start.milliseconds_until(&end).unwrap(), 1.5);
    drop(start);
    let expected = [
        "cuEventCreate(flags=0)",
        "cuEventCreate(flags=0)",
        "cuEventRecord(event=16 stream=77)",
        "cuEventSynchronize(event=32)",
        "cuEventElapsedTime(start=16 end=32)",
        "cuEventDestroy_v2(event=16)",
    ];
    assert_eq!(fake.work(), expected);
}

#[test]
fn a_captured_graph_is_replayed_and_destroyed() {
    let fake = Fake::new();
    let context = fake.context();
    // SAFETY: the fake driver looks at no handle.
    let stream = unsafe { Stream::borrow(&context, 77) };
    // SAFETY: as above; nothing is written.
    let graph = stream.capture(|| unsafe { stream.fill_bytes(0, 1, 2) }).unwrap();
    let mut executable = graph.instantiate().unwrap();
    // SAFETY: as above.
    unsafe { executable.launch(&stream).unwrap() };
    drop(executable);
    let expected = [
        "cuStreamBeginCapture_v2(stream=77 mode=1)",
        "cuMemsetD8Async(to=0 value=1 count=2 stream=77)",
        "cuStreamEndCapture(stream=77)",
        "cuGraphInstantiateWithFlags(graph=16 flags=0)",
        "cuGraphDestroy(graph=16)",
        "cuGraphLaunch(executable=32 stream=77)",
        "cuGraphExecDestroy(executable=32)",
    ];
    assert_eq!(fake.work(), expected);
}

#[test]
fn a_capture_ends_also_when_its_work_fails() {
    let fake = Fake::new();
    let context = fake.context();
    // SAFETY: the fake driver looks at no handle.
    let stream = unsafe { Stream::borrow(&context, 77) };
    fake.set("cuMemsetD8Async", 900);
    // SAFETY: as above; nothing is written.
    let error = stream.capture(|| unsafe { stream.fill_bytes(0, 1, 2) }).unwrap_err();
    assert!(matches!(error, Error::Call { function: "cuMemsetD8Async", code: 900, .. }), "{error}");
    assert_eq!(fake.work()[2..], ["cuStreamEndCapture(stream=77)", "cuGraphDestroy(graph=16)"]);

    fake.set("cuMemsetD8Async", 0);
    fake.set("cuStreamEndCapture", 901);
    let error = stream.capture(|| Ok(())).unwrap_err();
    let function = "cuStreamEndCapture";
    assert!(
        matches!(error, Error::Call { function: f, code: 901, .. } if f == function),
        "{error}"
    );
}
