//! delta' and the zeros of the workspace.

use jhalak_cuda::kernels::passes::{DELTA, DeltaClass, THREADS, delta};
use jhalak_cuda::kernels::{Access, passes};
use jhalak_cuda::plan::{BackwardWorkspace, DqSum, PassPlan};
use jhalak_problem::{DType, GradientTargets, OutOrDelta};

use crate::calls::{Given, Rows, limits, with_call};
use crate::gpu::{Gpu, Held, Layout};
use crate::numbers::{assert_close, noise, rounded};

/// What delta' is made of.
struct Case {
    rows: Rows,
    out: DType,
    dout: DType,
    dtype: DType,
    dv: usize,
    layout: Layout,
    dlse: bool,
}

fn at(index: &[usize], salt: usize) -> f64 {
    noise(index.iter().fold(salt, |n, &i| n.wrapping_mul(1009).wrapping_add(i + 1)))
}

/// Runs the kernel; the class says how rows are reached.
fn run(gpu: &mut Gpu, given: Given<'_>, dq_sum: Option<&Held>, seed: u64) -> (Held, DeltaClass) {
    let numbers = gpu.output(DType::F32, &given.rows.numbers(), Layout::Plain);
    let workspace = BackwardWorkspace {
        delta: numbers.address(),
        dq_sum: dq_sum.map(|sum| DqSum {
            address: sum.address(),
            columns: *sum.shape.last().unwrap() as u32,
        }),
        dbias_sum: None,
        turns: None,
    };
    let class = with_call(gpu, given, GradientTargets::default(), |gpu, call| {
        let plan = PassPlan::delta(call, limits(), &workspace).unwrap().unwrap();
        let module = delta(&plan.class).unwrap();
        gpu.run(&module, DELTA, plan.grid, THREADS, &plan.arguments, seed);
        plan.class
    });
    (numbers, class)
}

fn check(case: &Case) -> DeltaClass {
    let mut gpu = Gpu::default();
    let Case { rows, dv, layout, .. } = case;
    let shape = rows.shape(*dv);
    let value = |dtype, salt| {
        move |index: &[usize]| rows.uses_row(index).then(|| rounded(dtype, at(index, salt)))
    };
    let out = gpu.tensor(case.out, &shape, *layout, value(case.out, 1));
    let dout = gpu.tensor(case.dout, &shape, *layout, value(case.dout, 2));
    let number = |salt| move |index: &[usize]| rows.uses_number(index).then(|| at(index, salt));
    let lse = gpu.tensor(DType::F32, &rows.numbers(), *layout, number(3));
    let dlse = case.dlse.then(|| gpu.tensor(DType::F32, &rows.numbers(), *layout, number(4)));
    let given = Given {
        rows,
        dtype: case.dtype,
        dims: [*dv, *dv],
        dout: &dout,
        out: OutOrDelta::Out(out.view()),
        lse: &lse,
        dlse: dlse.as_ref(),
        sinks: None,
        scale: 1.0,
    };
    let (found, class) = run(&mut gpu, given, None, 0);
    for index in found.indices() {
        let value = gpu.get(&found, &index);
        if !rows.uses_number(&index) {
            assert_eq!(value, 0.0, "{rows:?} {index:?}");
            continue;
        }
        let terms = (0..*dv).map(|c| {
            let index = rows.column(&index, c);
            gpu.get(&out, &index) * gpu.get(&dout, &index)
        });
        let terms: Vec<f64> = terms.collect();
        let gradient = dlse.as_ref().map_or(0.0, |dlse| gpu.get(dlse, &index));
        let expected = terms.iter().sum::<f64>() - gradient;
        // A product, a sum by pairs, and a difference round so often.
        let roundings = 2.0 + f64::from(dv.next_power_of_two().ilog2());
        let sizes = terms.iter().map(|x| x.abs()).sum::<f64>() + gradient.abs();
        let most = roundings * sizes * f64::from(f32::EPSILON) / 2.0;
        assert_close(value, expected, most, format_args!("{rows:?} {index:?}"));
    }
    class
}

#[test]
fn delta_is_the_row_sum_less_dlse_in_every_type() {
    use DType::{BF16, F16, F32};
    for (dtype, out, dout) in
        [(F32, F32, F32), (F16, F16, F16), (BF16, BF16, BF16), (BF16, F32, BF16), (F16, F16, F32)]
    {
        for dlse in [false, true] {
            let rows = Rows::dense(2, 21, 2);
            check(&Case { rows, out, dout, dtype, dv: 72, layout: Layout::Plain, dlse });
        }
    }
}

#[test]
fn rows_of_any_width_are_summed() {
    for dv in [1, 2, 7, 8, 31, 33, 64, 128, 136, 255, 256] {
        for dtype in [DType::F32, DType::BF16] {
            let rows = Rows::dense(1, 9, 1);
            let layout = Layout::Plain;
            check(&Case { rows, out: dtype, dout: dtype, dtype, dv, layout, dlse: true });
        }
    }
}

#[test]
fn tensors_may_lie_in_any_way() {
    for (layout, vectors) in [
        (Layout::Plain, true),
        (Layout::Gaps, true),
        (Layout::Backwards, false),
        (Layout::ColumnsFirst, false),
        (Layout::Broadcast, true),
    ] {
        let (rows, dtype) = (Rows::dense(2, 11, 2), DType::F16);
        let class =
            check(&Case { rows, out: dtype, dout: dtype, dtype, dv: 24, layout, dlse: true });
        let passes::Delta::Out { access, .. } = class.delta else { panic!("out was given") };
        assert_eq!(access == Access::Vectors, vectors, "{layout:?}");
    }
}

#[test]
fn rows_that_are_not_used_are_0_and_nobody_reads_them() {
    for rows in Rows::kinds() {
        for (layout, dlse) in [(Layout::Plain, true), (Layout::Backwards, false)] {
            let (rows, dtype) = (rows.clone(), DType::BF16);
            check(&Case { rows, out: dtype, dout: dtype, dtype, dv: 40, layout, dlse });
        }
    }
}

/// One row for each way in which a row may be spoiled: out, dout, lse, sink, and what comes of it.
#[test]
fn a_spoiled_row_is_nan_unless_it_sees_no_key() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases = [
        ([2.0, 0.0], nan, -inf, None, nan),
        ([0.0, 0.0], nan, -inf, None, 0.0),
        ([0.0, 0.0], inf, -inf, None, 0.0),
        ([0.0, 0.0], nan, 0.5, None, nan),
        ([0.0, 0.0], nan, 0.5, Some(0.5), 0.0),
        // What 0.5 becomes by way of a power of 2, in single precision.
        ([0.0, 0.0], nan, 0.5 + 1.2e-7, Some(0.5), 0.0),
        ([0.0, 0.0], nan, 0.5 - 1.2e-7, Some(0.5), 0.0),
        ([0.0, 0.0], nan, 0.75, Some(0.5), nan),
        ([0.0, 0.0], nan, 0.75, Some(-inf), nan),
        ([0.0, 0.0], nan, -inf, Some(-inf), 0.0),
        ([0.0, 0.0], nan, nan, Some(-inf), nan),
        ([nan, 0.0], 1.0, nan, Some(0.5), nan),
        ([1.0, -3.0], 2.0, 0.5, Some(0.5), -4.0),
    ];
    for dtype in [DType::F32, DType::F16] {
        for (out_row, dout_value, lse_value, sink, expected) in cases {
            let mut gpu = Gpu::default();
            // The first row is as it should be.
            let rows = Rows::dense(1, 2, 1);
            let out = gpu.tensor(dtype, &[1, 2, 1, 2], Layout::Plain, |index| {
                Some(if index[1] == 0 { 1.0 } else { out_row[index[3]] })
            });
            let dout = gpu.tensor(dtype, &[1, 2, 1, 2], Layout::Plain, |index| {
                Some(if index[1] == 0 { 1.5 } else { dout_value })
            });
            let lse = gpu.tensor(DType::F32, &[1, 1, 2], Layout::Plain, |index| {
                Some(if index[2] == 0 { 3.0 } else { lse_value })
            });
            let sinks = sink.map(|sink| gpu.tensor(dtype, &[1], Layout::Plain, |_| Some(sink)));
            let given = Given {
                rows: &rows,
                dtype,
                dims: [2, 2],
                dout: &dout,
                out: OutOrDelta::Out(out.view()),
                lse: &lse,
                dlse: None,
                sinks: sinks.as_ref(),
                scale: 1.0,
            };
            let (found, _) = run(&mut gpu, given, None, 0);
            assert_eq!(gpu.get(&found, &[0, 0, 0]), 3.0);
            let what = format_args!("{out_row:?} {dout_value} {lse_value} {sink:?}").to_string();
            assert_close(gpu.get(&found, &[0, 0, 1]), expected, 0.0, what);
        }
    }
}

#[test]
fn a_given_delta_is_taken_and_dout_is_not_read() {
    for rows in Rows::kinds() {
        for dlse in [false, true] {
            let mut gpu = Gpu::default();
            let number = |salt| {
                let rows = &rows;
                move |index: &[usize]| {
                    rows.uses_number(index).then(|| f64::from(at(index, salt) as f32))
                }
            };
            let shape = rows.numbers();
            let delta = gpu.tensor(DType::F32, &shape, Layout::Backwards, number(1));
            let dlse = dlse.then(|| gpu.tensor(DType::F32, &shape, Layout::Gaps, number(2)));
            let dout = gpu.empty(DType::F16, &rows.shape(8), Layout::Plain);
            let lse = gpu.empty(DType::F32, &shape, Layout::Plain);
            let given = Given {
                rows: &rows,
                dtype: DType::F16,
                dims: [8, 8],
                dout: &dout,
                out: OutOrDelta::Delta(delta.view()),
                lse: &lse,
                dlse: dlse.as_ref(),
                sinks: None,
                scale: 1.0,
            };
            let (found, _) = run(&mut gpu, given, None, 0);
            for index in found.indices() {
                let expected = if rows.uses_number(&index) {
                    let less = dlse.as_ref().map_or(0.0, |dlse| gpu.get(dlse, &index));
                    rounded(DType::F32, gpu.get(&delta, &index) - less)
                } else {
                    0.0
                };
                assert_eq!(gpu.get(&found, &index), expected, "{rows:?} {index:?}");
            }
        }
    }
}

#[test]
fn all_rows_of_the_workspace_become_0_with_any_order_of_blocks() {
    for rows in Rows::kinds() {
        for (seed, columns) in [4, 16, 80, 256].into_iter().enumerate() {
            for given_delta in [false, true] {
                let mut gpu = Gpu::default();
                let shape = [rows.numbers(), vec![columns]].concat();
                let sums = gpu.output(DType::F32, &shape, Layout::Plain);
                let out = gpu.tensor(DType::F16, &rows.shape(8), Layout::Plain, |_| Some(1.0));
                let lse = gpu.tensor(DType::F32, &rows.numbers(), Layout::Plain, |_| Some(1.0));
                let out_or_delta = if given_delta {
                    OutOrDelta::Delta(lse.view())
                } else {
                    OutOrDelta::Out(out.view())
                };
                let given = Given {
                    rows: &rows,
                    dtype: DType::F16,
                    dims: [8, 8],
                    dout: &out,
                    out: out_or_delta,
                    lse: &lse,
                    dlse: None,
                    sinks: None,
                    scale: 1.0,
                };
                let (found, _) = run(&mut gpu, given, Some(&sums), seed as u64);
                for index in sums.indices() {
                    assert_eq!(gpu.get(&sums, &index), 0.0, "{rows:?} {index:?}");
                }
                let row = if given_delta { 1.0 } else { 8.0 };
                for index in found.indices() {
                    let expected = if rows.uses_number(&index) { row } else { 0.0 };
                    assert_eq!(gpu.get(&found, &index), expected, "{rows:?} {index:?}");
                }
            }
        }
    }
}
