//! The gradient of the sinks.

use jhalak_cuda::kernels::passes::{DSINKS, DsinksClass, dsinks};
use jhalak_cuda::plan::{BackwardWorkspace, PassPlan};
use jhalak_problem::{DType, Gradient, GradientTargets, OutOrDelta};

use crate::calls::{Given, Rows, limits, with_call};
use crate::gpu::{Gpu, Held, Layout};
use crate::numbers::{assert_close, half_ulp, noise, rounded};

/// Runs the kernel on a delta' that is given.
fn run(
    gpu: &mut Gpu,
    rows: &Rows,
    [lse, delta, sinks]: [&Held; 3],
    dtype: DType,
    target: Gradient<'_>,
    seed: u64,
) {
    let dout = gpu.empty(dtype, &rows.shape(8), Layout::Plain);
    let given = Given {
        rows,
        dtype,
        dims: [8, 8],
        dout: &dout,
        out: OutOrDelta::Delta(delta.view()),
        lse,
        dlse: None,
        sinks: Some(sinks),
        scale: 1.0,
    };
    let workspace =
        BackwardWorkspace { delta: delta.address(), dq_sum: None, dbias_sum: None, turns: None };
    let mut targets = GradientTargets::default();
    targets.dsinks = Some(target);
    with_call(gpu, given, targets, |gpu, call| {
        let plan = PassPlan::dsinks(call, limits(), &workspace).unwrap().unwrap();
        let module = dsinks(&plan.class).unwrap();
        let threads = DsinksClass::THREADS;
        gpu.run(&module, DSINKS, plan.grid, threads, &plan.arguments, seed);
    });
}

/// The sum in double precision, and the sum of its terms' sizes.
fn expected(gpu: &Gpu, [lse, delta, sinks]: [&Held; 3], head: usize) -> (f64, f64) {
    let sink = gpu.get(sinks, &[head]);
    let mut sums = (0.0, 0.0);
    for index in delta.indices() {
        let delta = gpu.get(delta, &index);
        if index[index.len() - 2] == head && delta != 0.0 {
            let term = (sink - gpu.get(lse, &index)).exp() * -delta;
            sums = (sums.0 + term, sums.1 + term.abs());
        }
    }
    sums
}

fn inputs(gpu: &mut Gpu, rows: &Rows, sinks: DType, layout: Layout) -> [Held; 3] {
    let number = |index: &[usize]| index.iter().fold(0, |n, i| 4099 * n + i);
    // Rows that are not used hold NaN, and a delta' of 0.
    let lse = gpu.tensor(DType::F32, &rows.numbers(), layout, |index| {
        Some(if rows.uses_number(index) { 3.0 + 2.0 * noise(number(index)) } else { f64::NAN })
    });
    let delta = gpu.tensor(DType::F32, &rows.numbers(), Layout::Plain, |index| {
        Some(if rows.uses_number(index) { noise(number(index) + 7) } else { 0.0 })
    });
    let sinks = gpu.tensor(sinks, &[rows.heads], layout, |index| Some(noise(index[0]) - 0.5));
    [lse, delta, sinks]
}

/// Fewer rows than threads, more, whole blocks of sequences of one row, and packed ones.
fn shapes() -> Vec<Rows> {
    let mut list = Rows::kinds();
    list.extend([Rows::dense(3, 700, 2), Rows::dense(1500, 1, 1), Rows::dense(2, 1024, 1)]);
    list
}

#[test]
fn every_head_sums_over_its_used_rows() {
    use DType::{BF16, F16, F32};
    for rows in shapes() {
        for (dtype, sinks, target) in [(F32, F32, F32), (F16, F32, F32), (BF16, BF16, BF16)] {
            for adds in [false, true] {
                if adds && target != F32 {
                    continue;
                }
                let mut gpu = Gpu::default();
                let layout = if adds { Layout::Backwards } else { Layout::Plain };
                let held = inputs(&mut gpu, &rows, sinks, layout);
                let held = held.each_ref();
                let found = gpu.output(target, &[rows.heads], layout);
                let gradient = if adds {
                    Gradient::Add(found.view_mut())
                } else {
                    Gradient::Write(found.view_mut())
                };
                run(&mut gpu, &rows, held, dtype, gradient, 0);
                for head in 0..rows.heads {
                    let (sum, sizes) = expected(&gpu, held, head);
                    let value = if adds { 77.0 + sum } else { sum };
                    // Exponents have 2 roundings of numbers up to 8, terms some of their own.
                    let most = 1e-6 * sizes + 2.0 * half_ulp(target, value);
                    let what = format_args!("{rows:?} head {head}").to_string();
                    assert_close(gpu.get(&found, &[head]), value, most, what);
                }
                gpu.assert_surroundings(&found);
            }
        }
    }
}

#[test]
fn terms_that_cancel_leave_an_exact_sum() {
    let rows = Rows::dense(2, 3000, 1);
    let mut gpu = Gpu::default();
    // All weights are 1.
    let lse = gpu.tensor(DType::F32, &rows.numbers(), Layout::Plain, |_| Some(0.25));
    let sinks = gpu.tensor(DType::F32, &[1], Layout::Plain, |_| Some(0.25));
    let large = |i: usize| if i.is_multiple_of(2) { 3e7 } else { -3e7 };
    let delta = gpu.tensor(DType::F32, &rows.numbers(), Layout::Plain, |index| {
        Some(rounded(DType::F32, large(index[2]) * (1.0 + noise(index[2] / 2)) + noise(index[2])))
    });
    let held = [&lse, &delta, &sinks];
    let found = gpu.output(DType::F32, &[1], Layout::Plain);
    run(&mut gpu, &rows, held, DType::F32, Gradient::Write(found.view_mut()), 0);
    let (sum, sizes) = expected(&gpu, held, 0);
    assert!(sum.abs() < 1e-7 * sizes, "the terms cancel");
    let most = 1e-12 * sizes + half_ulp(DType::F32, sum);
    assert_close(gpu.get(&found, &[0]), sum, most, "the sum");
}

#[test]
fn equal_calls_give_equal_bits_in_any_order_of_warps() {
    let rows = Rows::dense(2, 900, 2);
    let bits: Vec<_> = (0..4)
        .map(|seed| {
            let mut gpu = Gpu::default();
            let held = inputs(&mut gpu, &rows, DType::F32, Layout::Plain);
            let found = gpu.output(DType::F32, &[2], Layout::Plain);
            let target = Gradient::Write(found.view_mut());
            run(&mut gpu, &rows, held.each_ref(), DType::F32, target, seed);
            [0, 1].map(|head| gpu.get(&found, &[head]).to_bits())
        })
        .collect();
    assert!(bits.iter().all(|other| *other == bits[0]), "{bits:?}");
}

/// One row of a head for each: sink, lse, delta', and what comes of it.
#[test]
fn empty_rows_and_spoiled_ones_reach_their_own_head_alone() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases = [
        // A row without keys: its lse is the sink, and delta' is −dlse.
        (0.5, 0.5, -2.0, 2.0),
        (-inf, -inf, -2.0, 0.0),
        (-inf, 1.0, nan, 0.0),
        (0.5, nan, 1.0, nan),
        (0.5, 1.0, nan, nan),
        (nan, 1.0, 1.0, nan),
        (0.5, 0.5, -inf, inf),
        (0.5, nan, 0.0, 0.0),
        (1.0, 1.0, 4.0, -4.0),
    ];
    let rows = Rows::dense(1, 1, cases.len());
    let mut gpu = Gpu::default();
    let lse = gpu.tensor(DType::F32, &rows.numbers(), Layout::Plain, |i| Some(cases[i[1]].1));
    let delta = gpu.tensor(DType::F32, &rows.numbers(), Layout::Plain, |i| Some(cases[i[1]].2));
    let sinks = gpu.tensor(DType::F16, &[cases.len()], Layout::Plain, |i| Some(cases[i[0]].0));
    let found = gpu.output(DType::F16, &[cases.len()], Layout::Plain);
    let target = Gradient::Write(found.view_mut());
    run(&mut gpu, &rows, [&lse, &delta, &sinks], DType::F16, target, 0);
    for (head, case) in cases.iter().enumerate() {
        assert_close(gpu.get(&found, &[head]), case.3, 0.0, format_args!("{case:?}"));
    }
}

#[test]
fn without_rows_the_gradient_is_0() {
    let rows = Rows::dense(2, 0, 3);
    let mut gpu = Gpu::default();
    let held = inputs(&mut gpu, &rows, DType::F32, Layout::Plain);
    let found = gpu.output(DType::F32, &[3], Layout::Plain);
    let target = Gradient::Write(found.view_mut());
    run(&mut gpu, &rows, held.each_ref(), DType::F32, target, 0);
    for head in 0..3 {
        assert_eq!(gpu.get(&found, &[head]), 0.0);
    }
}
