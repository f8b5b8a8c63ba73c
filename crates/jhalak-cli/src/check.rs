//! `jhalak check`: is jhalak right on this machine?
//!
//! Every case runs forward and backward with every instruction set and dtype, and is held against
//! the f64 reference. The measure is standard attention in the dtype itself, the yardstick:
//!
//! ```text
//! out:        largest error ≤ 2 · yardstick's + 1 ulp of the largest |out|
//! gradients:  largest error ≤ 3 · yardstick's + 1 ulp of the largest |gradient|
//! lse:        largest error ≤ 1e-5 + 4 ulp (1e-3 for 16-bit inputs)
//! ```

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use jhalak::{Attended, DType, Engine, FlashAttention, Gradients, IsaKind};
use rayon::prelude::*;

use crate::cases::{CASES, Case, Tensors};
use crate::failure::{Failure, say};
use crate::report;
use crate::yardstick::Answers;

/// Check every instruction set of this machine against the f64 reference.
///
/// A few dozen combinations of options, forward and backward, in f32, f16, bf16 and f64.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Check only this instruction set: scalar, avx2, avx512 or avx512bf16
    #[arg(long, value_name = "NAME")]
    isa: Option<IsaKind>,
}

const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

impl Check {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let chosen: Vec<IsaKind> = match self.isa {
            Some(isa) => vec![isa],
            None => IsaKind::available().collect(),
        };
        let engines = chosen.into_iter().map(Engine::with_isa).collect::<Result<Vec<_>, _>>()?;
        let calls: Vec<(&Case, DType)> =
            CASES.iter().flat_map(|case| DTYPES.map(|dtype| (case, dtype))).collect();
        let progress = progress_bar(calls.len() as u64);
        // The reference is slow, and single-threaded: calls side by side keep all cores busy.
        let problems: Vec<Vec<Vec<String>>> = calls
            .par_iter()
            .map(|(case, dtype)| {
                let problems = check(case, *dtype, &engines);
                progress.inc(1);
                problems
            })
            .collect::<Result<_, _>>()?;
        progress.finish_and_clear();
        let mut wrong = 0;
        for (n, engine) in engines.iter().enumerate() {
            wrong += say_of(engine.isa(), problems.iter().map(|of_call| of_call[n].as_slice()))?;
        }
        if wrong > 0 {
            let results = report::count(wrong, "result");
            return Err(Failure::Verdict(format!("{results} came out wrong on this machine")));
        }
        say("all is well")
    }
}

/// What is wrong with a call, for each engine.
fn check(case: &Case, dtype: DType, engines: &[Engine]) -> Result<Vec<Vec<String>>, Failure> {
    let tensors = case.tensors(dtype)?;
    let answers = Answers::new(&case.attention(&tensors), &tensors)?;
    let problems = engines.iter().map(|engine| {
        let problems = match results(case, &tensors, engine) {
            Ok((attended, gradients)) => answers.judge(&attended, &gradients),
            Err(error) => vec![error.to_string()],
        };
        let name = |problem| format!("{}, {dtype}: {problem}", case.name);
        problems.into_iter().map(name).collect()
    });
    Ok(problems.collect())
}

fn results(
    case: &Case,
    tensors: &Tensors,
    engine: &Engine,
) -> jhalak::Result<(Attended, Gradients)> {
    let attention = case.attention(tensors);
    let (q, k, v) = (&tensors.q, &tensors.k, &tensors.v);
    let attended = attention.on(engine).forward(q, k, v)?;
    let gradients = attention.on(engine).backward(q, k, v, &attended, &tensors.dout)?;
    Ok((attended, gradients))
}

/// Says how an instruction set did, and returns how many results were wrong.
fn say_of<'p>(
    isa: IsaKind,
    calls: impl ExactSizeIterator<Item = &'p [String]>,
) -> Result<usize, Failure> {
    let count = report::count(calls.len(), "call");
    let problems: Vec<&String> = calls.flatten().collect();
    if problems.is_empty() {
        say(format_args!("{isa:<11} right: {count}, forward and backward"))?;
    } else {
        let results = report::count(problems.len(), "result");
        say(format_args!("{isa:<11} WRONG: {results} of {count}"))?;
    }
    problems.iter().try_for_each(|problem| say(format_args!("            {problem}")))?;
    Ok(problems.len())
}

/// Drawn on stderr, and only where it is a terminal.
fn progress_bar(steps: u64) -> ProgressBar {
    let progress = ProgressBar::new(steps);
    match ProgressStyle::with_template("{bar:30} {pos}/{len} calls") {
        Ok(style) => progress.with_style(style),
        Err(_) => progress,
    }
}
