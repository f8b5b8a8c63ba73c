//! Kernels are compiled once, by whoever comes first.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::fake::Fake;
use jhalak_cuda::driver::{Context, Error, Function, ModuleCache, Result};

fn load(context: &Context) -> Result<Function> {
    context.load_module("// ptx", 4)?.function("forward")
}

fn loads(fake: &Fake) -> usize {
    fake.work().iter().filter(|call| call.starts_with("cuModuleLoadDataEx")).count()
}

#[test]
fn threads_that_ask_for_the_same_kernel_compile_it_once() {
    let fake = Fake::new();
    let (context, cache) = (fake.context(), ModuleCache::new());
    fake.set("load_milliseconds", 50);
    let barrier = Barrier::new(8);
    let functions: Vec<Arc<Function>> = thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            cache.get_or_load(&context, "causal", load).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(functions.iter().all(|function| Arc::ptr_eq(function, &functions[0])));
    assert_eq!((loads(&fake), cache.len()), (1, 1));
}

#[test]
fn a_kernel_under_way_holds_up_no_other() {
    let fake = Fake::new();
    let (context, cache) = (fake.context(), ModuleCache::new());
    let (started, has_started) = mpsc::channel();
    let (finish, may_finish) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (cache, context) = (&cache, &context);
        let slow = scope.spawn(move || {
            cache.get_or_load(context, 1, |context| {
                started.send(()).unwrap();
                may_finish.recv_timeout(Duration::from_secs(60)).expect("the other waited for us");
                load(context)
            })
        });
        has_started.recv().unwrap();
        cache.get_or_load(context, 2, load).unwrap();
        finish.send(()).unwrap();
        slow.join().unwrap().unwrap();
    });
    assert_eq!((loads(&fake), cache.len()), (2, 2));
}

#[test]
fn devices_and_kernel_classes_have_entries_of_their_own() {
    let fake = Fake::new();
    let cache = ModuleCache::new();
    let driver = fake.open().unwrap();
    let contexts = [0, 1].map(|i| driver.device(i).unwrap().primary_context().unwrap());
    for context in contexts.iter().chain(&contexts) {
        for key in [("forward", 64), ("forward", 128)] {
            cache.get_or_load(context, key, load).unwrap();
        }
    }
    assert_eq!((loads(&fake), cache.len()), (4, 4));
}

#[test]
fn the_context_is_current_while_a_kernel_is_loaded_and_given_back() {
    let fake = Fake::new();
    let (context, cache) = (fake.context(), ModuleCache::new());
    cache.get_or_load(&context, 1, load).unwrap();
    let calls = fake.calls();
    assert_eq!(calls[0], "cuCtxPushCurrent_v2(0x124)");
    assert_eq!(calls.last().unwrap(), "cuCtxPopCurrent_v2(0x124)");
    assert_eq!(calls.len(), 4, "{calls:?}");
}

#[test]
fn a_failure_is_not_kept() {
    let fake = Fake::new();
    let (context, cache) = (fake.context(), ModuleCache::new());
    fake.set("cuModuleLoadDataEx", 2);
    let error = cache.get_or_load(&context, 1, load).unwrap_err();
    assert!(matches!(error, Error::Call { code: 2, .. }), "{error}");
    assert!(cache.is_empty());
    fake.set("cuModuleLoadDataEx", 0);
    cache.get_or_load(&context, 1, load).unwrap();
    assert_eq!(cache.len(), 1);
}

#[test]
fn a_panic_while_loading_spoils_nothing() {
    let fake = Fake::new();
    let (context, cache) = (fake.context(), ModuleCache::new());
    let panicking = || cache.get_or_load(&context, 1, |_| panic!("while loading"));
    let panicked = thread::scope(|scope| scope.spawn(panicking).join());
    assert!(panicked.is_err());
    cache.get_or_load(&context, 1, load).unwrap();
    assert_eq!((loads(&fake), cache.len()), (1, 1));
}

#[test]
fn a_cleared_cache_compiles_again_and_what_is_in_use_stays_loaded() {
    let fake = Fake::new();
    let (context, cache) = (fake.context(), ModuleCache::new());
    let unloads = |fake: &Fake| {
        fake.work().into_iter().filter(|call| call.starts_with("cuModuleUnload")).count()
    };
    let in_use = cache.get_or_load(&context, 1, load).unwrap();
    cache.get_or_load(&context, 2, load).unwrap();
    cache.clear();
    assert_eq!((unloads(&fake), cache.len()), (1, 0));
    drop(in_use);
    assert_eq!(unloads(&fake), 1);
    let calls = AtomicU32::new(0);
    let counted = |context: &Context| {
        calls.fetch_add(1, Ordering::Relaxed);
        load(context)
    };
    cache.get_or_load(&context, 1, counted).unwrap();
    cache.get_or_load(&context, 1, counted).unwrap();
    assert_eq!(calls.into_inner(), 1);
}
