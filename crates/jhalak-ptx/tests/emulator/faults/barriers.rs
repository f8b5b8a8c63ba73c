//! Barriers that are missing, miscounted, or not reached.

use jhalak_ptx::Comparison::{Eq, Lt, Ne};
use jhalak_ptx::emulator::Fault;
use jhalak_ptx::{
    Access, AtomicOperator, AtomicOrder, B32, FenceOrder, KernelBuilder, Order, Scope,
};

use super::{assert_found, assert_good, is_race, reports, reports_of_grid};

/// Each thread writes a word, and reads that of the thread 32 further.
fn exchange(k: &mut KernelBuilder, output: jhalak_ptx::B64, between: fn(&mut KernelBuilder)) {
    let tile = k.static_shared("tile", 256, 16);
    let base = k.shared_address(tile);
    let thread = k.tid_x();
    let own = k.mad_lo_u32(thread, 4, base);
    k.st(own, thread);
    between(k);
    let other = k.xor_b32(thread, 32);
    let place = k.mad_lo_u32(other, 4, base);
    let value: B32 = k.ld(place);
    let place = k.mad_wide_u32(thread, 4, output);
    k.st(place, value);
}

#[test]
fn a_missing_barrier_is_a_race_or_a_read_of_nothing() {
    let reports = reports(64, |k, _, output| exchange(k, output, |_| {}));
    assert_found(&reports, "ld.shared", |fault| {
        is_race(fault) || matches!(fault, Fault::Uninitialised { .. })
    });
}

#[test]
fn a_barrier_of_the_block_orders_an_exchange() {
    assert_good(&reports(64, |k, _, output| exchange(k, output, |k| k.bar_sync_all())));
}

#[test]
fn a_barrier_of_the_warp_does_not_order_other_warps() {
    let reports = reports(64, |k, _, output| exchange(k, output, |k| k.bar_warp_sync()));
    assert_found(&reports, "ld.shared", |fault| {
        is_race(fault) || matches!(fault, Fault::Uninitialised { .. })
    });
}

#[test]
fn a_barrier_in_a_diverged_branch_is_reported() {
    let reports = reports(64, |k, _, _| {
        let thread = k.tid_x();
        let low = k.setp_u32(Lt, thread, 16);
        k.if_(low, |k| k.bar_sync_all());
    });
    assert_found(&reports, "bar.sync", |fault| {
        matches!(fault, Fault::Diverged { active: 0xffff, expected: u32::MAX })
    });
}

#[test]
fn warps_must_agree_on_the_count_of_a_named_barrier() {
    let reports = reports(64, |k, _, _| {
        let thread = k.tid_x();
        let low = k.setp_u32(Lt, thread, 32);
        k.if_else(low, |k| k.bar_sync(1, 64), |k| k.bar_sync(1, 32));
    });
    assert_found(&reports, "bar.sync 1", |fault| {
        matches!(fault, Fault::BarrierCount { id: 1, .. } | Fault::Deadlock { .. })
    });
}

#[test]
fn a_named_barrier_that_waits_for_too_many_is_a_deadlock() {
    let reports = reports(64, |k, _, _| {
        let thread = k.tid_x();
        let low = k.setp_u32(Lt, thread, 32);
        k.if_(low, |k| k.bar_sync(2, 64));
    });
    assert_found(&reports, "bar.sync 2, 64", |fault| matches!(fault, Fault::Deadlock { .. }));
}

#[test]
fn two_roles_that_wait_for_each_other_are_a_deadlock_that_names_both() {
    let reports = reports(64, |k, _, _| {
        let thread = k.tid_x();
        let low = k.setp_u32(Lt, thread, 32);
        k.role(low, |k| {
            k.bar_sync(1, 64);
            k.bar_arrive(2, 64);
        });
        k.bar_sync(2, 64);
        k.bar_arrive(1, 64);
    });
    assert_found(&reports, "bar.sync 1, 64", |fault| match fault {
        Fault::Deadlock { waiting } => waiting.len() == 2,
        _ => false,
    });
}

#[test]
fn waiting_for_what_nobody_writes_is_a_deadlock() {
    let reports = reports(32, |k, input, _| {
        k.loop_(|k, this| {
            let (order, scope) = (AtomicOrder::Acquire, Scope::Gpu);
            let seen = k.atom_u32(AtomicOperator::Or, input, 0, order, scope);
            let done = k.setp_u32(Eq, seen, 5);
            k.break_if(this, done);
        });
    });
    assert_found(&reports, "", |fault| matches!(fault, Fault::Deadlock { .. }));
}

/// Block 0 writes a word and raises a flag; block 1 waits for the flag and reads.
fn message(
    k: &mut KernelBuilder,
    input: jhalak_ptx::B64,
    output: jhalak_ptx::B64,
    orders: [AtomicOrder; 2],
) {
    let block = k.ctaid_x();
    let writes = k.setp_u32(Eq, block, 0);
    k.role(writes, |k| {
        let value = k.mov_b32(7);
        k.st(output, value);
        k.red_u32(AtomicOperator::Add, input, 1, orders[0], Scope::Gpu);
    });
    k.loop_(|k, this| {
        let seen = k.atom_u32(AtomicOperator::Or, input, 0, orders[1], Scope::Gpu);
        let done = k.setp_u32(Eq, seen, 2);
        k.break_if(this, done);
    });
    let value: B32 = k.ld(output);
    k.st((output, 4), value);
}

#[test]
fn a_release_and_an_acquire_order_two_blocks() {
    use AtomicOrder::{Acquire, Relaxed, Release};
    let run = |orders| reports_of_grid(2, 1, |k, input, output| message(k, input, output, orders));
    // Where only one block is resident at a time, the reader may come first and wait in vain.
    let waits = |report: &Result<(), jhalak_ptx::emulator::Report>| match report {
        Err(report) => matches!(report.fault, Fault::Deadlock { .. }),
        Ok(()) => false,
    };
    let mut good = run([Release, Acquire]);
    good.retain(|report| !waits(report));
    assert!(good.len() > 10);
    assert_good(&good);
    for orders in [[Relaxed, Acquire], [Release, Relaxed]] {
        let mut bad = run(orders);
        bad.retain(|report| !waits(report));
        assert_found(&bad, "ld.global", is_race);
    }
}

/// As [`message`], by plain strong accesses; fences on one side or both.
fn fenced_message(
    k: &mut KernelBuilder,
    input: jhalak_ptx::B64,
    output: jhalak_ptx::B64,
    fences: [bool; 2],
) {
    let strong = Access::new(Order::Relaxed(Scope::Gpu));
    let block = k.ctaid_x();
    let writes = k.setp_u32(Eq, block, 0);
    k.role(writes, |k| {
        let value = k.mov_b32(7);
        k.st(output, value);
        if fences[0] {
            k.fence(FenceOrder::AcqRel, Scope::Gpu);
        }
        k.st_with(input, [value], strong);
    });
    let seen: [B32; 1] = k.registers();
    k.do_while(|k| {
        k.ld_with(seen, input, strong);
        k.setp_u32(Ne, seen[0], 7)
    });
    if fences[1] {
        k.fence(FenceOrder::AcqRel, Scope::Gpu);
    }
    let value: B32 = k.ld(output);
    k.st((output, 4), value);
}

#[test]
fn fences_on_both_sides_order_two_blocks_too() {
    let run = |fences| {
        let reports =
            reports_of_grid(2, 1, |k, input, output| fenced_message(k, input, output, fences));
        let waits = |report: &Result<(), jhalak_ptx::emulator::Report>| match report {
            Err(report) => matches!(report.fault, Fault::Deadlock { .. }),
            Ok(()) => false,
        };
        reports.into_iter().filter(|report| !waits(report)).collect::<Vec<_>>()
    };
    assert_good(&run([true, true]));
    for fences in [[false, true], [true, false]] {
        assert_found(&run(fences), "ld.global", is_race);
    }
}

#[test]
fn a_loop_without_an_end_is_given_up() {
    let module = crate::module(|k| {
        k.loop_(|k, _| {
            k.tid_x();
        });
    });
    let launch = jhalak_ptx::emulator::Launch::new(&module, "kernel").step_limit(1000);
    let report = launch.run(&mut jhalak_ptx::emulator::Memory::new()).expect_err("no end");
    assert_eq!(report.fault, Fault::StepLimit { steps: 1000 });
    assert!(report.place.is_some(), "{report}");
}
