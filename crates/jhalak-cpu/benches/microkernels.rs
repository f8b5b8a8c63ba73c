//! Single microkernels on tiles in the cache, on every instruction set of the machine.
//!
//! ```text
//! cargo bench -p jhalak-cpu --bench microkernels -- scores/avx2
//! ```
//!
//! Products are rated in multiply-adds counted as two, beside the peak that is printed first;
//! packing in bytes read; the softmax step and the exponential in elements.

#![allow(missing_docs, reason = "criterion_group! makes a public function")]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use half::{bf16, f16};
use jhalak_cpu::kernels::{Step, exp2, steps};
use jhalak_cpu::{IsaKind, peak};
use jhalak_problem::{Attention, DType, Problem, Tensor};

/// Rows and keys of the engine's tiles.
const ROWS: usize = 48;
const KEYS: usize = 256;
/// Numbers for the exponential, 16 KiB.
const IN_L1: usize = 4096;
const PEAK_TIME: Duration = Duration::from_millis(300);
/// Of each benchmark.
const TIME: Duration = Duration::from_secs(1);

fn forward_steps(criterion: &mut Criterion) {
    for isa in IsaKind::available() {
        println!("{isa}: peak {:.1} GFLOP/s in f32", peak::fma_gflops(isa, 1, PEAK_TIME));
        if let (IsaKind::Avx512Bf16, Some(peak)) = (isa, peak::bf16_gflops(1, PEAK_TIME)) {
            println!("{isa}: peak {peak:.1} GFLOP/s in bf16");
        }
        for step in
            [Step::Scores, Step::Softmax, Step::Accumulate, Step::PackKeys, Step::PackValues]
        {
            let name = match step {
                Step::Scores => "scores",
                Step::Softmax => "softmax",
                Step::Accumulate => "accumulate",
                Step::PackKeys => "pack_keys",
                Step::PackValues => "pack_values",
            };
            let mut group = criterion.benchmark_group(format!("{name}/{isa}"));
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                if is_of_its_own(step, dtype, isa) {
                    for head_dim in [64, 128] {
                        bench_step(&mut group, step, isa, dtype, head_dim);
                    }
                }
            }
        }
    }
}

/// Packed operands are f32 but for bf16 where the CPU multiplies that.
fn is_of_its_own(step: Step, dtype: DType, isa: IsaKind) -> bool {
    matches!(step, Step::PackKeys | Step::PackValues)
        || dtype == DType::F32
        || (dtype == DType::BF16 && isa == IsaKind::Avx512Bf16)
}

fn bench_step(
    group: &mut BenchmarkGroup<'_, WallTime>,
    step: Step,
    isa: IsaKind,
    dtype: DType,
    head_dim: usize,
) {
    let [q, k, v] = [ROWS, KEYS, KEYS].map(|rows| tensor(dtype, rows, head_dim));
    let attention = Attention::new();
    let problem = Problem::new(&attention, q.view(), k.view(), v.view()).expect("shapes agree");
    let mut take = steps(isa, &problem).expect("there is memory");
    group.throughput(match step {
        Step::Scores | Step::Accumulate => {
            Throughput::Elements(2 * (ROWS * KEYS * head_dim) as u64)
        }
        Step::Softmax => Throughput::Elements((ROWS * KEYS) as u64),
        Step::PackKeys | Step::PackValues => {
            Throughput::Bytes((KEYS * head_dim * dtype.size()) as u64)
        }
    });
    group.bench_function(format!("{dtype}/D{head_dim}"), |bencher| bencher.iter(|| take(step)));
}

/// [1, rows, 1, head_dim], in ±1.
fn tensor(dtype: DType, rows: usize, head_dim: usize) -> Tensor {
    let shape = [1, rows, 1, head_dim];
    let numbers = (0..rows * head_dim).map(|n| (n * 7919 % 1009) as f32 / 504.0 - 1.0);
    match dtype {
        DType::F16 => Tensor::from_vec(numbers.map(f16::from_f32).collect(), &shape),
        DType::BF16 => Tensor::from_vec(numbers.map(bf16::from_f32).collect(), &shape),
        _ => Tensor::from_vec(numbers.collect::<Vec<f32>>(), &shape),
    }
    .expect("as many numbers as the shape says")
}

fn exponential(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("exp2");
    group.throughput(Throughput::Elements(IN_L1 as u64));
    for isa in IsaKind::available() {
        // NaN stays NaN, and costs the same as other numbers.
        let mut x = vec![f32::NAN; IN_L1];
        group.bench_function(isa.to_string(), |bencher| {
            bencher.iter(|| exp2(isa, black_box(&mut x)));
        });
    }
}

fn configured() -> Criterion {
    Criterion::default().warm_up_time(TIME / 4).measurement_time(TIME)
}

criterion_group!(name = benches; config = configured(); targets = forward_steps, exponential);
criterion_main!(benches);
