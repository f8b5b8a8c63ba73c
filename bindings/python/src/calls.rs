//! One function per operation: integers in, a call of jhalak, nothing out.
//!
//! The functions trust their integers: `jhalak`'s Python code makes them from tensors that it keeps
//! alive during the call, and gives every output memory of its own.

use jhalak::{
    BackwardInputs, FlashAttention, Gradient, GradientTargets, OutOrDelta, TensorViewMut,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::engine::engine;
use crate::error::without_python;
use crate::options::Options;
use crate::tensor::RawTensor;

/// Writes out and lse.
#[pyfunction]
pub(crate) fn forward(
    py: Python<'_>,
    q: RawTensor,
    k: RawTensor,
    v: RawTensor,
    options: Options,
    out: RawTensor,
    lse: RawTensor,
    threads: usize,
) -> PyResult<()> {
    let engine = engine(q.device(), threads)?;
    // SAFETY: the module's contract.
    let (attention, q, k, v, lse) = unsafe {
        (options.attention()?, q.view("q")?, k.view("k")?, v.view("v")?, lse.view_mut("lse")?)
    };
    let attention = attention.out_dtype(out.dtype());
    // SAFETY: the module's contract.
    let out = unsafe { out.view_mut("out")? };
    without_python(py, || attention.on(&engine).forward_into(q, k, v, out, lse))
}

/// Gradients in the order dq, dk, dv, dbias, dsinks; `None` is not computed.
type Targets =
    (Option<RawTensor>, Option<RawTensor>, Option<RawTensor>, Option<RawTensor>, Option<RawTensor>);

/// Writes the gradients that `targets` names, or adds to them.
#[pyfunction]
pub(crate) fn backward(
    py: Python<'_>,
    dout: RawTensor,
    q: RawTensor,
    k: RawTensor,
    v: RawTensor,
    out: Option<RawTensor>,
    delta: Option<RawTensor>,
    lse: RawTensor,
    dlse: Option<RawTensor>,
    options: Options,
    targets: Targets,
    accumulate: bool,
    threads: usize,
) -> PyResult<()> {
    let engine = engine(q.device(), threads)?;
    let gradient = |view: TensorViewMut<'static>| {
        if accumulate { Gradient::Add(view) } else { Gradient::Write(view) }
    };
    // SAFETY: the module's contract, here and for all views below.
    let target = |tensor: Option<RawTensor>, name| {
        tensor.map(|tensor| unsafe { tensor.view_mut(name) }.map(gradient)).transpose()
    };
    let (dq, dk, dv, dbias, dsinks) = targets;
    let mut wanted = GradientTargets::default();
    wanted.dq = target(dq, "dq")?;
    wanted.dk = target(dk, "dk")?;
    wanted.dv = target(dv, "dv")?;
    wanted.dbias = target(dbias.map(RawTensor::broadcast_to_four), "dbias")?;
    wanted.dsinks = target(dsinks, "dsinks")?;
    // SAFETY: as above.
    let (attention, q, k, v) =
        unsafe { (options.attention()?, q.view("q")?, k.view("k")?, v.view("v")?) };
    // SAFETY: as above.
    let inputs = unsafe {
        BackwardInputs {
            dout: dout.view("dout")?,
            out: match (out, delta) {
                (_, Some(delta)) => OutOrDelta::Delta(delta.view("delta")?),
                (Some(out), None) => OutOrDelta::Out(out.view("out")?),
                (None, None) => return Err(PyValueError::new_err("out or delta must be given")),
            },
            lse: lse.view("lse")?,
            dlse: dlse.map(|dlse| dlse.view("dlse")).transpose()?,
        }
    };
    without_python(py, || attention.on(&engine).backward_into(q, k, v, inputs, wanted))
}

/// Writes the merge of `parts`, pairs of out and lse.
#[pyfunction]
pub(crate) fn merge(
    py: Python<'_>,
    parts: Vec<(RawTensor, RawTensor)>,
    out: RawTensor,
    lse: RawTensor,
    threads: usize,
) -> PyResult<()> {
    let engine = engine(out.device(), threads)?;
    // SAFETY: the module's contract.
    let views = unsafe {
        parts
            .iter()
            .map(|(out, lse)| Ok((out.view("a part's out")?, lse.view("a part's lse")?)))
            .collect::<PyResult<Vec<_>>>()?
    };
    // SAFETY: as above.
    let (out, lse) = unsafe { (out.view_mut("out")?, lse.view_mut("lse")?) };
    without_python(py, || engine.merge(&views, out, lse))
}

/// The mask of dropout: its shape [B, Hq, Sq, Sk], and a byte for each weight, 1 if it is kept.
#[pyfunction]
pub(crate) fn dropout_mask<'py>(
    py: Python<'py>,
    q: RawTensor,
    k: RawTensor,
    v: RawTensor,
    options: Options,
) -> PyResult<(Vec<usize>, Bound<'py, PyBytes>)> {
    engine(q.device(), 0)?;
    // SAFETY: the module's contract.
    let (attention, q, k, v) =
        unsafe { (options.attention()?, q.view("q")?, k.view("k")?, v.view("v")?) };
    let mask = without_python(py, || attention.dropout_mask(q, k, v))?;
    let kept = mask.as_slice::<bool>().unwrap_or_default();
    let bytes = PyBytes::new_with(py, kept.len(), |bytes| {
        bytes.iter_mut().zip(kept).for_each(|(byte, kept)| *byte = u8::from(*kept));
        Ok(())
    })?;
    Ok((mask.shape().to_vec(), bytes))
}
