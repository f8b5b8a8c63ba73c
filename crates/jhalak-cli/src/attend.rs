//! `jhalak attend`: attention on tensors in files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use jhalak::{Attended, Attention, FlashAttention, Tensor};

use crate::engine::EngineArgs;
use crate::failure::{Failure, note, say};
use crate::files::{self, Archive};
use crate::options::Options;
use crate::report;

/// Compute attention on tensors in files.
///
/// A safetensors file holds q [B, Sq, Hq, D], k [B, Sk, Hk, D] and v [B, Sk, Hk, Dv], and, where
/// wanted, bias, mask, alibi_slopes, sinks, seqused_q, seqused_k. With cu_seqlens_q and
/// cu_seqlens_k the sequences are packed and q is [total, Hq, D]. The result holds out and lse.
#[derive(Debug, Args)]
pub(crate) struct Attend {
    /// One .safetensors file, or three .npy files: q k v
    #[arg(value_name = "INPUT", num_args = 1..=3, required = true)]
    inputs: Vec<PathBuf>,
    /// Where out and lse go, a .safetensors file
    #[arg(short, long, value_name = "FILE", required_unless_present = "expect")]
    out: Option<PathBuf>,
    /// Compare with the out (and lse, if there) in this file; exit with 1 if they differ
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// The largest difference that passes for equal
    #[arg(
        long,
        value_name = "X",
        default_value = "1e-5",
        requires = "expect",
        value_parser = parse_tolerance
    )]
    tolerance: f64,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    engine: EngineArgs,
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if x >= 0.0 => Ok(x),
        _ => Err("a tolerance is a number of at least 0".into()),
    }
}

impl Attend {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.check_out()?;
        let inputs = Inputs::read(&self.inputs)?;
        // Read early: a mistake here should not cost the computation.
        let expected = self.expect.as_deref().map(Expected::read).transpose()?;
        let engine = self.engine.engine()?;
        let attention = inputs.with_options(self.options.attention());
        let progress = ProgressBar::new_spinner().with_message("attending");
        progress.enable_steady_tick(Duration::from_millis(100));
        let start = Instant::now();
        let attended = attention.on(&engine).forward(&inputs.q, &inputs.k, &inputs.v)?;
        let seconds = start.elapsed().as_secs_f64();
        progress.finish_and_clear();
        let verdict = expected.map(|expected| expected.compare(&attended, self.tolerance));
        let verdict = verdict.transpose()?;
        if let Some(path) = &self.out {
            let tensors = [("out", &attended.out), ("lse", &attended.lse)];
            files::write_safetensors(path, &tensors)?;
        }
        let (out, lse) = (&attended.out, &attended.lse);
        say(format_args!(
            "out {}{:?}, lse {}{:?}: {} with {} on {}",
            out.dtype(),
            out.shape(),
            lse.dtype(),
            lse.shape(),
            report::time(seconds),
            engine.isa(),
            report::count(self.engine.thread_count(), "thread"),
        ))?;
        verdict.map_or(Ok(()), say)
    }

    fn check_out(&self) -> Result<(), Failure> {
        let Some(out) = &self.out else { return Ok(()) };
        if !files::has_extension(out, "safetensors") {
            return Err(Failure::file(out, "the output must be named .safetensors"));
        }
        let place = fs::canonicalize(out).ok();
        let read = self.inputs.iter().chain(&self.expect);
        if place.is_some() && read.into_iter().any(|path| fs::canonicalize(path).ok() == place) {
            return Err(Failure::file(out, "the output would replace a file that is read"));
        }
        Ok(())
    }
}

/// The tensors of a call that an input file may hold besides q, k and v.
const OPTIONAL: [&str; 8] = [
    "bias",
    "mask",
    "alibi_slopes",
    "sinks",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "seqused_q",
    "seqused_k",
];

struct Inputs {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// In the order of [`OPTIONAL`].
    optional: [Option<Tensor>; 8],
}

impl Inputs {
    fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        match paths {
            [q, k, v] if paths.iter().all(|path| files::has_extension(path, "npy")) => {
                let [q, k, v] = [q, k, v].map(|path| files::read_npy(path));
                Ok(Inputs { q: q?, k: k?, v: v?, optional: Default::default() })
            }
            [path] if files::has_extension(path, "npy") => {
                Err(Failure::file(path, "q, k and v are three .npy files; here is only one"))
            }
            [path] => Self::read_safetensors(path),
            _ => Err(Failure::Input(
                "the input is one .safetensors file, or three .npy files: q k v".into(),
            )),
        }
    }

    fn read_safetensors(path: &Path) -> Result<Self, Failure> {
        let bytes = files::read(path)?;
        let archive = Archive::parse(path, &bytes)?;
        let known = |name: &&str| ["q", "k", "v"].contains(name) || OPTIONAL.contains(name);
        let unknown: Vec<&str> = archive.names().into_iter().filter(|name| !known(name)).collect();
        let mut optional: [Option<Tensor>; 8] = Default::default();
        for (place, name) in optional.iter_mut().zip(OPTIONAL) {
            *place = archive.get(name)?;
        }
        let [q, k, v] = ["q", "k", "v"].map(|name| archive.need(name));
        let inputs = Inputs { q: q?, k: k?, v: v?, optional };
        if inputs.optional[4].is_some() != inputs.optional[5].is_some() {
            let problem = "cu_seqlens_q and cu_seqlens_k must be given together";
            return Err(Failure::file(path, problem));
        }
        if !unknown.is_empty() {
            note(format_args!("{}: not used: {}", path.display(), unknown.join(", ")));
        }
        Ok(inputs)
    }

    fn with_options<'a>(&'a self, mut attention: Attention<'a>) -> Attention<'a> {
        let [bias, mask, slopes, sinks, cu_q, cu_k, used_q, used_k] =
            self.optional.each_ref().map(|tensor| tensor.as_ref().map(Tensor::view));
        if let Some(bias) = bias {
            attention = attention.bias(bias);
        }
        if let Some(mask) = mask {
            attention = attention.mask(mask);
        }
        if let Some(slopes) = slopes {
            attention = attention.alibi_slopes(slopes);
        }
        if let Some(sinks) = sinks {
            attention = attention.sinks(sinks);
        }
        if let (Some(q), Some(k)) = (cu_q, cu_k) {
            attention = attention.cu_seqlens(q, k);
        }
        if let Some(lengths) = used_q {
            attention = attention.seqused_q(lengths);
        }
        if let Some(lengths) = used_k {
            attention = attention.seqused_k(lengths);
        }
        attention
    }
}

/// A result to compare with.
struct Expected {
    out: Tensor,
    lse: Option<Tensor>,
}

impl Expected {
    fn read(path: &Path) -> Result<Self, Failure> {
        if files::has_extension(path, "npy") {
            return Ok(Expected { out: files::read_npy(path)?, lse: None });
        }
        let bytes = files::read(path)?;
        let archive = Archive::parse(path, &bytes)?;
        Ok(Expected { out: archive.need("out")?, lse: archive.get("lse")? })
    }

    /// What to say about the difference; a failure if it is above the tolerance.
    fn compare(&self, got: &Attended, tolerance: f64) -> Result<String, Failure> {
        let out = largest_difference("out", &got.out, &self.out)?;
        let lse = self.lse.as_ref().map(|lse| largest_difference("lse", &got.lse, lse));
        let lse = lse.transpose()?;
        let of_lse = lse.map_or(String::new(), |error| format!(", of lse {error:.2e}"));
        let errors = format!("largest error of out {out:.2e}{of_lse}");
        if out <= tolerance && lse.unwrap_or(0.0) <= tolerance {
            Ok(format!("{errors}: within the tolerance of {tolerance:e}"))
        } else {
            let errors = format!("{errors}: above the tolerance of {tolerance:e}");
            Err(Failure::Verdict(errors))
        }
    }
}

/// Equal infinities and two NaN do not differ; one NaN differs without bound.
fn largest_difference(name: &str, got: &Tensor, expected: &Tensor) -> Result<f64, Failure> {
    if got.shape() != expected.shape() {
        return Err(Failure::Input(format!(
            "the expected {name} has shape {:?}, but the result has {:?}",
            expected.shape(),
            got.shape()
        )));
    }
    let pairs = got.to_f64_vec().into_iter().zip(expected.to_f64_vec());
    let differences = pairs.map(|(a, b)| match (a - b).abs() {
        _ if a == b || (a.is_nan() && b.is_nan()) => 0.0,
        difference if difference.is_nan() => f64::INFINITY,
        difference => difference,
    });
    Ok(differences.fold(0.0, f64::max))
}
