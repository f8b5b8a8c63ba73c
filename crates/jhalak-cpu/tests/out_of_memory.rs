//! Work space that cannot be had is an error, and nothing has been written. Alone in its binary,
//! and one test, because the allocator is made to fail.

mod common;

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use common::case::Case;
use common::run::{Ask, engine, forward, gradient_shapes, upstream};
use common::strided::{Layout, Strided};
use jhalak_cpu::IsaKind;
use jhalak_problem::{
    Backward, BackwardInputs, DType, Error, Forward, Gradient, GradientTargets, OutOrDelta, Problem,
};

/// How many allocations of work space succeed before one fails; negative: all.
static LEFT: AtomicIsize = AtomicIsize::new(-1);

struct Failing;

// SAFETY: the system's allocator, or null, which every caller must expect.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc(memory) }
    }

    unsafe fn alloc_zeroed(&self, memory: Memory) -> *mut u8 {
        // Work space is zeroed and begins on a cache line; the standard library's is less aligned.
        if memory.align() == 64 && LEFT.load(Ordering::SeqCst) >= 0 {
            let left = LEFT.fetch_sub(1, Ordering::SeqCst);
            if left == 0 {
                return std::ptr::null_mut();
            }
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(memory) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, memory: Memory) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

fn write(grad: &mut Option<Strided>) -> Option<Gradient<'_>> {
    Some(Gradient::Write(grad.as_mut()?.view_mut()))
}

/// Fails the first allocation of work space, then the second, and so on, until `call` succeeds;
/// gives how many there are.
fn fail_each_allocation(mut call: impl FnMut() -> Result<(), Error>) -> usize {
    for n in 0.. {
        LEFT.store(n, Ordering::SeqCst);
        let result = call();
        let failed = LEFT.swap(-1, Ordering::SeqCst) < 0;
        match result {
            Ok(()) => {
                assert!(!failed, "allocation {n} failed, the call did not");
                return n as usize;
            }
            Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{n}: {error}"),
        }
    }
    unreachable!()
}

#[test]
fn a_call_without_memory_is_an_error_and_writes_nothing() {
    for isa in IsaKind::available() {
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            for threads in [1, 3] {
                let case = Case {
                    dtype,
                    bias: Some(([true, false, true, true], true)),
                    sinks: true,
                    softcap: 3.0,
                    dropout: Some(0.2),
                    unused: Some((3, 3)),
                    ..Case::dense(2, 150, 300, 2, 40)
                };
                let engine = engine(isa, threads);
                let tensors = case.tensors();
                let attention = case.attention(&tensors);
                let (q, k, v) = (tensors.q.view(), tensors.k.view(), tensors.v.view());
                let problem = Problem::new(&attention, q, k, v).unwrap();
                let untouched = |x: &Strided| x.values().iter().all(|x| x.is_nan());
                let poisoned =
                    |dtype, shape: &[usize]| Strided::poisoned(dtype, shape, &Layout::default());
                let count = fail_each_allocation(|| {
                    let mut out = poisoned(problem.out_dtype(), &problem.out_shape());
                    let mut lse = poisoned(problem.lse_dtype(), &problem.lse_shape());
                    let call = Forward::new(&problem, out.view_mut(), lse.view_mut()).unwrap();
                    let result = engine.forward(&call);
                    assert!(result.is_ok() || untouched(&out) && untouched(&lse));
                    result
                });
                assert!(count >= 3, "{isa} {dtype}: the allocator saw {count}");
                let attended = forward(&engine, &problem, &Layout::default());
                let (dout, dlse) = upstream(&problem, &Ask::default(), 1);
                let count = fail_each_allocation(|| {
                    let mut grads = gradient_shapes(&tensors)
                        .map(|shape| shape.map(|(shape, dtype)| poisoned(dtype, &shape)));
                    let [dq, dk, dv, dbias, dsinks] = &mut grads;
                    let mut targets = GradientTargets::default();
                    targets.dq = write(dq);
                    targets.dk = write(dk);
                    targets.dv = write(dv);
                    targets.dbias = write(dbias);
                    targets.dsinks = write(dsinks);
                    let inputs = BackwardInputs {
                        dout: dout.view(),
                        out: OutOrDelta::Out(attended.out.view()),
                        lse: attended.lse.view(),
                        dlse: dlse.as_ref().map(Strided::view),
                    };
                    let call = Backward::new(&problem, inputs, targets).unwrap();
                    let result = engine.backward(&call);
                    assert!(result.is_ok() || grads.iter().flatten().all(untouched));
                    result
                });
                assert!(count >= 3, "{isa} {dtype}: the allocator saw {count}");
            }
        }
    }
}
