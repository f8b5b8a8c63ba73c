//! The options of a call, as one tuple from Python.

use jhalak::{Attention, TensorView};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::tensor::RawTensor;

/// All options but the dtype of out. `jhalak/_raw.py` makes the tuple, in this order.
pub(crate) struct Options {
    scale: Option<f64>,
    causal: bool,
    window: (i64, i64),
    softcap: f64,
    dropout_p: f64,
    seed: u64,
    offset: u32,
    q_start: Option<i64>,
    k_start: Option<i64>,
    bias: Option<RawTensor>,
    mask: Option<RawTensor>,
    alibi_slopes: Option<RawTensor>,
    sinks: Option<RawTensor>,
    cu_seqlens: Option<(RawTensor, RawTensor)>,
    seqused_q: Option<RawTensor>,
    seqused_k: Option<RawTensor>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Options {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let fields = object.cast::<PyTuple>()?;
        let tensor = |n: usize| fields.get_borrowed_item(n)?.extract::<Option<RawTensor>>();
        Ok(Options {
            scale: fields.get_borrowed_item(0)?.extract()?,
            causal: fields.get_borrowed_item(1)?.extract()?,
            window: (
                fields.get_borrowed_item(2)?.extract()?,
                fields.get_borrowed_item(3)?.extract()?,
            ),
            softcap: fields.get_borrowed_item(4)?.extract()?,
            dropout_p: fields.get_borrowed_item(5)?.extract()?,
            seed: fields.get_borrowed_item(6)?.extract()?,
            offset: fields.get_borrowed_item(7)?.extract()?,
            q_start: fields.get_borrowed_item(8)?.extract()?,
            k_start: fields.get_borrowed_item(9)?.extract()?,
            bias: tensor(10)?.map(RawTensor::broadcast_to_four),
            mask: tensor(11)?.map(RawTensor::broadcast_to_four),
            alibi_slopes: tensor(12)?,
            sinks: tensor(13)?,
            cu_seqlens: tensor(14)?.zip(tensor(15)?),
            seqused_q: tensor(16)?,
            seqused_k: tensor(17)?,
        })
    }
}

impl Options {
    /// The options as jhalak takes them.
    ///
    /// # Safety
    /// As [`RawTensor::view`], for every tensor among the options.
    pub(crate) unsafe fn attention<'a>(&self) -> PyResult<Attention<'a>> {
        let view = |tensor: &RawTensor, name| -> PyResult<TensorView<'a>> {
            // SAFETY: the caller's promise.
            unsafe { tensor.view(name) }
        };
        let (left, right) = self.window;
        let mut attention = Attention::new().window(left, right).softcap(self.softcap);
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if self.causal {
            attention = attention.causal();
        }
        if self.dropout_p != 0.0 {
            attention = attention.dropout(self.dropout_p, self.seed, self.offset);
        }
        if let Some(start) = self.q_start {
            attention = attention.q_start(start);
        }
        if let Some(start) = self.k_start {
            attention = attention.k_start(start);
        }
        if let Some(bias) = &self.bias {
            attention = attention.bias(view(bias, "bias")?);
        }
        if let Some(mask) = &self.mask {
            attention = attention.mask(view(mask, "mask")?);
        }
        if let Some(slopes) = &self.alibi_slopes {
            attention = attention.alibi_slopes(view(slopes, "alibi_slopes")?);
        }
        if let Some(sinks) = &self.sinks {
            attention = attention.sinks(view(sinks, "sinks")?);
        }
        if let Some((q, k)) = &self.cu_seqlens {
            attention = attention.cu_seqlens(view(q, "cu_seqlens_q")?, view(k, "cu_seqlens_k")?);
        }
        if let Some(lengths) = &self.seqused_q {
            attention = attention.seqused_q(view(lengths, "seqused_q")?);
        }
        if let Some(lengths) = &self.seqused_k {
            attention = attention.seqused_k(view(lengths, "seqused_k")?);
        }
        Ok(attention)
    }
}
