//! What an option costs: its rate against that of the plain path for the same visible pairs,
//! forward and backward.
//!
//! ```text
//! cargo bench -p jhalak-cpu --bench options
//! ```
//!
//! Each sample of an option stands between two of the plain path (full or causal, whichever sees
//! as much), so that other work on the machine touches both; the medians of the ratios are shown.

use std::time::Instant;

use jhalak_cpu::Engine;
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Element, Forward, Gradient, GradientTargets,
    OutOrDelta, Problem, Result, Tensor,
};

const HEADS: usize = 8;
const SEQLEN: usize = 2048;
const HEAD_DIM: usize = 128;
const WINDOW: usize = 512;
const SAMPLES: usize = 5;

/// Inputs, and where results go.
struct Run {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dout: Tensor,
    out: Tensor,
    lse: Tensor,
    gradients: [Tensor; 3],
}

/// An option: its name, the plain path that it is compared with, and the pairs that it sees beside
/// those of that path.
struct Row<'a> {
    name: &'static str,
    attention: Attention<'a>,
    plain: Attention<'a>,
    /// Visible pairs, as a share of those of the plain path.
    share: f64,
}

fn main() -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut run = Run::new()?;
    let bias = numbers(&[1, HEADS, SEQLEN, SEQLEN], 5)?;
    let one_bias = numbers(&[1, 1, SEQLEN, SEQLEN], 6)?;
    let mask = made(&[1, 1, SEQLEN, SEQLEN], |n| n * 7 % 11 != 0)?;
    let slopes = made(&[HEADS], |h| 0.5f32.powi(h as i32 + 1))?;
    let sinks = made(&[HEADS], |h| h as f32 / 4.0)?;
    let (full, causal) = (Attention::new, || Attention::new().causal());
    // Pairs of a causal window over those of the triangle.
    let window = (SEQLEN * WINDOW - WINDOW * WINDOW / 2) as f64 / (SEQLEN * SEQLEN / 2) as f64;
    let row = |name, attention, plain| Row { name, attention, plain, share: 1.0 };
    let rows = [
        row("plain again", causal(), causal()),
        Row { share: window, ..row("window 512", causal().window(WINDOW as i64 - 1, 0), causal()) },
        row("softcap", causal().softcap(30.0), causal()),
        row("ALiBi", causal().alibi_slopes(slopes.view()), causal()),
        row("sinks", causal().sinks(sinks.view()), causal()),
        row("boolean mask", full().mask(mask.view()), full()),
        row("bias", full().bias(bias.view()), full()),
        row("bias of one head", full().bias(one_bias.view()), full()),
        row("dropout", causal().dropout(0.1, 7, 0), causal()),
    ];
    println!("f32, H{HEADS} S{SEQLEN} D{HEAD_DIM}; rate over that of the plain path");
    println!("{:18} {:>8} {:>9} {:>9}", "option", "threads", "forward", "backward");
    for threads in (1..=threads).filter(|&n| n == 1 || n == threads) {
        let engine = Engine::new()?.threads(threads)?;
        for row in &rows {
            let forward = run.ratio(&engine, row, Run::forward)?;
            let backward = run.ratio(&engine, row, Run::backward)?;
            println!("{:18} {threads:8} {forward:9.2} {backward:9.2}", row.name);
        }
    }
    Ok(())
}

impl Run {
    fn new() -> Result<Self> {
        let shape = [1, SEQLEN, HEADS, HEAD_DIM];
        let zeros = || Tensor::zeros(DType::F32, &shape);
        Ok(Run {
            q: numbers(&shape, 1)?,
            k: numbers(&shape, 2)?,
            v: numbers(&shape, 3)?,
            dout: numbers(&shape, 4)?,
            out: zeros()?,
            lse: Tensor::zeros(DType::F32, &[1, HEADS, SEQLEN])?,
            gradients: [zeros()?, zeros()?, zeros()?],
        })
    }

    fn forward(&mut self, engine: &Engine, attention: &Attention<'_>) -> Result<()> {
        let problem = Problem::new(attention, self.q.view(), self.k.view(), self.v.view())?;
        engine.forward(&Forward::new(&problem, self.out.view_mut(), self.lse.view_mut())?)
    }

    fn backward(&mut self, engine: &Engine, attention: &Attention<'_>) -> Result<()> {
        let problem = Problem::new(attention, self.q.view(), self.k.view(), self.v.view())?;
        let inputs = BackwardInputs {
            dout: self.dout.view(),
            out: OutOrDelta::Out(self.out.view()),
            lse: self.lse.view(),
            dlse: None,
        };
        let mut targets = GradientTargets::default();
        let [dq, dk, dv] = &mut self.gradients;
        targets.dq = Some(Gradient::Write(dq.view_mut()));
        targets.dk = Some(Gradient::Write(dk.view_mut()));
        targets.dv = Some(Gradient::Write(dv.view_mut()));
        engine.backward(&Backward::new(&problem, inputs, targets)?)
    }

    /// The option's pairs per second over those of the plain path.
    fn ratio(
        &mut self,
        engine: &Engine,
        row: &Row<'_>,
        pass: impl Fn(&mut Self, &Engine, &Attention<'_>) -> Result<()>,
    ) -> Result<f64> {
        let mut seconds = |attention: &Attention<'_>| -> Result<f64> {
            // The backward pass needs out and lse of this very call.
            self.forward(engine, attention)?;
            let start = Instant::now();
            pass(self, engine, attention)?;
            Ok(start.elapsed().as_secs_f64())
        };
        let mut ratios = Vec::new();
        for _ in 0..SAMPLES {
            let before = seconds(&row.plain)?;
            let option = seconds(&row.attention)?;
            let after = seconds(&row.plain)?;
            ratios.push((before + after) / 2.0 / option * row.share);
        }
        ratios.sort_by(f64::total_cmp);
        Ok(ratios[SAMPLES / 2])
    }
}

/// Numbers from −2 to 2, each by its place.
fn numbers(shape: &[usize], seed: usize) -> Result<Tensor> {
    made(shape, |n| {
        let mixed = n.wrapping_mul(1_000_003) ^ seed;
        (mixed.wrapping_mul(0x9E37_79B9) >> 7 & 0xFFFF) as f32 / 16384.0 - 2.0
    })
}

/// Elements made from their number.
fn made<T: Element>(shape: &[usize], element: impl Fn(usize) -> T) -> Result<Tensor> {
    Tensor::from_vec((0..shape.iter().product()).map(element).collect(), shape)
}
