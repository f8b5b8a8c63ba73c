//! The calling thread's context is as it was, whatever jhalak did in between.

use crate::common::fake::Fake;
use jhalak_cuda::driver::Error;

const PUSH_OWN: &str = "cuCtxPushCurrent_v2(0x124)";
const POP_OWN: &str = "cuCtxPopCurrent_v2(0x124)";

#[test]
fn the_primary_context_is_retained_once_and_released_with_the_last_clone() {
    let fake = Fake::new();
    let device = fake.open().unwrap().device(0).unwrap();
    fake.calls();
    let context = device.primary_context().unwrap();
    assert_eq!(context.raw(), 0x124);
    let clone = context.clone();
    drop(context);
    assert_eq!(fake.calls(), ["cuDevicePrimaryCtxRetain(device=100)"]);
    drop(clone);
    assert_eq!(fake.calls(), ["cuDevicePrimaryCtxRelease_v2(device=100)"]);
}

#[test]
fn a_thread_without_a_context_has_none_afterwards() {
    let fake = Fake::new();
    let context = fake.context();
    context.memory().unwrap();
    assert_eq!(fake.calls(), [PUSH_OWN, "cuMemGetInfo_v2()", POP_OWN]);
}

#[test]
fn a_guard_makes_the_context_current_for_all_calls_until_it_ends() {
    let fake = Fake::new();
    let context = fake.context();
    {
        let _current = context.enter().unwrap();
        let _again = context.enter().unwrap();
        context.memory().unwrap();
    }
    context.memory().unwrap();
    let (work, again) = ("cuMemGetInfo_v2()", "cuMemGetInfo_v2()");
    assert_eq!(fake.calls(), [PUSH_OWN, work, POP_OWN, PUSH_OWN, again, POP_OWN]);
}

#[test]
fn another_devices_context_is_current_again_after_a_call() {
    let fake = Fake::new();
    let context = fake.context();
    let other = fake.open().unwrap().device(1).unwrap().primary_context().unwrap();
    fake.calls();
    let theirs = other.enter().unwrap();
    context.memory().unwrap();
    other.memory().unwrap();
    drop(theirs);
    let work = "cuMemGetInfo_v2()";
    let (push, pop) = ("cuCtxPushCurrent_v2(0x125)", "cuCtxPopCurrent_v2(0x125)");
    assert_eq!(fake.calls(), [push, PUSH_OWN, work, POP_OWN, work, pop]);
}

#[test]
fn a_call_that_fails_gives_the_context_back_too() {
    let fake = Fake::new();
    let context = fake.context();
    fake.set("cuMemAlloc_v2", 2);
    let error = context.allocate(1 << 40).unwrap_err();
    let text = "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (in words)";
    assert_eq!(error.to_string(), text);
    assert_eq!(fake.calls(), [PUSH_OWN, "cuMemAlloc_v2(bytes=1099511627776)", POP_OWN]);
}

#[test]
fn each_thread_has_its_own_current_context() {
    let fake = Fake::new();
    let context = fake.context();
    let _current = context.enter().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| context.memory().unwrap());
    });
    context.memory().unwrap();
    let work = "cuMemGetInfo_v2()";
    assert_eq!(fake.calls(), [PUSH_OWN, PUSH_OWN, work, POP_OWN, work]);
}

#[test]
fn a_context_that_cannot_be_entered_is_an_error_and_nothing_is_done() {
    let fake = Fake::new();
    let context = fake.context();
    fake.set("cuCtxGetCurrent", 3);
    let error = context.memory().unwrap_err();
    assert!(matches!(error, Error::Call { function: "cuCtxGetCurrent", code: 3, .. }), "{error}");
    assert_eq!(fake.calls(), [""; 0]);
}
