//! The options of a call, as one tuple from Python.

use jhalak::{Attention, TensorView};
use pyo3::exceptions::PyValueError;
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
        let fields = Fields { fields: &fields };
        let (cu_seqlens_q, cu_seqlens_k) =
            (fields.tensor(14, "cu_seqlens_q")?, fields.tensor(15, "cu_seqlens_k")?);
        if cu_seqlens_q.is_some() != cu_seqlens_k.is_some() {
            let text = "cu_seqlens_q and cu_seqlens_k must be given together";
            return Err(PyValueError::new_err(text));
        }
        Ok(Options {
            scale: fields.get(0, "scale")?,
            causal: fields.get(1, "causal")?,
            window: (fields.get(2, "window")?, fields.get(3, "window")?),
            softcap: fields.get(4, "softcap")?,
            dropout_p: fields.get(5, "dropout_p")?,
            seed: fields.get(6, "seed")?,
            offset: fields.get(7, "offset")?,
            q_start: fields.get(8, "q_start")?,
            k_start: fields.get(9, "k_start")?,
            bias: fields.tensor(10, "bias")?.map(RawTensor::broadcast_to_four),
            mask: fields.tensor(11, "mask")?.map(RawTensor::broadcast_to_four),
            alibi_slopes: fields.tensor(12, "alibi_slopes")?,
            sinks: fields.tensor(13, "sinks")?,
            cu_seqlens: cu_seqlens_q.zip(cu_seqlens_k),
            seqused_q: fields.tensor(16, "seqused_q")?,
            seqused_k: fields.tensor(17, "seqused_k")?,
        })
    }
}

/// The tuple's places, whose errors say which option is meant.
struct Fields<'a, 'py> {
    fields: &'a Borrowed<'a, 'py, PyTuple>,
}

impl<'py> Fields<'_, 'py> {
    fn get<T>(&self, place: usize, name: &str) -> PyResult<T>
    where
        T: for<'b> FromPyObject<'b, 'py>,
    {
        let field = self.fields.get_borrowed_item(place)?;
        field.extract::<T>().map_err(|error| named(self.fields.py(), error.into(), name))
    }

    fn tensor(&self, place: usize, name: &str) -> PyResult<Option<RawTensor>> {
        self.get(place, name)
    }
}

/// The same exception with the option's name before its words.
fn named(py: Python<'_>, error: PyErr, name: &str) -> PyErr {
    let text = format!("{name}: {}", error.value(py));
    error.get_type(py).call1((text,)).map_or_else(|failure| failure, PyErr::from_value)
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
