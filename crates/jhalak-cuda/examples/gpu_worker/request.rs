//! What is asked for.

use std::error::Error;

use jhalak_problem::{Attention, DType};
use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    pub what: String,
    pub backward: bool,
    pub dtype: DType,
    pub batch: usize,
    pub seqlen: usize,
    /// Queries, if there are not as many as keys.
    pub queries: usize,
    pub heads: usize,
    pub heads_k: usize,
    pub dim: usize,
    pub causal: bool,
    pub window: Option<i64>,
    pub deterministic: bool,
    /// Kernels of Turing instead of the GPU's own.
    pub turing: bool,
    /// The portable kernels alone.
    pub portable: bool,
    /// How long calls are repeated.
    pub ms: f64,
}

impl Request {
    /// Reads a line.
    pub fn parse(line: &str) -> Result<Self, Box<dyn Error>> {
        let fields: Value = serde_json::from_str(line)?;
        let number = |name: &str| {
            fields[name].as_u64().map(|n| n as usize).ok_or_else(|| format!("`{name}` is missing"))
        };
        let dtype = match fields["dtype"].as_str() {
            Some("f16") => DType::F16,
            Some("f32") => DType::F32,
            _ => DType::BF16,
        };
        let (heads, seqlen) = (number("heads")?, number("seqlen")?);
        Ok(Request {
            what: fields["what"].as_str().unwrap_or("time").to_owned(),
            backward: fields["pass"] == "backward",
            dtype,
            batch: number("batch")?,
            seqlen,
            queries: number("queries").unwrap_or(seqlen),
            heads,
            heads_k: number("heads_k").unwrap_or(heads),
            dim: number("dim")?,
            causal: fields["causal"] == true,
            window: fields["window"].as_i64(),
            deterministic: fields["deterministic"] == true,
            turing: fields["target"] == "sm_75",
            portable: fields["path"] == "portable",
            ms: fields["ms"].as_f64().unwrap_or(60.0),
        })
    }

    /// The options.
    pub fn attention(&self) -> Attention<'static> {
        let attention = Attention::new();
        let attention = if self.causal { attention.causal() } else { attention };
        let attention = if self.deterministic { attention.deterministic() } else { attention };
        match self.window {
            Some(left) => attention.window(left, 0),
            None => attention,
        }
    }
}
