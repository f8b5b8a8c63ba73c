//! Faults in a ring of tiles between a warpgroup that loads and one that multiplies.

use jhalak_ptx::emulator::Fault;

use super::{SEEDS, assert_found, is_race};
use crate::module;
use crate::pipeline::{Options, Without, product, run};

fn check(without: Without, instruction: &str, is_the_fault: impl Fn(&Fault) -> bool) {
    let options = Options::without(without);
    let module = module(|k| product(k, options));
    let reports: Vec<_> = (0..SEEDS).map(|seed| run(&module, options, seed).map(|_| ())).collect();
    assert_found(&reports, instruction, is_the_fault);
}

#[test]
fn copies_do_not_see_an_mbarrier_before_its_fence() {
    check(Without::MbarrierInitFence, "cp.async.bulk.tensor", |fault| {
        matches!(fault, Fault::MbarrierUnfenced { .. })
    });
}

#[test]
fn others_do_not_see_an_mbarrier_before_a_barrier() {
    check(Without::BarrierAfterInit, "mbarrier", |fault| {
        is_race(fault) || matches!(fault, Fault::NoMbarrier { .. })
    });
}

/// Either all have arrived while more is on its way, or somebody reads what comes later.
fn bytes_do_not_add_up(fault: &Fault) -> bool {
    let early = matches!(fault, Fault::Uninitialised { .. });
    matches!(fault, Fault::MbarrierBytes { .. }) || is_race(fault) || early
}

#[test]
fn an_arrival_that_expects_no_bytes_is_reported() {
    check(Without::ExpectedBytes, "mbarrier.arrive|cp.async.bulk.tensor|wgmma", |fault| {
        bytes_do_not_add_up(fault)
    });
}

#[test]
fn too_few_expected_bytes_are_reported() {
    check(Without::HalfOfTheBytes, "mbarrier.arrive|cp.async.bulk.tensor|wgmma", |fault| {
        bytes_do_not_add_up(fault)
    });
}

#[test]
fn too_many_expected_bytes_are_a_deadlock_that_says_what_is_missing() {
    check(Without::MoreBytesThanExpected, "mbarrier.try_wait", |fault| match fault {
        Fault::Deadlock { waiting } => waiting.iter().any(|(_, why)| why.contains("16 bytes")),
        _ => false,
    });
}

#[test]
fn a_wait_for_the_wrong_parity_reads_what_is_not_there() {
    check(Without::RightParity, "wgmma", |fault| {
        is_race(fault) || matches!(fault, Fault::Uninitialised { .. })
    });
}

#[test]
fn a_stage_that_is_not_waited_for_is_overwritten() {
    check(Without::WaitForEmpty, "mbarrier.arrive.expect_tx|cp.async.bulk.tensor", |fault| {
        is_race(fault) || matches!(fault, Fault::MbarrierArrivals { .. })
    });
}

#[test]
fn a_stage_that_is_never_given_back_is_a_deadlock() {
    check(Without::ArriveAtEmpty, "mbarrier.try_wait", |f| matches!(f, Fault::Deadlock { .. }));
}

#[test]
fn a_box_is_stored_at_a_multiple_of_128_bytes() {
    check(Without::AlignedTile, "cp.async.bulk.tensor", |fault| {
        matches!(fault, Fault::Misaligned { align: 128, .. })
    });
}

#[test]
fn the_first_product_comes_after_a_wgmma_fence() {
    check(Without::WgmmaFence, "wgmma.mma_async", |fault| {
        matches!(fault, Fault::MissingWgmmaFence { .. })
    });
}

#[test]
fn a_stage_may_not_be_given_back_while_products_read_it() {
    check(Without::WaitForProducts, "wgmma.mma_async", |fault| {
        is_race(fault) || matches!(fault, Fault::RegisterInFlight { .. })
    });
}

#[test]
fn the_copy_engine_does_not_see_sums_before_a_proxy_fence() {
    check(Without::ProxyFence, "cp.reduce.async.bulk", |fault| {
        matches!(fault, Fault::MissingProxyFence { .. })
    });
}

#[test]
fn the_copy_engine_must_wait_for_all_who_write_its_tile() {
    check(Without::BarrierBeforeReduce, "cp.reduce.async.bulk", |fault| {
        is_race(fault) || matches!(fault, Fault::Uninitialised { .. })
    });
}

#[test]
fn a_reduction_must_have_read_its_tile_before_the_block_ends() {
    check(Without::WaitForReduce, "cp.reduce.async.bulk", |fault| {
        matches!(fault, Fault::UnfinishedCopy)
    });
}
