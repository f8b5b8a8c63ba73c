//! jhalak's side of `benchmarks/peers/run.py`, which starts it: requests come as lines of JSON, and
//! each is answered by one.

#[allow(dead_code, reason = "the attention benchmark needs the rest")]
#[path = "attention/cases.rs"]
mod cases;
#[path = "attention/tensors.rs"]
mod tensors;

use std::error::Error;
use std::time::{Duration, Instant};

use clap::Parser;
use jhalak_cpu::{Engine, IsaKind, peak};
use jhalak_problem::{DType, Result};
use serde_json::{Value, json};

use cases::Case;
use tensors::Tensors;

/// How long each ceiling is measured.
const PEAK_TIME: Duration = Duration::from_millis(300);

#[derive(Parser)]
struct Options {
    /// Number of threads; without it there is nothing to do
    #[arg(long)]
    threads: Option<usize>,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let Some(threads) = Options::parse().threads else {
        return Ok(());
    };
    let engine = Engine::new()?.threads(threads)?;
    let version = format!("jhalak {}, {}", env!("CARGO_PKG_VERSION"), engine.isa());
    println!("{}", json!({ "version": version }));
    let mut tensors = None;
    for line in std::io::stdin().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = match (request["op"].as_str(), &mut tensors) {
            (Some("ceilings"), _) => ceilings(threads),
            (Some("prepare"), _) => {
                // The memory of the case before goes first.
                tensors = None;
                let new = tensors.insert(Tensors::new(case(&request["case"])?)?);
                // These runs also touch all memory.
                new.forward(&engine)?;
                seconds(new, &engine, 1)?;
                let once = seconds(new, &engine, 1)?;
                json!({ "seconds": once, "values": values(new, &request["places"]) })
            }
            (Some("sample"), Some(tensors)) => {
                let calls = request["calls"].as_u64().ok_or("calls must be a number")?;
                json!({ "seconds": seconds(tensors, &engine, calls)? })
            }
            _ => {
                tensors = None;
                json!({})
            }
        };
        println!("{answer}");
    }
    Ok(())
}

fn case(value: &Value) -> std::result::Result<Case, Box<dyn Error>> {
    let size = |name: &str| value[name].as_u64().map(|n| n as usize).ok_or("a size is missing");
    Ok(Case {
        dtype: match value["dtype"].as_str() {
            Some("f32") => DType::F32,
            Some("bf16") => DType::BF16,
            Some("f16") => DType::F16,
            _ => return Err("dtype must be f32, bf16 or f16".into()),
        },
        heads: size("heads")?,
        heads_k: size("heads_k")?,
        seqlen: size("seqlen")?,
        head_dim: size("head_dim")?,
        causal: value["causal"] == true,
        backward: value["direction"] == "backward",
        decode: value["direction"] == "decode",
    })
}

/// Seconds a call, over this many calls.
fn seconds(tensors: &mut Tensors, engine: &Engine, calls: u64) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..calls {
        match tensors.case.backward {
            false => tensors.forward(engine)?,
            true => tensors.backward(engine)?,
        }
    }
    Ok(start.elapsed().as_secs_f64() / calls as f64)
}

/// The elements asked for: of each tensor, places in the order of [S, H, D].
fn values(tensors: &Tensors, places: &Value) -> Value {
    let results =
        [("out", &tensors.out), ("dq", &tensors.dq), ("dk", &tensors.dk), ("dv", &tensors.dv)];
    let asked = results.into_iter().filter_map(|(name, tensor)| {
        let all = tensor.to_f64_vec();
        let places = places[name].as_array()?.iter().filter_map(Value::as_u64);
        Some((name.to_owned(), places.map(|place| all[place as usize]).collect()))
    });
    Value::Object(asked.collect())
}

/// The best that this many threads can do, with any instruction set of the machine.
fn ceilings(threads: usize) -> Value {
    let best = |rate: fn(IsaKind, usize, Duration) -> f64| {
        IsaKind::available().map(|isa| rate(isa, threads, PEAK_TIME)).fold(0.0, f64::max)
    };
    json!({
        "fma_gflops": best(peak::fma_gflops),
        "bf16_gflops": peak::bf16_gflops(threads, PEAK_TIME),
        "read_bytes_per_second": best(peak::read_bandwidth),
    })
}
