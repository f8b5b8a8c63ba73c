//! Barriers in shared memory.

use super::case::{Form, SM80, SM90, Versions};

const SM80_IN_7_1: Versions = ["-", "7.1", "7.8", "8.0"];

pub fn forms() -> Vec<Form> {
    vec![
        Form::new(SM80, "mbarrier.init.shared.b64 [%r0+8], 2;", |k, i| {
            k.mbarrier_init((i.r[0], 8), 2);
        }),
        Form::new(SM80, "mbarrier.init.shared.b64 [form_static+8], %r0;", |k, i| {
            let barriers = k.static_shared("barriers", 16, 8);
            k.mbarrier_init((barriers, 8), i.r[0]);
        }),
        Form::new(SM80, "mbarrier.inval.shared.b64 [%r0];", |k, i| k.mbarrier_inval(i.r[0])),
        Form::new(SM80_IN_7_1, "mbarrier.arrive.shared.b64 _, [%r0];", |k, i| {
            k.mbarrier_arrive(i.r[0]);
        }),
        Form::new(SM90, "mbarrier.arrive.expect_tx.shared.b64 _, [%r0], 16384;", |k, i| {
            k.mbarrier_arrive_expect_tx(i.r[0], 16384);
        }),
        Form::new(SM90, "mbarrier.arrive.expect_tx.shared.b64 _, [%r0], %r1;", |k, i| {
            k.mbarrier_arrive_expect_tx(i.r[0], i.r[1]);
        }),
        Form::new(SM90, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], %r1;", |k, i| {
            k.mbarrier_expect_tx(i.r[0], i.r[1]);
        }),
        Form::new(SM80_IN_7_1, "mbarrier.test_wait.parity.shared.b64 %p4, [%r0], %r1;", |k, i| {
            k.mbarrier_test_wait(i.r[0], i.r[1]);
        }),
        Form::new(SM90, "mbarrier.try_wait.parity.shared.b64 %p4, [%r0], 1;", |k, i| {
            k.mbarrier_try_wait(i.r[0], 1);
        }),
        Form::new(SM80, "cp.async.mbarrier.arrive.noinc.shared.b64 [%r0];", |k, i| {
            k.cp_async_mbarrier_arrive(i.r[0]);
        }),
    ]
}
