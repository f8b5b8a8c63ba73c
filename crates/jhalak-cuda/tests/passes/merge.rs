//! Merging results over different keys, against the reference.

use jhalak_cuda::kernels::Access;
use jhalak_cuda::kernels::passes::{MERGE, MergeClass, Parts, THREADS, merge};
use jhalak_cuda::plan::{Limits, PassPlan, SplitWorkspace};
use jhalak_problem::{Attention, DType, Forward, Merge, Problem, reference};
use jhalak_ptx::Target;

use crate::calls::limits;
use crate::gpu::{Gpu, Held, Layout};
use crate::numbers::{assert_close, half_ulp, noise, rounded};

/// Dense [B, Sq, Hq, Dv], or packed [rows, Hq, Dv].
#[derive(Clone, Debug)]
struct Shape(Vec<usize>);

impl Shape {
    fn numbers(&self) -> Vec<usize> {
        match *self.0 {
            [b, s, h, _] => vec![b, h, s],
            [s, h, _] => vec![h, s],
            _ => panic!("out has 3 or 4 dimensions"),
        }
    }

    /// The index of a row's lse.
    fn number(&self, row: &[usize]) -> Vec<usize> {
        match *row {
            [b, i, h] => vec![b, h, i],
            [i, h] => vec![h, i],
            _ => panic!("out has 3 or 4 dimensions"),
        }
    }

    fn width(&self) -> usize {
        self.0[self.0.len() - 1]
    }

    /// The number of a row, in row-major order.
    fn row(&self, row: &[usize]) -> usize {
        row.iter().zip(&self.0).fold(0, |n, (i, size)| n * size + i)
    }
}

/// lse of a row and a part: some are empty, of some rows all are.
fn lse_of(row: usize, part: usize) -> f64 {
    match (row * 31 + part * 17) % 11 {
        _ if row % 13 == 5 => f64::NEG_INFINITY,
        0 => f64::NEG_INFINITY,
        1 => f64::INFINITY,
        2 => 1e4 * noise(row),
        _ => f64::from((6.0 * noise(row * 64 + part)) as f32),
    }
}

/// A part's out and lse. Nobody has written the out of an empty row.
fn part(
    gpu: &mut Gpu,
    shape: &Shape,
    n: usize,
    dtype: DType,
    layout: Layout,
    lse_of: impl Fn(usize, usize) -> f64,
) -> (Held, Held) {
    let out = gpu.tensor(dtype, &shape.0, layout, |index| {
        let row = shape.row(&index[..index.len() - 1]);
        let value = noise(row * 4096 + index[index.len() - 1] * 16 + n);
        lse_of(row, n).is_finite().then(|| rounded(dtype, value))
    });
    let lse = gpu.tensor(DType::F32, &shape.numbers(), layout, |index| {
        let row = match *index {
            [b, h, i] => shape.row(&[b, i, h]),
            _ => shape.row(&[index[1], index[0]]),
        };
        Some(lse_of(row, n))
    });
    (out, lse)
}

/// Panics unless out and lse are the parts', merged.
fn check(gpu: &Gpu, shape: &Shape, parts: &[(Held, Held)], out: &Held, lse: &Held) {
    let width = shape.width();
    let rows: Vec<Vec<usize>> = out
        .indices()
        .into_iter()
        .filter(|i| i[i.len() - 1] == 0)
        .map(|i| i[..i.len() - 1].to_vec())
        .collect();
    for row in rows {
        let number = shape.number(&row);
        let column = |c: usize| [row.as_slice(), &[c]].concat();
        let values: Vec<(Vec<f64>, [f64; 1])> = parts
            .iter()
            .map(|(out, lse)| {
                let lse = gpu.get(lse, &number);
                let read = |c| if lse.is_infinite() { f64::NAN } else { gpu.get(out, &column(c)) };
                ((0..width).map(read).collect(), [lse])
            })
            .collect();
        let views: Vec<(&[f64], &[f64])> =
            values.iter().map(|(out, lse)| (out.as_slice(), lse.as_slice())).collect();
        let expected = reference::merge(&views, width);
        let what = format!("{shape:?} row {row:?}");
        let lse_most = 1e-6 + 2.0 * half_ulp(DType::F32, expected.lse[0]);
        assert_close(gpu.get(lse, &number), expected.lse[0], lse_most, &what);
        for c in 0..width {
            let (found, value) = (gpu.get(out, &column(c)), expected.out[c]);
            // Values are up to 1; weights have exponents of up to 12, rounded twice.
            let most = 3e-6 + half_ulp(out.dtype, value.abs() + 3e-6);
            assert_close(found, value, most, &what);
            assert!(found != 0.0 || found.is_sign_positive() || value != 0.0, "{what}");
        }
    }
    gpu.assert_surroundings(out);
    gpu.assert_surroundings(lse);
}

fn run(gpu: &mut Gpu, plan: &PassPlan<MergeClass>, seed: u64) {
    let module = merge(&plan.class).unwrap();
    gpu.run(&module, MERGE, plan.grid, THREADS, &plan.arguments, seed);
}

fn merged(
    gpu: &mut Gpu,
    parts: &[(Held, Held)],
    (out, lse): (&Held, &Held),
) -> PassPlan<MergeClass> {
    let views: Vec<_> = parts.iter().map(|(out, lse)| (out.view(), lse.view())).collect();
    let call = Merge::new(&views, out.view_mut(), lse.view_mut()).unwrap();
    let plan = PassPlan::merge(&call, limits()).unwrap().unwrap();
    run(gpu, &plan, 0);
    plan
}

fn check_separate(shape: &Shape, dtypes: &[DType], out: DType, layout: Layout) -> MergeClass {
    let mut gpu = Gpu::default();
    let parts: Vec<_> = dtypes
        .iter()
        .enumerate()
        .map(|(n, &dtype)| part(&mut gpu, shape, n, dtype, layout, lse_of))
        .collect();
    let out = gpu.output(out, &shape.0, layout);
    let lse = gpu.output(DType::F32, &shape.numbers(), layout);
    let plan = merged(&mut gpu, &parts, (&out, &lse));
    check(&gpu, shape, &parts, &out, &lse);
    plan.class
}

#[test]
fn one_part_and_more_merge_as_the_reference_does() {
    use DType::{BF16, F16, F32};
    let dense = Shape(vec![2, 15, 2, 24]);
    let packed = Shape(vec![40, 2, 24]);
    for shape in [&dense, &packed] {
        for (dtypes, out) in [
            (&[F32][..], F32),
            (&[BF16], F16),
            (&[F32, F32], F32),
            (&[F32, F32], BF16),
            (&[F16, F16], F16),
            (&[F32, BF16, F16], F32),
            (&[F32; 7], F16),
        ] {
            check_separate(shape, dtypes, out, Layout::Plain);
        }
    }
}

#[test]
fn outs_may_lie_in_any_way() {
    for (layout, vectors) in [
        (Layout::Plain, true),
        (Layout::Gaps, true),
        (Layout::Backwards, false),
        (Layout::ColumnsFirst, false),
    ] {
        let shape = Shape(vec![2, 14, 2, 16]);
        let class = check_separate(&shape, &[DType::F32, DType::F16], DType::F16, layout);
        assert_eq!(class.access == Access::Vectors, vectors, "{layout:?}");
    }
}

#[test]
fn outs_of_any_width_merge() {
    for width in [1, 3, 8, 60, 128, 200, 256] {
        let shape = Shape(vec![1, 14, 1, width]);
        check_separate(&shape, &[DType::F32, DType::F32], DType::F32, Layout::Plain);
        check_separate(&shape, &[DType::F16, DType::F16], DType::F16, Layout::Plain);
    }
}

#[test]
fn the_only_part_that_saw_keys_is_taken_bit_by_bit() {
    let shape = Shape(vec![1, 20, 2, 8]);
    let mut gpu = Gpu::default();
    let lse_of = |row: usize, n| match n {
        1 => f64::from((8.0 * noise(row)) as f32),
        0 => f64::INFINITY,
        _ => f64::NEG_INFINITY,
    };
    let parts = [0, 1, 2].map(|n| part(&mut gpu, &shape, n, DType::F32, Layout::Plain, lse_of));
    let out = gpu.output(DType::F32, &shape.0, Layout::Plain);
    let lse = gpu.output(DType::F32, &shape.numbers(), Layout::Plain);
    merged(&mut gpu, &parts, (&out, &lse));
    for index in out.indices() {
        assert_eq!(gpu.get(&out, &index), gpu.get(&parts[1].0, &index));
    }
    for index in lse.indices() {
        assert_eq!(gpu.get(&lse, &index), gpu.get(&parts[1].1, &index));
    }
}

/// One row for each: the parts' lse, and lse and out of the whole; the parts' outs are 1 and NaN.
#[test]
fn nan_is_seen_where_it_counts_and_only_there() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases = [
        ([0.5, -inf], (0.5, 1.0)),
        ([0.5, inf], (0.5, 1.0)),
        ([-inf, inf], (-inf, 0.0)),
        ([nan, -inf], (nan, nan)),
        ([-inf, nan], (nan, nan)),
        ([nan, 2.0], (nan, nan)),
        ([1.0, 1.0], (1.0 + 2f64.ln(), nan)),
    ];
    let shape = Shape(vec![1, cases.len(), 1, 8]);
    let mut gpu = Gpu::default();
    let parts = [0, 1].map(|n| {
        let value = if n == 0 { 1.0 } else { nan };
        let out = gpu.tensor(DType::F16, &shape.0, Layout::Plain, |_| Some(value));
        let numbers = shape.numbers();
        let lse = gpu.tensor(DType::F32, &numbers, Layout::Plain, |i| Some(cases[i[2]].0[n]));
        (out, lse)
    });
    let out = gpu.output(DType::F16, &shape.0, Layout::Plain);
    let lse = gpu.output(DType::F32, &shape.numbers(), Layout::Plain);
    merged(&mut gpu, &parts, (&out, &lse));
    for (i, (lses, (whole, value))) in cases.into_iter().enumerate() {
        assert_close(gpu.get(&lse, &[0, 0, i]), whole, 2e-7, format_args!("{lses:?}"));
        for c in 0..8 {
            assert_close(gpu.get(&out, &[0, i, 0, c]), value, 0.0, format_args!("{lses:?}"));
        }
    }
}

/// Merges parts that lie in one workspace, as those of a forward call.
fn check_stacked(shape: &Shape, count: usize, dtype: DType, layout: Layout, seed: u64) -> Parts {
    let mut gpu = Gpu::default();
    let stacked = |shape: &[usize]| [&[count], shape].concat();
    let outs = gpu.empty(DType::F32, &stacked(&shape.0), Layout::Plain);
    let lses = gpu.empty(DType::F32, &stacked(&shape.numbers()), Layout::Plain);
    let parts: Vec<_> = (0..count)
        .map(|n| {
            let (out, lse) = part(&mut gpu, shape, n, DType::F32, Layout::Plain, lse_of);
            gpu.copy(&out, &outs, n);
            gpu.copy(&lse, &lses, n);
            (out, lse)
        })
        .collect();
    let out = gpu.output(dtype, &shape.0, layout);
    let lse = gpu.output(DType::F32, &shape.numbers(), layout);
    let packed = shape.0.len() == 3;
    let key_shape =
        if packed { vec![2, 1, shape.width()] } else { vec![shape.0[0], 2, 1, shape.width()] };
    let q = gpu.empty(dtype, &shape.0, Layout::Plain);
    let keys = gpu.empty(dtype, &key_shape, Layout::Plain);
    let starts = gpu.empty(DType::I32, &[3], Layout::Plain);
    let attention = match packed {
        true => Attention::new().cu_seqlens(starts.view(), starts.view()),
        false => Attention::new(),
    };
    let problem = Problem::new(&attention, q.view(), keys.view(), keys.view()).unwrap();
    let call = Forward::new(&problem, out.view_mut(), lse.view_mut()).unwrap();
    let workspace =
        SplitWorkspace { parts: count as u32, out: outs.address(), lse: lses.address() };
    let plan = PassPlan::combine(&call, limits(), &workspace).unwrap().unwrap();
    run(&mut gpu, &plan, seed);
    check(&gpu, shape, &parts, &out, &lse);
    plan.class.parts
}

#[test]
fn parts_of_few_rows_are_shared_by_a_block() {
    for (shape, count) in [
        (Shape(vec![2, 1, 3, 128]), 40),
        (Shape(vec![1, 9, 2, 64]), 3),
        (Shape(vec![30, 2, 24]), 17),
        (Shape(vec![1, 14, 1, 7]), 70),
        (Shape(vec![1, 14, 1, 256]), 9),
        (Shape(vec![2, 20, 1, 8]), 1),
    ] {
        for (seed, dtype) in [DType::F32, DType::BF16].into_iter().enumerate() {
            for layout in [Layout::Plain, Layout::Backwards] {
                let parts = check_stacked(&shape, count, dtype, layout, seed as u64);
                assert_eq!(parts, Parts::Stacked { shared: true });
            }
        }
    }
}

#[test]
fn parts_of_many_rows_have_lanes_of_their_own() {
    for (shape, count) in [
        (Shape(vec![1, 1100, 2, 16]), 2),
        (Shape(vec![2100, 1, 5]), 3),
        (Shape(vec![3, 700, 1, 8]), 9),
    ] {
        for layout in [Layout::Plain, Layout::Backwards] {
            let parts = check_stacked(&shape, count, DType::F16, layout, 0);
            assert_eq!(parts, Parts::Stacked { shared: false });
        }
    }
}

#[test]
fn what_a_gpu_cannot_merge_is_named() {
    let mut gpu = Gpu::default();
    let mut refused =
        |dtype: DType, lse_dtype: DType, width: usize, count: usize, limits: Limits| {
            let out = gpu.empty(dtype, &[1, 2, 1, width], Layout::Plain);
            let lse = gpu.empty(lse_dtype, &[1, 1, 2], Layout::Plain);
            let target = gpu.empty(DType::F32, &[1, 2, 1, width], Layout::Plain);
            let target_lse = gpu.empty(lse_dtype, &[1, 1, 2], Layout::Plain);
            let parts = vec![(out.view(), lse.view()); count];
            let call = Merge::new(&parts, target.view_mut(), target_lse.view_mut()).unwrap();
            PassPlan::merge(&call, limits).unwrap_err().to_string()
        };
    use DType::{BF16, F32, F64};
    let says = |text: String, words: &[&str]| {
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    says(refused(F64, F32, 8, 2, limits()), &["a part's out", "f64"]);
    says(refused(BF16, F32, 8, 2, Limits::of(Target::Sm75)), &["a part's out", "bf16"]);
    says(refused(F32, F64, 8, 2, limits()), &["lse", "f64"]);
    says(refused(F32, F32, 257, 2, limits()), &["Dv", "256", "257"]);
    says(refused(F32, F32, 8, 49, limits()), &["parts", "48", "49"]);
}

#[test]
fn a_merge_without_rows_has_no_plan() {
    let mut gpu = Gpu::default();
    let out = gpu.empty(DType::F32, &[2, 0, 3, 8], Layout::Plain);
    let lse = gpu.empty(DType::F32, &[2, 3, 0], Layout::Plain);
    let parts = [(out.view(), lse.view())];
    let call = Merge::new(&parts, out.view_mut(), lse.view_mut()).unwrap();
    assert_eq!(PassPlan::merge(&call, limits()).unwrap(), None);
}
