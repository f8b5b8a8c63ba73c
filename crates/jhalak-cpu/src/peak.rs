//! What the machine can do at most: multiply-adds in registers and reads from memory, for figures in
//! shares of the peak.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::dispatch::with_f32_isa;
use crate::isa::{Isa, IsaKind, Op};

/// Independent sums: latency times throughput of the multiply-add on any x86-64 core.
const CHAINS: usize = 12;
/// Multiply-adds per chain between two looks at the clock.
const STEPS: usize = 20_000;

/// The rate of f32 multiply-adds in GFLOP/s (each counted as two), on `threads` threads for
/// `time` each: the best slice of it, since other work on the machine only takes away. With
/// more threads than cores it is too high.
///
/// # Panics
/// If the machine lacks `isa`, or a thread cannot be started.
pub fn fma_gflops(isa: IsaKind, threads: usize, time: Duration) -> f64 {
    assert!(isa.is_available(), "this machine has no {isa}");
    on_threads(threads, || match isa {
        IsaKind::Scalar => best_rate(time, SWEEP_FLOPS, sweep),
        _ => with_f32_isa!(isa, isa => best_rate(time, chain_flops(isa), || isa.run(Chains(isa)))),
    })
}

/// The rate of bf16 products in GFLOP/s by vdpbf16ps, or `None` where the CPU lacks it.
///
/// # Panics
/// If a thread cannot be started.
pub fn bf16_gflops(threads: usize, time: Duration) -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        let isa = crate::isa::Avx512Bf16::new()?;
        let flops = (PAIR_CHAINS * STEPS * 64) as f64;
        Some(on_threads(threads, || best_rate(time, flops, || isa.run(PairChains(isa)))))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (threads, time);
        None
    }
}

/// Numbers that each thread reads from memory, 256 MiB: much more than its share of any cache.
const READ: usize = 64 << 20;
/// Places of memory that a thread reads from in turn, so that more reads are under way: a fifth
/// faster than one (Zen 3), and no slower than eight.
const STREAMS: usize = 4;

/// The rate of reads from memory in bytes a second, on `threads` threads that start together, for
/// `time` or a little more: the best round of it. A round ends with the last thread.
///
/// # Panics
/// If the machine lacks `isa`, or a thread cannot be started.
pub fn read_bandwidth(isa: IsaKind, threads: usize, time: Duration) -> f64 {
    assert!(isa.is_available(), "this machine has no {isa}");
    let (together, over) = (Barrier::new(threads), AtomicBool::new(false));
    on_threads(threads, || {
        // Written by the thread that reads it: its memory is near.
        let numbers = vec![1f32; READ];
        let start = Instant::now();
        let mut best = 0f64;
        while !over.load(Ordering::Relaxed) {
            together.wait();
            let round = Instant::now();
            with_f32_isa!(isa, isa => isa.run(Reads { isa, numbers: black_box(&numbers) }));
            together.wait();
            best = best.max(size_of_val(&numbers[..]) as f64 / round.elapsed().as_secs_f64());
            if start.elapsed() >= time {
                over.store(true, Ordering::Relaxed);
            }
            // Everyone sees the same before the next round.
            together.wait();
        }
        best
    })
}

struct Reads<'m, I> {
    isa: I,
    numbers: &'m [f32],
}

impl<I: Isa<Elem = f32>> Op for Reads<'_, I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.isa;
        let stream = self.numbers.len() / STREAMS;
        let mut sums = [isa.splat(0.0); STREAMS];
        for at in (0..stream / I::LANES * I::LANES).step_by(I::LANES) {
            for (n, sum) in sums.iter_mut().enumerate() {
                // SAFETY: one vector inside the stream, which is inside the slice.
                let x = unsafe { isa.load(self.numbers.as_ptr().add(n * stream + at)) };
                *sum = isa.add(*sum, x);
            }
        }
        let total = sums.into_iter().fold(isa.splat(0.0), |total, sum| isa.add(total, sum));
        black_box(isa.reduce_add(total));
    }
}

fn on_threads(threads: usize, rate: impl Fn() -> f64 + Sync) -> f64 {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&rate)).collect();
        rate() + others.into_iter().map(|t| t.join().expect("measuring")).sum::<f64>()
    })
}

fn chain_flops<I: Isa>(_: I) -> f64 {
    (CHAINS * STEPS * I::LANES * 2) as f64
}

fn best_rate(time: Duration, flops: f64, work: impl Fn()) -> f64 {
    let start = Instant::now();
    let mut best = 0f64;
    loop {
        let slice = Instant::now();
        work();
        best = best.max(flops / slice.elapsed().as_secs_f64() / 1e9);
        if start.elapsed() >= time {
            return best;
        }
    }
}

struct Chains<I>(I);

impl<I: Isa<Elem = f32>> Op for Chains<I> {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.0;
        let mut sums = [isa.splat(black_box(1.0)); CHAINS];
        let (factor, addend) = (isa.splat(black_box(0.999)), isa.splat(black_box(1e-3)));
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = isa.fma(*sum, factor, addend);
            }
        }
        let total = sums.into_iter().fold(isa.splat(0.0), |total, sum| isa.add(total, sum));
        black_box(isa.reduce_add(total));
    }
}

/// Numbers in a sweep of portable code, sweeps, and multiplications and additions per number: the
/// best of 1 to 32 steps and 40 to 4096 numbers, four fifths of what SSE2 can do (Zen 3).
const SWEEP: usize = 1024;
const SWEEPS: usize = 200;
const SWEEP_STEPS: usize = 3;
const SWEEP_FLOPS: f64 = (SWEEP * SWEEPS * SWEEP_STEPS * 2) as f64;

/// The portable counterpart of [`Chains`], whose sums would be spilled: without intrinsics the
/// compiler keeps few in registers. Here it makes vectors of neighbours, and the CPU overlaps
/// their short chains.
fn sweep() {
    let mut sums = black_box([1f32; SWEEP]);
    let (factor, addend) = (black_box(0.999), black_box(1e-3));
    for _ in 0..SWEEPS {
        for sum in &mut sums {
            for _ in 0..SWEEP_STEPS {
                *sum = *sum * factor + addend;
            }
        }
    }
    black_box(sums);
}

/// The latency of vdpbf16ps is longer: it needs more sums.
#[cfg(target_arch = "x86_64")]
const PAIR_CHAINS: usize = 24;

#[cfg(target_arch = "x86_64")]
struct PairChains(crate::isa::Avx512Bf16);

#[cfg(target_arch = "x86_64")]
impl Op for PairChains {
    type Output = ();

    #[inline(always)]
    fn eval(self) {
        let isa = self.0;
        let mut sums = [isa.splat(black_box(1.0)); PAIR_CHAINS];
        // bf16 pairs (2^-40, 2^-40) and (1, 1): sums stay near 1.
        let (a, b) =
            (isa.splat_pair(black_box(0x2B80_2B80)), isa.splat_pair(black_box(0x3F80_3F80)));
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = isa.dot_pairs(*sum, a, b);
            }
        }
        let total = sums.into_iter().fold(isa.splat(0.0), |total, sum| isa.add(total, sum));
        black_box(isa.reduce_add(total));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRIEFLY: Duration = Duration::from_millis(20);

    #[test]
    fn a_peak_is_positive_and_finite_on_every_instruction_set() {
        for isa in IsaKind::available() {
            for threads in [1, 2] {
                let peak = fma_gflops(isa, threads, BRIEFLY);
                assert!(peak > 0.0 && peak.is_finite(), "{isa} {threads} {peak}");
            }
        }
        if let Some(peak) = bf16_gflops(1, BRIEFLY) {
            assert!(peak > 0.0 && peak.is_finite(), "{peak}");
        }
    }

    #[test]
    fn reads_have_a_positive_and_finite_rate_on_every_instruction_set() {
        for isa in IsaKind::available() {
            for threads in [1, 2] {
                let rate = read_bandwidth(isa, threads, BRIEFLY);
                assert!(rate > 0.0 && rate.is_finite(), "{isa} {threads} {rate}");
            }
        }
    }

    #[test]
    fn no_time_at_all_still_gives_a_figure() {
        assert!(fma_gflops(IsaKind::Scalar, 1, Duration::ZERO) > 0.0);
    }
}
