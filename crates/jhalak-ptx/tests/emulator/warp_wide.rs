//! Shuffles, votes and transposes of a warp, and lanes that take different ways.

use jhalak_ptx::Comparison::{Ge, Lt};
use jhalak_ptx::{B32, KernelBuilder};

use crate::evaluate;

fn of_lanes(body: impl FnOnce(&mut KernelBuilder, B32) -> B32) -> Vec<u32> {
    let inputs: Vec<[u32; 1]> = (0..32).map(|lane| [lane]).collect();
    evaluate(&inputs, |k, [lane]| body(k, lane))
}

#[test]
fn shuffles_bring_the_values_of_other_lanes() {
    assert_eq!(of_lanes(|k, lane| k.shfl_idx_b32(lane, 7)), [7; 32]);
    let butterfly: Vec<u32> = (0..32).map(|lane| lane ^ 5).collect();
    assert_eq!(of_lanes(|k, lane| k.shfl_bfly_b32(lane, 5)), butterfly);
    let up: Vec<u32> = (0..32).map(|lane: u32| lane.checked_sub(3).unwrap_or(lane)).collect();
    assert_eq!(of_lanes(|k, lane| k.shfl_up_b32(lane, 3)), up);
    let down: Vec<u32> = (0..32).map(|lane| if lane < 29 { lane + 3 } else { lane }).collect();
    assert_eq!(of_lanes(|k, lane| k.shfl_down_b32(lane, 3)), down);
}

#[test]
fn votes_count_every_lane() {
    let ballot = of_lanes(|k, lane| {
        let high = k.setp_u32(Ge, lane, 20);
        k.vote_ballot(high)
    });
    assert_eq!(ballot, [0xfff0_0000; 32]);
    let all_and_any = of_lanes(|k, lane| {
        let low = k.setp_u32(Lt, lane, 31);
        let (all, any) = (k.vote_all(low), k.vote_any(low));
        let bits = k.selp_b32(1, 0, all);
        let two = k.selp_b32(2, 0, any);
        k.or_b32(bits, two)
    });
    assert_eq!(all_and_any, [2; 32]);
}

#[test]
fn a_transposed_matrix_is_the_other_way_round() {
    let expected: Vec<u32> = (0..32)
        .map(|lane| {
            // Element (row, column) of the matrix is 8 · row + column.
            let (row, column) = (lane / 4, 2 * (lane % 4));
            (8 * (column + 1) + row) << 16 | (8 * column + row)
        })
        .collect();
    let transposed = of_lanes(|k, lane| {
        let first = k.shl_b32(lane, 1);
        let second = k.add_u32(first, 1);
        let high = k.shl_b32(second, 16);
        let pair = k.or_b32(first, high);
        k.movmatrix_trans(pair)
    });
    assert_eq!(transposed, expected);
}

#[test]
fn every_lane_leaves_a_loop_in_its_own_round() {
    let rounds = of_lanes(|k, lane| {
        let count = k.mov_b32(0);
        k.loop_(|k, this| {
            let done = k.setp_u32(Ge, count, lane);
            k.break_if(this, done);
            k.add_u32_to(count, count, 1);
            let odd = k.and_b32(lane, 1);
            let even = k.setp_u32(Lt, odd, 1);
            k.if_else(
                even,
                |k| k.add_u32_to(count, count, 1),
                |k| {
                    let late = k.setp_u32(Ge, count, 9);
                    k.if_(late, |k| {
                        k.mov_b32_to(count, 100);
                        let always = k.setp_u32(Ge, count, 0);
                        k.break_if(this, always);
                    });
                },
            );
        });
        // All lanes are together again.
        let sum = k.shfl_bfly_b32(count, 0);
        k.add_u32(sum, 0)
    });
    let expected: Vec<u32> =
        (0..32).map(|lane| if lane % 2 == 1 && lane >= 9 { 100 } else { lane }).collect();
    assert_eq!(rounds, expected);
}
