//! The flags of [`Attention`], one for each of its options.

use clap::Args;
use jhalak::{Attention, DType};

/// What is computed.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Attention")]
pub(crate) struct Options {
    /// Hide the keys after the query's own position; the last query sits on the last key
    #[arg(long)]
    causal: bool,
    /// See only the keys within L before and R after the query, both inclusive; -1 is unbounded
    #[arg(long, value_name = "L,R", value_parser = parse_window, allow_hyphen_values = true)]
    window: Option<(i64, i64)>,
    /// Multiply q·k by this [default: 1/sqrt(D)]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    scale: Option<f64>,
    /// Cap scores softly: s becomes c·tanh(s/c)
    #[arg(long, value_name = "C", allow_negative_numbers = true)]
    softcap: Option<f64>,
    /// Drop attention weights with this probability, and scale up the others
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    dropout: Option<f64>,
    /// Seed of the dropout mask [default: 0]
    #[arg(long, value_name = "N", requires = "dropout")]
    seed: Option<u64>,
    /// Offset of the dropout mask: another mask from the same seed [default: 0]
    #[arg(long, value_name = "N", requires = "dropout")]
    offset: Option<u32>,
    /// Position of the first query; 0 makes causal start at the top left
    #[arg(long, value_name = "POS", allow_negative_numbers = true)]
    q_start: Option<i64>,
    /// Position of the first key
    #[arg(long, value_name = "POS", allow_negative_numbers = true)]
    k_start: Option<i64>,
    /// Type of out: f32, or that of q [default: that of q]
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    out_dtype: Option<DType>,
}

impl Options {
    /// The options as a value, without tensors.
    pub(crate) fn attention(&self) -> Attention<'static> {
        let mut attention = Attention::new();
        if self.causal {
            attention = attention.causal();
        }
        if let Some((left, right)) = self.window {
            attention = attention.window(left, right);
        }
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if let Some(c) = self.softcap {
            attention = attention.softcap(c);
        }
        if let Some(p) = self.dropout {
            attention = attention.dropout(p, self.seed.unwrap_or(0), self.offset.unwrap_or(0));
        }
        if let Some(start) = self.q_start {
            attention = attention.q_start(start);
        }
        if let Some(start) = self.k_start {
            attention = attention.k_start(start);
        }
        if let Some(dtype) = self.out_dtype {
            attention = attention.out_dtype(dtype);
        }
        attention
    }
}

fn parse_window(text: &str) -> Result<(i64, i64), String> {
    let (left, right) = text.split_once(',').ok_or("a window is two whole numbers, as in 128,0")?;
    let bound = |text: &str| {
        text.trim().parse().map_err(|_| format!("a window is two whole numbers, not {text:?}"))
    };
    Ok((bound(left)?, bound(right)?))
}

fn parse_dtype(name: &str) -> Result<DType, String> {
    match name {
        "f32" => Ok(DType::F32),
        "f16" => Ok(DType::F16),
        "bf16" => Ok(DType::BF16),
        "f64" => Ok(DType::F64),
        _ => Err("out can be f32, f16, bf16 or f64".into()),
    }
}
