//! candle's flash attention for CPUs, answering `benchmarks/peers/run.py`: a line of JSON for each.
//! The number of threads comes from `RAYON_NUM_THREADS`.

use std::error::Error;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use candle_nn::attention::{AttnMask, flash_attn};
use half::{bf16, f16};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Seconds after which a call tells enough about its duration.
const LONG: f64 = 1.0;

fn main() -> Result<()> {
    println!("{}", json!({ "version": "candle-nn 0.11.1, built with target-cpu=native" }));
    let mut prepared = None;
    for line in std::io::stdin().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = match (request["op"].as_str(), &prepared) {
            (Some("prepare"), _) => {
                // The memory of the case before goes first.
                prepared = None;
                match prepare(&request["case"]) {
                    Ok(Some(call)) => {
                        // The first run also touches all memory. A long one is not repeated.
                        let (mut seconds, out) = call.time(1)?;
                        if seconds < LONG {
                            seconds = call.time(1)?.0;
                        }
                        prepared = Some(call);
                        json!({ "seconds": seconds, "values": values(&out, &request["places"])? })
                    }
                    Ok(None) => json!({ "missing": "forward only" }),
                    Err(error) => json!({ "error": error.to_string() }),
                }
            }
            (Some("sample"), Some(call)) => {
                let calls = request["calls"].as_u64().ok_or("calls must be a number")?;
                json!({ "seconds": call.time(calls)?.0 })
            }
            _ => {
                prepared = None;
                json!({})
            }
        };
        println!("{answer}");
    }
    Ok(())
}

/// Tensors [1, S, H, D], and what is done with them.
struct Call {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
}

fn prepare(case: &Value) -> Result<Option<Call>> {
    if case["direction"] == "backward" {
        return Ok(None);
    }
    let size = |name: &str| case[name].as_u64().map(|n| n as usize).ok_or("a size is missing");
    let dtype = match case["dtype"].as_str() {
        Some("f32") => DType::F32,
        Some("bf16") => DType::BF16,
        Some("f16") => DType::F16,
        _ => return Err("dtype must be f32, bf16 or f16".into()),
    };
    let (seqlen, head_dim) = (size("seqlen")?, size("head_dim")?);
    // One query sees every key: the causal kernel has the faster path for it.
    let decode = case["direction"] == "decode";
    let queries = if decode { 1 } else { seqlen };
    let tensor = |seed, rows, heads| -> Result<Tensor> {
        let numbers = uniform(seed, rows * heads * head_dim);
        let tensor = Tensor::from_vec(numbers, (1, rows, heads, head_dim), &Device::Cpu)?;
        Ok(tensor.to_dtype(dtype)?)
    };
    Ok(Some(Call {
        q: tensor(1, queries, size("heads")?)?,
        k: tensor(2, seqlen, size("heads_k")?)?,
        v: tensor(3, seqlen, size("heads_k")?)?,
        causal: case["causal"] == true || decode,
    }))
}

impl Call {
    /// The output, [1, H, S, D].
    fn run(&self) -> candle_core::Result<Tensor> {
        let scale = 1.0 / (self.q.dims()[3] as f32).sqrt();
        let offset = self.k.dims()[1] - self.q.dims()[1];
        let mask = if self.causal { AttnMask::causal_with_offset(offset) } else { AttnMask::None };
        let [q, k, v] = [&self.q, &self.k, &self.v];
        match q.dtype() {
            DType::BF16 => flash_attn::<bf16>(q, k, v, scale, mask, None, None),
            DType::F16 => flash_attn::<f16>(q, k, v, scale, mask, None, None),
            _ => flash_attn::<f32>(q, k, v, scale, mask, None, None),
        }
    }

    /// Seconds a call, and the output of the last.
    fn time(&self, calls: u64) -> candle_core::Result<(f64, Tensor)> {
        let start = Instant::now();
        let mut out = self.run()?;
        for _ in 1..calls {
            out = self.run()?;
        }
        Ok((start.elapsed().as_secs_f64() / calls as f64, out))
    }
}

/// The elements asked for, places in the order of [S, H, D].
fn values(out: &Tensor, places: &Value) -> Result<Value> {
    let out = out.to_dtype(DType::F32)?.transpose(1, 2)?.flatten_all()?.to_vec1::<f32>()?;
    let places = places["out"].as_array().ok_or("places of out are missing")?;
    let asked: Vec<f32> =
        places.iter().filter_map(Value::as_u64).map(|place| out[place as usize]).collect();
    Ok(json!({ "out": asked }))
}

/// Uniform numbers with the variance of 1, each a hash of its place: `benchmarks/peers/worker.py`
/// makes the same.
fn uniform(seed: u32, count: usize) -> Vec<f32> {
    let number = |place: usize| {
        let mut x = place as u32 ^ seed.wrapping_mul(0x9E37_79B9);
        x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
        x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
        x ^= x >> 16;
        ((x >> 8) as f32 * 2f32.powi(-23) - 1.0) * 3f32.sqrt()
    };
    (0..count).map(number).collect()
}
