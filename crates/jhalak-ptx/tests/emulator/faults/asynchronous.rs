//! Asynchronous copies and products that somebody did not wait for.

use jhalak_ptx::Comparison::Eq;
use jhalak_ptx::emulator::Fault;
use jhalak_ptx::{AsyncMemory, B32, F32, KernelBuilder, MatrixLayout, Region, Swizzle};

use super::{assert_found, assert_good, is_race, reports};
use crate::matrix_product::{self, Without};
use crate::module;

/// Each lane copies 16 bytes, and reads them.
fn copy(k: &mut KernelBuilder, input: jhalak_ptx::B64, between: fn(&mut KernelBuilder)) -> B32 {
    let tile = k.static_shared("tile", 512, 16);
    let base = k.shared_address(tile);
    let lane = k.tid_x();
    let to = k.mad_lo_u32(lane, 16, base);
    let from = k.mad_wide_u32(lane, 16, input);
    k.cp_async(to, from, 16);
    between(k);
    k.ld(to)
}

#[test]
fn a_copy_is_read_after_its_wait() {
    assert_good(&reports(32, |k, input, _| {
        copy(k, input, |k| {
            k.cp_async_commit_group();
            k.cp_async_wait_group(0);
        });
    }));
}

#[test]
fn a_copy_that_is_read_before_its_wait_is_a_race() {
    let reports = reports(32, |k, input, _| {
        copy(k, input, |k| k.cp_async_commit_group());
    });
    assert_found(&reports, "cp.async.cg", is_race);
}

#[test]
fn a_wait_that_comes_before_the_group_is_made_waits_for_nothing() {
    let reports = reports(32, |k, input, _| {
        copy(k, input, |k| k.cp_async_wait_group(0));
    });
    assert_found(&reports, "cp.async.cg", is_race);
}

#[test]
fn a_group_too_many_under_way_is_a_race() {
    let module = module(|k| matrix_product::product(k, Without::OneGroup));
    let reports: Vec<_> =
        (0..super::SEEDS).map(|seed| matrix_product::run(&module, seed).map(|_| ())).collect();
    assert_found(&reports, "cp.async.cg", is_race);
}

#[test]
fn a_stage_that_is_filled_while_others_read_it_is_a_race() {
    let module = module(|k| matrix_product::product(k, Without::Barriers));
    let reports: Vec<_> =
        (0..super::SEEDS).map(|seed| matrix_product::run(&module, seed).map(|_| ())).collect();
    assert_found(&reports, "cp.async.cg", |fault| {
        is_race(fault) || matches!(fault, Fault::Uninitialised { .. })
    });
}

#[test]
fn the_source_of_a_copy_stays_as_it_is() {
    let reports = reports(32, |k, input, _| {
        let tile = k.static_shared("tile", 512, 16);
        let base = k.shared_address(tile);
        let lane = k.tid_x();
        let to = k.mad_lo_u32(lane, 16, base);
        let from = k.mad_wide_u32(lane, 16, input);
        k.cp_async(to, from, 16);
        k.cp_async_commit_group();
        k.st((from, 4), lane);
        k.cp_async_wait_group(0);
    });
    assert_found(&reports, "st.global", is_race);
}

/// Copies that arrive at an mbarrier by themselves, for another warp.
fn copies_for_another_warp(k: &mut KernelBuilder, input: jhalak_ptx::B64, arrives: bool) {
    let tile = k.static_shared("tile", 512, 16);
    let barrier = k.static_shared("barrier", 8, 8);
    let thread = k.tid_x();
    let first = k.setp_u32(Eq, thread, 0);
    k.if_(first, |k| k.mbarrier_init(barrier, 32));
    k.bar_sync_all();
    let base = k.shared_address(tile);
    let lane = k.and_b32(thread, 31);
    let to = k.mad_lo_u32(lane, 16, base);
    let from = k.mad_wide_u32(lane, 16, input);
    let loads = k.setp_u32(jhalak_ptx::Comparison::Lt, thread, 32);
    k.role(loads, |k| {
        k.cp_async(to, from, 16);
        if arrives { k.cp_async_mbarrier_arrive(barrier) } else { k.mbarrier_arrive(barrier) }
    });
    k.mbarrier_wait(barrier, 0);
    let _value: B32 = k.ld(to);
}

#[test]
fn copies_arrive_at_an_mbarrier_by_themselves() {
    assert_good(&reports(64, |k, input, _| copies_for_another_warp(k, input, true)));
    let reports = reports(64, |k, input, _| copies_for_another_warp(k, input, false));
    assert_found(&reports, "cp.async.cg", is_race);
}

/// Eight rows of 128 bytes, 16 bytes a thread, written by the threads of a warpgroup.
fn tile(k: &mut KernelBuilder) -> Region {
    let tile = k.dynamic_shared("tile", 64 * 128, 1024);
    let base = k.shared_address(tile);
    let thread = k.tid_x();
    let place = k.mad_lo_u32(thread, 16, base);
    let zero = k.mov_b32(0);
    for part in 0..4 {
        k.st_vector((place, 2048 * part), [zero; 4]);
    }
    tile
}

/// One product of tiles that threads wrote, a in registers.
fn product(
    k: &mut KernelBuilder,
    before: fn(&mut KernelBuilder),
    after: fn(&mut KernelBuilder, [B32; 4], &[F32]),
) {
    let tile = tile(k);
    before(k);
    let a = [(); 4].map(|()| k.mov_b32(0));
    let sums: Vec<F32> = k.fragment(4);
    let layout = MatrixLayout::k_major(Swizzle::Bytes128);
    let b = k.descriptor(tile, layout);
    k.wgmma_fence();
    k.wgmma_bf16(&sums, a, b, false);
    k.wgmma_commit_group();
    after(k, a, &sums);
    k.wgmma_wait_group(0);
}

fn fence_and_barrier(k: &mut KernelBuilder) {
    k.fence_proxy_async(AsyncMemory::Shared);
    k.bar_sync_all();
}

#[test]
fn a_fence_and_a_barrier_hand_a_tile_to_wgmma() {
    assert_good(&reports(128, |k, _, _| product(k, fence_and_barrier, |_, _, _| {})));
}

#[test]
fn a_tile_without_a_proxy_fence_is_not_seen_by_wgmma() {
    let reports = reports(128, |k, _, _| product(k, |k| k.bar_sync_all(), |_, _, _| {}));
    assert_found(&reports, "wgmma.mma_async", |fault| {
        matches!(fault, Fault::MissingProxyFence { .. })
    });
}

#[test]
fn a_tile_without_a_barrier_is_a_race_with_wgmma() {
    let before = |k: &mut KernelBuilder| k.fence_proxy_async(AsyncMemory::Shared);
    let reports = reports(128, |k, _, _| product(k, before, |_, _, _| {}));
    assert_found(&reports, "wgmma.mma_async", |fault| {
        is_race(fault) || matches!(fault, Fault::Uninitialised { .. })
    });
}

#[test]
fn sums_under_way_may_not_be_read() {
    let reports = reports(128, |k, _, _| {
        product(k, fence_and_barrier, |k, _, sums| {
            k.add_f32(sums[0], 1.0);
        });
    });
    assert_found(&reports, "add.rn.f32", |f| matches!(f, Fault::RegisterInFlight { .. }));
}

#[test]
fn the_left_matrix_of_a_product_under_way_may_not_be_written() {
    let reports = reports(128, |k, _, _| {
        product(k, fence_and_barrier, |k, a, _| k.mov_b32_to(a[1], 5));
    });
    assert_found(&reports, "mov.b32", |f| matches!(f, Fault::RegisterInFlight { .. }));
}

#[test]
fn registers_written_after_the_fence_are_not_for_wgmma() {
    let reports = reports(128, |k, _, _| {
        let tile = tile(k);
        fence_and_barrier(k);
        k.wgmma_fence();
        let a = [(); 4].map(|()| k.mov_b32(0));
        let sums: Vec<F32> = k.fragment(4);
        let b = k.descriptor(tile, MatrixLayout::k_major(Swizzle::Bytes128));
        k.wgmma_bf16(&sums, a, b, false);
    });
    assert_found(&reports, "wgmma.mma_async", |fault| {
        matches!(fault, Fault::MissingWgmmaFence { .. })
    });
}

#[test]
fn a_tile_that_does_not_begin_with_its_pattern_is_reported() {
    let reports = reports(128, |k, _, _| {
        let tile = tile(k);
        fence_and_barrier(k);
        let a = [(); 4].map(|()| k.mov_b32(0));
        let sums: Vec<F32> = k.fragment(4);
        let base = k.shared_address(tile);
        let b = k.descriptor((base, 128), MatrixLayout::k_major(Swizzle::Bytes128));
        k.wgmma_fence();
        k.wgmma_bf16(&sums, a, b, false);
    });
    assert_found(&reports, "wgmma.mma_async", |f| matches!(f, Fault::BadOperand { .. }));
}

#[test]
fn a_stride_that_leads_out_of_the_tile_is_reported() {
    let reports = reports(128, |k, _, _| {
        let tile = tile(k);
        fence_and_barrier(k);
        let a = [(); 4].map(|()| k.mov_b32(0));
        let sums: Vec<F32> = k.fragment(16);
        let layout = MatrixLayout::unswizzled(jhalak_ptx::Major::K, 128, 4096);
        let b = k.descriptor(tile, layout);
        k.wgmma_fence();
        k.wgmma_bf16(&sums, a, b, false);
    });
    assert_found(&reports, "wgmma.mma_async", |f| matches!(f, Fault::OutOfBounds { .. }));
}

/// One thread begins to copy a tile to `output`.
fn store(k: &mut KernelBuilder, output: jhalak_ptx::B64, after: fn(&mut KernelBuilder, Region)) {
    let tile = tile(k);
    fence_and_barrier(k);
    let thread = k.tid_x();
    let first = k.setp_u32(Eq, thread, 0);
    k.if_(first, |k| {
        k.bulk_store(output, tile, 2048, None);
        k.bulk_commit_group();
        after(k, tile);
    });
}

#[test]
fn a_block_may_not_end_before_its_tile_is_read() {
    assert_good(&reports(128, |k, _, output| {
        store(k, output, |k, _| k.bulk_wait_group_read(0));
    }));
    let reports = reports(128, |k, _, output| store(k, output, |_, _| {}));
    assert_found(&reports, "cp.async.bulk.global", |f| matches!(f, Fault::UnfinishedCopy));
}

#[test]
fn a_tile_may_not_be_written_while_it_is_copied() {
    let reports = reports(128, |k, _, output| {
        store(k, output, |k, tile| {
            let zero = k.mov_b32(0);
            k.st(tile, zero);
            k.bulk_wait_group(0);
        });
    });
    assert_found(&reports, "cp.async.bulk.global", is_race);
}

#[test]
fn what_a_copy_writes_is_not_there_when_it_has_only_read() {
    let reports = reports(128, |k, _, output| {
        let tile = tile(k);
        fence_and_barrier(k);
        let thread = k.tid_x();
        let first = k.setp_u32(Eq, thread, 0);
        k.if_(first, |k| {
            k.bulk_store(output, tile, 2048, None);
            k.bulk_commit_group();
            k.bulk_wait_group_read(0);
            let _early: B32 = k.ld(output);
        });
    });
    assert_found(&reports, "cp.async.bulk.global", is_race);
}

#[test]
fn registers_that_nobody_gives_back_are_waited_for_in_vain() {
    let reports = reports(128, |k, _, _| {
        k.maxnreg(128);
        k.setmaxnreg_inc(240);
    });
    assert_found(&reports, "setmaxnreg.inc", |f| matches!(f, Fault::Deadlock { .. }));
}

#[test]
fn nobody_gives_back_more_registers_than_it_has() {
    let reports = reports(128, |k, _, _| {
        k.maxnreg(64);
        k.setmaxnreg_dec(96);
    });
    assert_found(&reports, "setmaxnreg.dec", |f| matches!(f, Fault::BadOperand { .. }));
}

#[test]
fn a_fence_for_global_memory_does_not_show_a_tile_in_shared_memory() {
    let before = |k: &mut KernelBuilder| {
        k.fence_proxy_async(AsyncMemory::Global);
        k.bar_sync_all();
    };
    let reports = reports(128, |k, _, _| product(k, before, |_, _, _| {}));
    assert_found(&reports, "wgmma.mma_async|st.shared", |fault| {
        matches!(fault, Fault::MissingProxyFence { .. })
    });
}

#[test]
fn all_warps_of_a_warpgroup_begin_a_product() {
    let reports = reports(128, |k, _, _| {
        let tile = tile(k);
        fence_and_barrier(k);
        let a = [(); 4].map(|()| k.mov_b32(0));
        let sums: Vec<F32> = k.fragment(4);
        let b = k.descriptor(tile, MatrixLayout::k_major(Swizzle::Bytes128));
        k.wgmma_fence();
        let thread = k.tid_x();
        let three = k.setp_u32(jhalak_ptx::Comparison::Lt, thread, 96);
        k.if_(three, |k| k.wgmma_bf16(&sums, a, b, false));
        k.wgmma_commit_group();
        k.wgmma_wait_group(0);
    });
    for report in reports {
        let report = report.expect_err("found");
        assert_eq!(report.fault, Fault::WarpgroupDisagrees { warpgroup: 0 });
    }
}
