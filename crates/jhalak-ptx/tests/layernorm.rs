//! A small kernel from beginning to end: written, compared with f64 over shapes and seeds, judged by
//! ptxas; and what the emulator says when one of its barriers is forgotten.

use jhalak_gate::Gate;
use jhalak_ptx::Comparison::Eq;
use jhalak_ptx::emulator::{Fault, Launch, Memory, Report, run_seeds};
use jhalak_ptx::{B32, F32, KernelBuilder, Module, ModuleBuilder, Region, Target};

const WARPS: u32 = 4;
const THREADS: u32 = 32 * WARPS;
const EPSILON: f32 = 1e-5;

/// A barrier that a broken variant leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Barrier {
    /// Between the warps' sums and those who read them.
    BeforeReading,
    /// Between the last reading of the sums and the next ones.
    BeforeReuse,
}

/// y = (x - mean) / √(variance + ε), row by row; a block takes a row.
fn layernorm(k: &mut KernelBuilder, forgotten: Option<Barrier>) {
    k.reqntid(THREADS);
    let (x, y) = (k.param_pointer("x", 4), k.param_pointer("y", 4));
    let columns = k.param_u32("columns");
    let (x, y, columns) = (k.ld_param(x), k.ld_param(y), k.ld_param(columns));
    let partial = k.static_shared("partial", 4 * WARPS, 16);

    let (row, thread) = (k.ctaid_x(), k.tid_x());
    let begin = k.mul_wide_u32(row, columns);
    let begin = k.shl_b64(begin, 2);
    let (x, y) = (k.add_u64(x, begin), k.add_u64(y, begin));
    let as_float = k.cvt_f32_u32(columns);
    let inverse = k.rcp_f32(as_float);

    let sum = k.mov_f32(0.0);
    k.for_range(thread, columns, THREADS, |k, column| {
        let place = k.mad_wide_u32(column, 4, x);
        let value: F32 = k.ld(place);
        k.add_f32_to(sum, sum, value);
    });
    let sum = sum_of_block(k, partial, thread, sum, forgotten);
    let mean = k.mul_f32(sum, inverse);
    if forgotten != Some(Barrier::BeforeReuse) {
        k.bar_sync_all();
    }

    let squares = k.mov_f32(0.0);
    k.for_range(thread, columns, THREADS, |k, column| {
        let place = k.mad_wide_u32(column, 4, x);
        let value: F32 = k.ld(place);
        let distance = k.sub_f32(value, mean);
        k.fma_f32_to(squares, distance, distance, squares);
    });
    let squares = sum_of_block(k, partial, thread, squares, forgotten);
    let variance = k.fma_f32(squares, inverse, EPSILON);
    let scale = k.rsqrt_f32(variance);

    k.for_range(thread, columns, THREADS, |k, column| {
        let (from, to) = (k.mad_wide_u32(column, 4, x), k.mad_wide_u32(column, 4, y));
        let value: F32 = k.ld(from);
        let distance = k.sub_f32(value, mean);
        let result = k.mul_f32(distance, scale);
        k.st(to, result);
    });
}

/// The sum over a block's threads, in each of them: lanes by shuffles, warps by shared memory.
#[track_caller]
fn sum_of_block(
    k: &mut KernelBuilder,
    partial: Region,
    thread: B32,
    mut value: F32,
    forgotten: Option<Barrier>,
) -> F32 {
    for distance in [16, 8, 4, 2, 1] {
        let other = k.shfl_bfly_f32(value, distance);
        value = k.add_f32(value, other);
    }
    let (warp, lane) = (k.shr_u32(thread, 5), k.and_b32(thread, 31));
    let partial = k.shared_address(partial);
    let mine = k.mad_lo_u32(warp, 4, partial);
    let first = k.setp_u32(Eq, lane, 0);
    k.when(first, |k| k.st(mine, value));
    if forgotten != Some(Barrier::BeforeReading) {
        k.bar_sync_all();
    }
    let sums: [F32; WARPS as usize] = k.ld_vector(partial);
    sums.into_iter().reduce(|a, b| k.add_f32(a, b)).expect("a block has warps")
}

fn module(target: Target, forgotten: Option<Barrier>) -> Module {
    let mut module = ModuleBuilder::new(target);
    module.kernel("layernorm", |k| layernorm(k, forgotten));
    module.build().expect("a legal kernel")
}

fn run(module: &Module, seed: u64, rows: usize, columns: usize) -> Result<f64, Report> {
    let x: Vec<f32> = (0..rows * columns).map(|i| (i * 37 % 101) as f32 / 8.0 - 3.0).collect();
    let mut memory = Memory::new();
    let (from, to) = (memory.alloc(&x), memory.alloc_uninitialised(4 * x.len()));
    let launch = Launch::new(module, "layernorm").grid(rows as u32, 1, 1).block(THREADS);
    launch.arg(from).arg(to).arg(columns as u32).seed(seed).run(&mut memory)?;
    let y = memory.read::<f32>(to, x.len()).expect("every element is written");
    let rows = x.chunks(columns).zip(y.chunks(columns));
    Ok(rows.map(|(x, y)| error_of(x, y)).fold(0.0, f64::max))
}

/// The largest distance of a row's results from those in f64.
fn error_of(x: &[f32], y: &[f32]) -> f64 {
    let x: Vec<f64> = x.iter().copied().map(f64::from).collect();
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let scale = (variance + f64::from(EPSILON)).sqrt().recip();
    let distances = x.iter().zip(y).map(|(x, y)| ((x - mean) * scale - f64::from(*y)).abs());
    distances.fold(0.0, |a, b| if b.is_nan() { f64::NAN } else { a.max(b) })
}

#[test]
fn it_agrees_with_f64_for_all_shapes_and_seeds() {
    let module = module(Target::Sm75, None);
    for (rows, columns) in [(1, 1), (3, 5), (2, 128), (4, 129), (2, 1000)] {
        let result = run_seeds(0..20, |seed| {
            let error = run(&module, seed, rows, columns)?;
            assert!(error <= 4e-6, "{rows} x {columns}: error {error}");
            Ok::<(), Report>(())
        });
        assert_eq!(result, Ok(()), "{rows} x {columns}");
    }
}

#[test]
fn a_forgotten_barrier_is_reported() {
    for forgotten in [Barrier::BeforeReading, Barrier::BeforeReuse] {
        let module = module(Target::Sm75, Some(forgotten));
        for seed in 0..20 {
            let report = run(&module, seed, 2, 200).expect_err("it was let pass");
            let known = matches!(report.fault, Fault::Race { .. } | Fault::Uninitialised { .. });
            assert!(known, "{report}");
            let place = report.place.expect("an instruction");
            assert!(place.instruction.contains(".shared"), "{place}");
        }
    }
}

#[test]
fn ptxas_takes_it_for_every_target() {
    let gate = Gate::new().expect("the tools of `make gate-tools`");
    for target in [Target::Sm75, Target::Sm80, Target::Sm89, Target::Sm90a] {
        let text = module(target, None).text();
        let assembled = gate.assemble(&text, target.name()).expect("ptxas takes it");
        assembled.assert_no_advisory();
        assembled.kernel("layernorm").assert_no_spills();
    }
}
