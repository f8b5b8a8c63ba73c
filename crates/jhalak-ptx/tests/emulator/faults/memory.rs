//! Accesses where nothing is, that are not aligned, or of what nobody wrote.

use jhalak_ptx::emulator::{Fault, Launch, Memory, Space};
use jhalak_ptx::{Access, B32, F32, Order};

use super::{BYTES, assert_found, reports};
use crate::module;

#[test]
fn a_load_beyond_the_end_is_out_of_bounds() {
    let reports = reports(32, |k, input, output| {
        let thread = k.tid_x();
        let place = k.mad_wide_u32(thread, 4, input);
        let value: B32 = k.ld((place, BYTES as u32 - 31 * 4));
        let place = k.mad_wide_u32(thread, 4, output);
        k.st(place, value);
    });
    assert_good_lane(&reports);
    assert_found(&reports, "ld.global.b32 %r", |fault| {
        matches!(fault, Fault::OutOfBounds { space: Space::Global, bytes: 4, .. })
    });
}

fn assert_good_lane(reports: &[Result<(), jhalak_ptx::emulator::Report>]) {
    let place = reports[0].as_ref().expect_err("found").place.as_ref().expect("a place");
    assert_eq!(place.lane, Some(31), "only the last lane is outside");
    assert!(place.location.file().ends_with("memory.rs"), "{}", place.location);
}

#[test]
fn a_store_before_the_begin_is_out_of_bounds() {
    let reports = reports(32, |k, _, output| {
        let value = k.mov_b32(0);
        k.st((output, -4), value);
    });
    assert_found(&reports, "st.global", |fault| matches!(fault, Fault::OutOfBounds { .. }));
}

#[test]
fn shared_memory_ends_where_its_regions_end() {
    let reports = reports(32, |k, _, _| {
        let tile = k.static_shared("tile", 128, 16);
        let thread = k.tid_x();
        let base = k.shared_address(tile);
        let place = k.mad_lo_u32(thread, 8, base);
        k.st(place, thread);
    });
    assert_found(&reports, "st.shared", |fault| {
        matches!(fault, Fault::OutOfBounds { space: Space::Shared, .. })
    });
}

#[test]
fn a_vector_that_is_not_aligned_is_reported() {
    let reports = reports(1, |k, input, output| {
        let values: [F32; 4] = k.ld_vector((input, 8));
        k.st_vector(output, values);
    });
    assert_found(&reports, "ld.global.v4", |fault| {
        matches!(fault, Fault::Misaligned { align: 16, .. })
    });
}

#[test]
fn shared_memory_begins_without_values() {
    let reports = reports(32, |k, _, output| {
        let tile = k.static_shared("tile", 128, 16);
        let value: B32 = k.ld((tile, 64));
        k.st(output, value);
    });
    assert_found(&reports, "ld.shared", |fault| {
        matches!(fault, Fault::Uninitialised { space: Space::Shared, .. })
    });
}

#[test]
fn a_register_without_a_value_is_reported_where_it_is_read() {
    let reports = reports(32, |k, _, output| {
        let never: B32 = k.register();
        let sum = k.add_u32(never, 1);
        k.st(output, sum);
    });
    assert_found(&reports, "add.u32", |fault| matches!(fault, Fault::UnsetRegister { .. }));
}

#[test]
fn nobody_may_use_a_quotient_by_zero() {
    let reports = reports(32, |k, _, output| {
        let thread = k.tid_x();
        let quotient = k.div_u32(7, thread);
        let place = k.mad_wide_u32(thread, 4, output);
        k.st(place, quotient);
    });
    assert_found(&reports, "st.global", |fault| matches!(fault, Fault::UnsetRegister { .. }));
}

#[test]
fn what_is_read_as_constant_may_not_be_written() {
    let reports = reports(32, |k, input, _| {
        let thread = k.tid_x();
        let place = k.mad_wide_u32(thread, 4, input);
        let value: [B32; 1] = k.registers();
        k.ld_with(value, place, Access::new(Order::ReadOnly));
        k.st(place, value[0]);
    });
    assert_found(&reports, "st.global", |fault| matches!(fault, Fault::ReadOnlyWritten { .. }));
}

#[test]
fn a_launch_keeps_what_the_kernel_was_promised() {
    let module = module(|k| {
        k.reqntid(64);
        k.dynamic_shared("tile", 256, 16);
        k.param_pointer("values", 16);
    });
    let launch = || Launch::new(&module, "kernel").block(64).dynamic_shared(256);
    let refused = |launch: Launch<'_>| {
        let report = launch.run(&mut Memory::new()).expect_err("it was launched");
        let Fault::Launch(why) = report.fault else { panic!("{report}") };
        why
    };
    assert!(launch().arg(256u64).run(&mut Memory::new()).is_ok());
    let cases = [
        (launch().arg(256u64).block(32), "32 threads, 64 were promised"),
        (launch().arg(256u64).block(0), "a block of 0 threads; it has 1 to 1024"),
        (launch().arg(256u64).grid(2, 0, 1), "a grid of 2 x 0 x 1 blocks; it has 1 to 2^32 - 1"),
        (
            launch().arg(256u64).grid(65536, 65536, 1),
            "a grid of 65536 x 65536 x 1 blocks; it has 1 to 2^32 - 1",
        ),
        (
            launch().arg(256u64).dynamic_shared(128),
            "128 bytes of dynamic shared memory, 256 are needed",
        ),
        (launch(), "0 arguments for 1 parameters"),
        (
            launch().arg(264u64),
            "argument `values` is the u64 0x108, it must be a pointer (u64), a multiple of 16",
        ),
        (
            launch().arg(1.0f32),
            "argument `values` is the f32 1, it must be a pointer (u64), a multiple of 16",
        ),
    ];
    for (launch, why) in cases {
        assert_eq!(refused(launch), why);
    }
}
