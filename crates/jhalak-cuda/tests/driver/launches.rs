//! What reaches the driver when a kernel is launched.

use crate::common::fake::Fake;
use jhalak_cuda::driver::{
    Arguments, Error, Function, Launch, MAX_ARGUMENTS, Stream, Swizzle, TensorMapType, TiledTensor,
};

/// A kernel and a borrowed stream, number 77.
fn kernel(fake: &Fake) -> (Function, Stream) {
    let context = fake.context();
    let function = context.load_module("", 4).unwrap().function("k").unwrap();
    fake.calls();
    // SAFETY: the fake driver looks at no handle.
    (function, unsafe { Stream::borrow(&context, 77) })
}

fn launch(function: &Function, stream: &Stream, launch: Launch, arguments: &Arguments) {
    // SAFETY: the fake driver reads the arguments with the sizes that the test has set.
    unsafe { function.launch(stream, &launch, arguments).unwrap() };
}

#[test]
fn the_shape_the_stream_and_the_attribute_arrive() {
    let fake = Fake::new();
    let (function, stream) = kernel(&fake);
    let shape = Launch::new([5, 6, 7], [128, 2, 1]);
    launch(&function, &stream, shape, &Arguments::new());
    launch(&function, &stream, shape.shared_bytes(9000).overlaps_previous(), &Arguments::new());
    let text = "cuLaunchKernelEx(function=32 grid=[5, 6, 7] block=[128, 2, 1]";
    let plain = format!("{text} shared=0 stream=77 extra=0)");
    let overlapping = format!("{text} shared=9000 stream=77 extra=0 attribute[6]=1)");
    assert_eq!(fake.work(), [plain, overlapping]);
}

#[test]
fn arguments_arrive_in_order_byte_by_byte_and_aligned() {
    let fake = Fake::new();
    let (function, stream) = kernel(&fake);
    fake.set_text("argument_sizes", "4 8 4 4 128 4 8");
    let map = TiledTensor {
        dtype: TensorMapType::Bf16,
        address: 0x1000,
        dims: &[64],
        strides: &[],
        tile: &[64],
        swizzle: Swizzle::None,
        fill_nan: false,
    };
    let map = map.encode(&fake.context()).unwrap();
    fake.calls();
    let mut arguments = Arguments::new();
    arguments.u32(0x01020304).pointer(0x1122_3344_5566_7788).f32(1.0).i32(-2);
    arguments.tensor_map(&map).u32(7).u64(9);
    assert_eq!(arguments.len(), 7);
    // Moved and copied, it must not point to where it was.
    let arguments = Box::new(arguments.clone());
    launch(&function, &stream, Launch::new([1, 1, 1], [32, 1, 1]), &arguments);
    let map: String = (0..128).rev().map(|byte| format!("{byte:02x}")).collect();
    let words = format!(" 01020304 1122334455667788 3f800000 fffffffe {map} 00000007 {:016x})", 9);
    let call = fake.work().remove(0);
    assert!(call.ends_with(&words), "{call}");
}

#[test]
fn as_many_arguments_fit_as_promised() {
    let fake = Fake::new();
    let (function, stream) = kernel(&fake);
    fake.set_text("argument_sizes", &"4 ".repeat(MAX_ARGUMENTS));
    let mut arguments = Arguments::new();
    for i in 0..MAX_ARGUMENTS as u32 {
        arguments.u32(i);
    }
    launch(&function, &stream, Launch::new([1, 1, 1], [32, 1, 1]), &arguments);
    let numbers: String = (0..MAX_ARGUMENTS).map(|i| format!(" {i:08x}")).collect();
    let call = fake.work().remove(0);
    assert!(call.ends_with(&format!("{numbers})")), "{call}");
}

#[test]
#[should_panic(expected = "a launch takes at most 128 arguments and 2048 bytes of them")]
fn one_argument_too_many_panics() {
    let mut arguments = Arguments::new();
    for i in 0..=MAX_ARGUMENTS as u32 {
        arguments.u32(i);
    }
}

#[test]
fn a_launch_outside_a_guard_makes_the_context_current_and_gives_it_back() {
    let fake = Fake::new();
    let (function, stream) = kernel(&fake);
    launch(&function, &stream, Launch::new([1, 1, 1], [32, 1, 1]), &Arguments::new());
    let calls: Vec<_> = fake.calls().iter().map(|call| call[..10].to_owned()).collect();
    assert_eq!(calls, ["cuCtxPushC", "cuLaunchKe", "cuCtxPopCu"]);
}

#[test]
fn a_launch_that_fails_names_the_drivers_error() {
    let fake = Fake::new();
    let (function, stream) = kernel(&fake);
    fake.set("cuLaunchKernelEx", 701);
    let shape = Launch::new([1, 1, 1], [2048, 1, 1]);
    // SAFETY: the fake driver launches nothing.
    let error = unsafe { function.launch(&stream, &shape, &Arguments::new()) }.unwrap_err();
    assert!(matches!(error, Error::Call { function: "cuLaunchKernelEx", code: 701, .. }));
}
