//! Times a case: jhalak and standard attention in turn, and the peak around them.

use std::time::{Duration, Instant};

use jhalak_cpu::{Engine, IsaKind, peak};
use jhalak_problem::{DType, Result, Tensor};

use crate::cases::Case;
use crate::machine::CpuTime;
use crate::standard::Standard;
use crate::tensors::Tensors;

/// How long a peak is measured each time.
const PEAK_TIME: Duration = Duration::from_millis(150);
/// A sample lasts at least this long: short calls are repeated within it.
const SAMPLE_TIME: Duration = Duration::from_millis(50);

/// The peaks of a number of threads, in GFLOP/s.
#[derive(Clone, Debug)]
pub struct Peaks {
    pub threads: usize,
    pub fma: Vec<(IsaKind, f64)>,
    /// Products of bf16 pairs, where the CPU has them.
    pub bf16: Option<f64>,
}

impl Peaks {
    pub fn measure(threads: usize) -> Self {
        let fma = |isa| (isa, peak::fma_gflops(isa, threads, PEAK_TIME));
        Peaks {
            threads,
            fma: IsaKind::available().map(fma).collect(),
            bf16: peak::bf16_gflops(threads, PEAK_TIME),
        }
    }

    /// The larger of each: other work on the machine only takes away.
    pub fn larger(&self, other: &Peaks) -> Self {
        let fma = self.fma.iter().zip(&other.fma).map(|(a, b)| (a.0, a.1.max(b.1)));
        let bf16 = self.bf16.zip(other.bf16).map(|(a, b)| a.max(b));
        Peaks { threads: self.threads, fma: fma.collect(), bf16 }
    }

    /// The ceiling of jhalak's products for this dtype on this instruction set.
    pub fn ceiling(&self, dtype: DType, isa: IsaKind) -> f64 {
        match (dtype, isa, self.bf16) {
            (DType::BF16, IsaKind::Avx512Bf16, Some(bf16)) => bf16,
            _ => self.fma.iter().find(|(kind, _)| *kind == isa).map_or(f64::NAN, |(_, peak)| *peak),
        }
    }
}

/// What a case took: seconds a call, a number per sample.
#[derive(Clone, Debug)]
pub struct Timing {
    pub case: Case,
    pub threads: usize,
    pub jhalak: Vec<f64>,
    pub standard: Vec<f64>,
    /// The share of the machine that other programs used meanwhile, where the system tells.
    pub others: Option<f64>,
}

impl Timing {
    pub fn gflops(&self, seconds: f64) -> f64 {
        self.case.flops() / seconds / 1e9
    }
}

pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

pub fn best(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Takes `samples` of each of the two in turn, so that both meet the same disturbances.
///
/// # Panics
/// If the two disagree about the result.
pub fn time(case: Case, isa: IsaKind, threads: usize, samples: usize) -> Result<Timing> {
    let engine = Engine::with_isa(isa)?.threads(threads)?;
    let mut tensors = Tensors::new(case)?;
    let mut standard = Standard::new(case, &tensors, isa, threads);
    let jhalak_call = |tensors: &mut Tensors| match case.backward {
        false => tensors.forward(&engine),
        true => tensors.backward(&engine),
    };
    let standard_call = |standard: &mut Standard| {
        match case.backward {
            false => standard.forward(),
            true => standard.backward(),
        }
        Ok(())
    };
    // These runs also touch all memory and fill the caches, untimed.
    tensors.forward(&engine)?;
    standard.forward();
    let (mut jhalak_once, mut standard_once) = (0.0, 0.0);
    for _ in 0..2 {
        jhalak_once = seconds(1, || jhalak_call(&mut tensors))?;
        standard_once = seconds(1, || standard_call(&mut standard))?;
    }
    check(&tensors, &standard);
    let (jhalak_calls, standard_calls) = (calls(jhalak_once), calls(standard_once));
    let cpu_time = CpuTime::now();
    let mut timing =
        Timing { case, threads, jhalak: Vec::new(), standard: Vec::new(), others: None };
    for _ in 0..samples {
        timing.jhalak.push(seconds(jhalak_calls, || jhalak_call(&mut tensors))?);
        timing.standard.push(seconds(standard_calls, || standard_call(&mut standard))?);
    }
    timing.others = cpu_time.and_then(CpuTime::used_by_others_since);
    Ok(timing)
}

fn calls(once: f64) -> usize {
    (SAMPLE_TIME.as_secs_f64() / once).ceil().max(1.0) as usize
}

/// Seconds a call, over this many calls.
fn seconds(calls: usize, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() / calls as f64)
}

/// Two algorithms that measure against each other must compute the same.
fn check(tensors: &Tensors, standard: &Standard) {
    let case = tensors.case;
    let pairs: &[(&str, &Tensor, &[f32])] = &[
        ("out", &tensors.out, &standard.out),
        ("dq", &tensors.dq, &standard.dq),
        ("dk", &tensors.dk, &standard.dk),
        ("dv", &tensors.dv, &standard.dv),
    ];
    for (what, ours, theirs) in &pairs[..if case.backward { 4 } else { 1 }] {
        let largest = theirs.iter().fold(0f64, |max, &x| max.max(f64::from(x).abs()));
        let bound = largest * if case.dtype == DType::F32 { 1e-4 } else { 2e-2 };
        for (ours, &theirs) in ours.to_f64_vec().into_iter().zip(*theirs) {
            let close = (ours - f64::from(theirs)).abs() <= bound;
            assert!(close, "{}: {what} is {ours}, by standard attention {theirs}", case.name());
        }
    }
}
