//! Lanes and warps that do not wait for each other.

use jhalak_ptx::Comparison::Lt;
use jhalak_ptx::emulator::Fault;
use jhalak_ptx::{B32, KernelBuilder, Placement};

use super::{assert_found, assert_good, is_race, reports};

/// Each lane writes a word, and reads that of the lane 16 further.
fn exchange(k: &mut KernelBuilder, output: jhalak_ptx::B64, between: fn(&mut KernelBuilder)) {
    let tile = k.static_shared("tile", 128, 16);
    assert_eq!(tile.placement, Placement::Static);
    let base = k.shared_address(tile);
    let lane = k.tid_x();
    let own = k.mad_lo_u32(lane, 4, base);
    k.st(own, lane);
    between(k);
    let other = k.xor_b32(lane, 16);
    let place = k.mad_lo_u32(other, 4, base);
    let value: B32 = k.ld(place);
    let place = k.mad_wide_u32(lane, 4, output);
    k.st(place, value);
}

#[test]
fn lanes_of_a_warp_need_a_barrier_too() {
    let reports = reports(32, |k, _, output| exchange(k, output, |_| {}));
    assert_found(&reports, "ld.shared", is_race);
}

#[test]
fn a_shuffle_is_no_barrier() {
    let reports = reports(32, |k, _, output| {
        exchange(k, output, |k| {
            let lane = k.tid_x();
            k.shfl_bfly_b32(lane, 1);
        });
    });
    assert_found(&reports, "ld.shared", is_race);
}

#[test]
fn a_barrier_of_the_warp_orders_its_lanes() {
    assert_good(&reports(32, |k, _, output| exchange(k, output, |k| k.bar_warp_sync())));
}

#[test]
fn two_warps_that_write_one_address_race() {
    let reports = reports(64, |k, _, output| {
        let thread = k.tid_x();
        let lane = k.and_b32(thread, 31);
        let place = k.mad_wide_u32(lane, 4, output);
        k.st(place, lane);
    });
    assert_found(&reports, "st.global", is_race);
}

#[test]
fn two_lanes_that_write_one_address_race() {
    let reports = reports(32, |k, _, output| {
        let value = k.mov_b32(3);
        k.st(output, value);
    });
    assert_found(&reports, "st.global", is_race);
}

#[test]
fn two_lanes_may_write_halves_of_a_word() {
    assert_good(&reports(32, |k, _, output| {
        let thread = k.tid_x();
        let place = k.mad_wide_u32(thread, 2, output);
        k.st_u16(place, thread);
    }));
}

#[test]
fn a_shuffle_that_not_all_lanes_reach_is_reported() {
    let reports = reports(32, |k, _, output| {
        let lane = k.tid_x();
        let low = k.setp_u32(Lt, lane, 24);
        k.if_(low, |k| {
            let value = k.shfl_bfly_b32(lane, 1);
            let place = k.mad_wide_u32(lane, 4, output);
            k.st(place, value);
        });
    });
    assert_found(&reports, "shfl.sync", |fault| {
        matches!(fault, Fault::Diverged { active: 0x00ff_ffff, .. })
    });
}

#[test]
fn a_lane_that_is_gone_has_nothing_to_give() {
    let reports = reports(32, |k, _, output| {
        let lane = k.tid_x();
        let high = k.setp_u32(Lt, 23, lane);
        k.when(high, |k| k.ret());
        let value = k.shfl_idx_b32(lane, 30);
        let place = k.mad_wide_u32(lane, 4, output);
        k.st(place, value);
    });
    assert_found(&reports, "st.global", |fault| matches!(fault, Fault::UnsetRegister { .. }));
}

#[test]
fn a_matrix_product_needs_the_whole_warp() {
    let reports = reports(32, |k, _, _| {
        let lane = k.tid_x();
        let low = k.setp_u32(Lt, lane, 16);
        let sums = [(); 4].map(|()| k.mov_f32(0.0));
        k.if_(low, |k| k.mma_m16n8k8_f16(sums, [lane, lane], [lane], sums));
    });
    assert_found(&reports, "mma.sync", |fault| matches!(fault, Fault::Diverged { .. }));
}
