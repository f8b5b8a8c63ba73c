//! One measurement of `compare`, in a process of its own: its peak memory is then its own too.

use std::process::{Command, Stdio};
use std::time::Instant;

use clap::{Args, ValueEnum};
use jhalak::{Attention, FlashAttention, Tensor, TensorView};
use serde::{Deserialize, Serialize};

use crate::engine::EngineArgs;
use crate::failure::{Failure, say};
use crate::inputs::Normal;
use crate::interrupt;
use crate::memory;
use crate::standard::Standard;

/// Runs are repeated for this long, in seconds: the best one counts.
const ENOUGH: f64 = 0.5;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// jhalak's forward.
    Jhalak,
    /// Standard attention, and its difference from jhalak.
    Standard,
}

/// One measurement; used by `compare`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Step {
    #[arg(long)]
    pub(crate) kind: Kind,
    #[arg(long)]
    pub(crate) seqlen: usize,
    #[arg(long)]
    pub(crate) heads: usize,
    #[arg(long)]
    pub(crate) dim: usize,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// What was measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// The best time of one forward.
    pub(crate) seconds: f64,
    /// How far the resident memory grew beyond q, k, v and out.
    pub(crate) peak_bytes: u64,
    /// The largest difference between the two outs, where both were computed.
    pub(crate) largest_difference: Option<f64>,
}

impl Step {
    /// Measures in a child process. `Err` says in a sentence why there is no measurement.
    pub(crate) fn in_child(&self) -> Result<Measurement, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let kind = self.kind.to_possible_value().expect("no kind is skipped");
        let spawn = || {
            Command::new(program)
                .args(["step", "--kind", kind.get_name()])
                .arg(format!("--seqlen={}", self.seqlen))
                .arg(format!("--heads={}", self.heads))
                .arg(format!("--dim={}", self.dim))
                .args(self.engine.to_flags())
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
        };
        let read = |stdout: Option<_>| stdout.map(std::io::read_to_string);
        let (said, status) = interrupt::with_child(spawn, read)
            .map_err(|error| format!("the measuring process did not start: {error}"))?;
        let said = said.and_then(Result::ok).unwrap_or_default();
        match serde_json::from_str(&said) {
            Ok(measurement) if status.success() => Ok(measurement),
            _ if status.code().is_none() => Err("ran out of memory, or was ended".into()),
            _ => Err(format!("the measuring process failed ({status})")),
        }
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        let Step { seqlen, heads, dim, .. } = *self;
        // The baseline runs on rayon's global pool; 0 stands for its own choice.
        rayon::ThreadPoolBuilder::new()
            .num_threads(self.engine.threads.map_or(0, usize::from))
            .build_global()
            .map_err(|error| Failure::Input(error.to_string()))?;
        let threads = self.engine.thread_count();
        let mut normal = Normal::new(seqlen as u64);
        let [q, k, v] = [0; 3].map(|_| normal.take(seqlen * heads * dim));
        let shape = [1, seqlen, heads, dim];
        // Touched, so that it is not counted as growth.
        let mut out = Tensor::from_vec(vec![1f32; q.len()], &shape)?;
        let mut lse = Tensor::from_vec(vec![1f32; seqlen * heads], &[1, heads, seqlen])?;
        let engine = self.engine.engine()?;
        let view = |x| TensorView::from_slice(x, &shape);
        let (q_view, k_view, v_view) = (view(&q)?, view(&k)?, view(&v)?);
        memory::reset_peak();
        let before = memory::resident();
        let mut attend = || -> Result<(), Failure> {
            let attention = Attention::new();
            attention.on(&engine).forward_into(q_view, k_view, v_view, &mut out, &mut lse)?;
            Ok(())
        };
        let measurement = match self.kind {
            Kind::Jhalak => {
                let (seconds, peak_bytes) = measure(before, attend)?;
                Measurement { seconds, peak_bytes, largest_difference: None }
            }
            Kind::Standard => {
                let mut of_standard = vec![1f32; q.len()];
                let before = memory::resident();
                let mut standard = Standard::new(seqlen, heads, dim, engine.isa(), threads)
                    .ok_or(Failure::Input("there is no memory for the scores".into()))?;
                let (seconds, peak_bytes) = measure(before, || {
                    standard.run(&q, &k, &v, &mut of_standard);
                    Ok(())
                })?;
                attend()?;
                let of_jhalak = out.as_slice::<f32>().expect("made as f32");
                let differences = of_jhalak.iter().zip(&of_standard).map(|(a, b)| (a - b).abs());
                // A NaN anywhere must not hide: max would skip it.
                let worst = differences.fold(0f32, |a, b| if b <= a { a } else { b });
                let largest_difference = Some(f64::from(worst));
                Measurement { seconds, peak_bytes, largest_difference }
            }
        };
        let json = serde_json::to_string(&measurement)
            .map_err(|error| Failure::Input(error.to_string()))?;
        say(json)
    }
}

/// The best time of several runs, in seconds, and how far the first one made memory grow, in
/// bytes: later ones find what the allocator kept.
fn measure(
    before: Option<u64>,
    mut run: impl FnMut() -> Result<(), Failure>,
) -> Result<(f64, u64), Failure> {
    let mut time = || -> Result<f64, Failure> {
        let start = Instant::now();
        run()?;
        Ok(start.elapsed().as_secs_f64())
    };
    let mut best = time()?;
    let growth = memory::peak().zip(before).map_or(0, |(peak, before)| peak.saturating_sub(before));
    let mut total = best;
    while total < ENOUGH {
        let seconds = time()?;
        best = best.min(seconds);
        total += seconds;
    }
    Ok((best, growth))
}
