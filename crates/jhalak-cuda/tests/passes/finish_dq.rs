//! dq from the sums of its workspace.

use jhalak_cuda::kernels::passes::{FINISH_DQ, FinishDqClass, THREADS, finish_dq};
use jhalak_cuda::kernels::{Access, passes};
use jhalak_cuda::plan::{BackwardWorkspace, DqSum, PassPlan};
use jhalak_problem::{DType, Gradient, GradientTargets, OutOrDelta};

use crate::calls::{Given, Rows, limits, with_call};
use crate::gpu::{Gpu, Held, Layout};
use crate::numbers::{assert_close, half_ulp, noise};

/// Runs the kernel on sums in rows of `columns` floats.
fn run(
    gpu: &mut Gpu,
    rows: &Rows,
    (dtype, head_dim): (DType, usize),
    sums: &Held,
    scale: f64,
    target: Gradient<'_>,
) -> FinishDqClass {
    let dout = gpu.empty(dtype, &rows.shape(8), Layout::Plain);
    let numbers = gpu.empty(DType::F32, &rows.numbers(), Layout::Plain);
    let given = Given {
        rows,
        dtype,
        dims: [head_dim, 8],
        dout: &dout,
        out: OutOrDelta::Delta(numbers.view()),
        lse: &numbers,
        dlse: None,
        sinks: None,
        scale,
    };
    let columns = *sums.shape.last().unwrap() as u32;
    let workspace = BackwardWorkspace {
        delta: numbers.address(),
        dq_sum: Some(DqSum { address: sums.address(), columns }),
        dbias_sum: None,
        turns: None,
    };
    let mut targets = GradientTargets::default();
    targets.dq = Some(target);
    with_call(gpu, given, targets, |gpu, call| {
        let plan = PassPlan::finish_dq(call, limits(), &workspace).unwrap().unwrap();
        let module = finish_dq(&plan.class).unwrap();
        gpu.run(&module, FINISH_DQ, plan.grid, THREADS, &plan.arguments, 0);
        plan.class
    })
}

/// The index of a number, and the column, of an index of dq.
fn number_of(index: &[usize]) -> Vec<usize> {
    match *index {
        [b, i, h, c] => vec![b, h, i, c],
        [i, h, c] => vec![h, i, c],
        _ => panic!("dq has 3 or 4 dimensions"),
    }
}

struct Case {
    rows: Rows,
    /// Of q.
    dtype: DType,
    /// Of dq.
    dq: DType,
    head_dim: usize,
    columns: usize,
    layout: Layout,
    adds: bool,
    scale: f64,
}

fn check(case: &Case) -> FinishDqClass {
    let mut gpu = Gpu::default();
    let Case { rows, head_dim, columns, scale, .. } = case;
    // What pads rows, and rows that are not used, nobody has written.
    let shape = [rows.numbers(), vec![*columns]].concat();
    let sums = gpu.tensor(DType::F32, &shape, Layout::Plain, |index| {
        let (number, column) = index.split_at(index.len() - 1);
        let used = rows.uses_number(number) && column[0] < *head_dim;
        used.then(|| 100.0 * noise(index.iter().fold(0, |n, i| 1009 * n + i)))
    });
    let dq = gpu.output(case.dq, &rows.shape(*head_dim), case.layout);
    let target =
        if case.adds { Gradient::Add(dq.view_mut()) } else { Gradient::Write(dq.view_mut()) };
    let class = run(&mut gpu, rows, (case.dtype, *head_dim), &sums, *scale, target);
    for index in dq.indices() {
        let used = rows.uses_row(&index);
        let product =
            if used { gpu.get(&sums, &number_of(&index)) * f64::from(*scale as f32) } else { 0.0 };
        let expected = if case.adds { 77.0 + product } else { product };
        // One rounding to a float, and one to dq.
        let float = half_ulp(DType::F32, expected);
        let most = if used { float + half_ulp(case.dq, expected.abs() + float) } else { 0.0 };
        assert_close(gpu.get(&dq, &index), expected, most, format_args!("{rows:?} {index:?}"));
    }
    gpu.assert_surroundings(&dq);
    class
}

#[test]
fn dq_is_the_scaled_sum_in_every_type_and_layout() {
    use DType::{BF16, F16, F32};
    for (dtype, dq) in [(F32, F32), (F16, F16), (BF16, BF16), (BF16, F32)] {
        for (layout, vectors) in [
            (Layout::Plain, true),
            (Layout::Gaps, true),
            (Layout::Backwards, false),
            (Layout::ColumnsFirst, false),
        ] {
            let (rows, head_dim, columns) = (Rows::dense(2, 13, 2), 24, 32);
            let scale = -0.125;
            let class =
                check(&Case { rows, dtype, dq, head_dim, columns, layout, adds: false, scale });
            assert_eq!(class.access == Access::Vectors, vectors, "{layout:?}");
        }
    }
}

#[test]
fn rows_of_any_width_are_finished() {
    for head_dim in [1usize, 5, 8, 40, 64, 100, 128, 192, 256] {
        for dq in [DType::F32, DType::F16] {
            let rows = Rows::dense(1, 10, 1);
            let (dtype, columns) = (dq, head_dim.next_multiple_of(16));
            let (layout, scale) = (Layout::Plain, 0.3);
            check(&Case { rows, dtype, dq, head_dim, columns, layout, adds: false, scale });
        }
    }
}

#[test]
fn rows_that_are_not_used_are_0_or_stay_as_they_are() {
    for rows in Rows::kinds() {
        for layout in [Layout::Plain, Layout::Backwards] {
            for (dq, adds) in [(DType::BF16, false), (DType::F32, false), (DType::F32, true)] {
                let (rows, dtype) = (rows.clone(), DType::BF16);
                let (head_dim, columns, scale) = (16, 16, 0.25);
                check(&Case { rows, dtype, dq, head_dim, columns, layout, adds, scale });
            }
        }
    }
}

#[test]
fn nan_stays_in_its_place() {
    let mut gpu = Gpu::default();
    let rows = Rows::dense(1, 3, 2);
    let sums = gpu.tensor(DType::F32, &[1, 2, 3, 16], Layout::Plain, |index| {
        Some(if index[1..] == [1, 2, 4] { f64::NAN } else { 1.0 })
    });
    let dq = gpu.output(DType::F16, &rows.shape(16), Layout::Plain);
    run(&mut gpu, &rows, (DType::F16, 16), &sums, 2.0, Gradient::Write(dq.view_mut()));
    for index in dq.indices() {
        let expected = if index[1..] == [2, 1, 4] { f64::NAN } else { 2.0 };
        assert_close(gpu.get(&dq, &index), expected, 0.0, format_args!("{index:?}"));
    }
}

#[test]
fn a_call_without_dq_has_nothing_to_finish() {
    let mut gpu = Gpu::default();
    let rows = Rows::dense(1, 3, 2);
    let dout = gpu.empty(DType::F16, &rows.shape(8), Layout::Plain);
    let numbers = gpu.empty(DType::F32, &rows.numbers(), Layout::Plain);
    let given = Given {
        rows: &rows,
        dtype: DType::F16,
        dims: [8, 8],
        dout: &dout,
        out: OutOrDelta::Delta(numbers.view()),
        lse: &numbers,
        dlse: None,
        sinks: None,
        scale: 1.0,
    };
    let workspace =
        BackwardWorkspace { delta: numbers.address(), dq_sum: None, dbias_sum: None, turns: None };
    with_call(&mut gpu, given, GradientTargets::default(), |_, call| {
        let plan = PassPlan::<passes::FinishDqClass>::finish_dq(call, limits(), &workspace);
        assert_eq!(plan.unwrap(), None);
        assert_eq!(PassPlan::dsinks(call, limits(), &workspace).unwrap(), None);
    });
}
