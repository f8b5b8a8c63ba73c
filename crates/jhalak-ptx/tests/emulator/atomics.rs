//! Atomic operations: every lane's change counts, whatever the order.

use jhalak_ptx::emulator::{Launch, Memory};
use jhalak_ptx::{AtomicOperator, AtomicOrder, KernelBuilder, Scope};

use crate::{for_seeds, module};

const THREADS: u32 = 3 * 64;

/// Runs a kernel of 3 blocks of 64 threads on one place of 16 bytes.
fn changed(
    first: [u32; 4],
    body: impl FnOnce(&mut KernelBuilder, jhalak_ptx::B64, jhalak_ptx::B32),
    check: impl Fn([u32; 4]) + Sync,
) {
    let module = module(|k| {
        let place = k.param_pointer("place", 16);
        let place = k.ld_param(place);
        let (thread, block) = (k.tid_x(), k.ctaid_x());
        let index = k.mad_lo_u32(block, 64, thread);
        body(k, place, index);
    });
    for_seeds(|seed| {
        let mut memory = Memory::new();
        let place = memory.alloc(&first);
        let launch = Launch::new(&module, "kernel").grid(3, 1, 1).block(64).seed(seed);
        launch.arg(place).run(&mut memory)?;
        let words = memory.read::<u32>(place, 4)?;
        check([words[0], words[1], words[2], words[3]]);
        Ok(())
    });
}

const RELAXED: (AtomicOrder, Scope) = (AtomicOrder::Relaxed, Scope::Gpu);

#[test]
fn sums_extrema_and_counters_have_every_lane() {
    let (order, scope) = RELAXED;
    changed(
        [5, 50, 3, 0],
        |k, place, index| {
            k.red_u32(AtomicOperator::Add, place, index, order, scope);
            k.red_u32(AtomicOperator::Min, (place, 4), index, order, scope);
            k.red_s32(AtomicOperator::Max, (place, 8), index, order, scope);
            k.red_u32(AtomicOperator::Inc, (place, 12), 99, order, scope);
        },
        |words| {
            let sum: u32 = (0..THREADS).sum();
            assert_eq!(words, [5 + sum, 0, THREADS - 1, THREADS % 100]);
        },
    );
}

#[test]
fn a_compare_and_swap_loop_loses_nothing() {
    changed(
        [0, 0, 0, 0],
        |k, place, _| {
            k.loop_(|k, this| {
                let (order, scope) = RELAXED;
                let old = k.atom_u32(AtomicOperator::Or, place, 0, order, scope);
                let new = k.add_u32(old, 3);
                let seen = k.atom_cas_b32(place, old, new, order, scope);
                let done = k.setp_u32(jhalak_ptx::Comparison::Eq, seen, old);
                k.break_if(this, done);
            });
        },
        |words| assert_eq!(words[0], 3 * THREADS),
    );
}

#[test]
fn floats_are_added_alone_in_fours_and_in_pairs() {
    let (order, scope) = RELAXED;
    changed(
        [0; 4],
        |k, place, _| {
            let one = k.mov_f32(1.0);
            k.red_add_v4_f32(place, [one; 4], scope, None);
            k.red_add_f32((place, 4), one, order, scope);
        },
        |words| {
            let floats = words.map(f32::from_bits);
            let count = THREADS as f32;
            assert_eq!(floats, [count, 2.0 * count, count, count]);
        },
    );
    changed(
        [0; 4],
        |k, place, _| {
            let ones = k.mov_b32(0x4000_3c00);
            k.red_add_f16x2(place, ones, scope);
        },
        |words| {
            let halves = [words[0] as u16, (words[0] >> 16) as u16];
            let [low, high] = halves.map(|bits| half::f16::from_bits(bits).to_f32());
            assert_eq!([low, high], [THREADS as f32, 2.0 * THREADS as f32]);
        },
    );
}
