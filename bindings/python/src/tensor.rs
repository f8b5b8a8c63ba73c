//! Tensors as they come from Python: integers that say where the memory is and how it is laid out.

use jhalak::{DType, Device, Error, TensorView, TensorViewMut};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::exception;

/// The dtypes in the order of their codes; `jhalak/_raw.py` has the same list.
pub(crate) const DTYPES: [DType; 7] =
    [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::I64, DType::Bool];

/// The device number that stands for host memory; others are ordinals of CUDA devices.
const HOST: i64 = -1;

/// `(address, dtype code, device, shape, strides in elements)`.
pub(crate) struct RawTensor {
    address: usize,
    dtype: DType,
    device: Device,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for RawTensor {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let fields = object.cast::<PyTuple>()?;
        let code: usize = fields.get_item(1)?.extract()?;
        let device: i64 = fields.get_item(2)?.extract()?;
        let dtype = DTYPES.get(code).copied();
        Ok(RawTensor {
            address: fields.get_item(0)?.extract()?,
            dtype: dtype.ok_or_else(|| PyValueError::new_err(format!("no dtype {code}")))?,
            device: match u32::try_from(device) {
                Ok(ordinal) => Device::Cuda(ordinal),
                Err(_) if device == HOST => Device::Cpu,
                Err(_) => return Err(PyValueError::new_err(format!("no device {device}"))),
            },
            shape: integers(&fields.get_item(3)?)?,
            strides: integers(&fields.get_item(4)?)?,
        })
    }
}

/// The numbers of a tuple.
fn integers<'py, T>(object: &Bound<'py, PyAny>) -> PyResult<Vec<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    object.cast::<PyTuple>()?.iter_borrowed().map(|number| number.extract()).collect()
}

impl RawTensor {
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// The same tensor with as many leading dimensions of size 1 as four need.
    pub(crate) fn broadcast_to_four(mut self) -> Self {
        while self.shape.len() < 4 {
            self.shape.insert(0, 1);
            self.strides.insert(0, 0);
        }
        self
    }

    /// The tensor for reading.
    ///
    /// # Safety
    /// The integers must describe memory that stays readable, and that nobody writes, for `'a`.
    pub(crate) unsafe fn view<'a>(&self, name: &'static str) -> PyResult<TensorView<'a>> {
        let address = self.address as *const std::ffi::c_void;
        // SAFETY: the caller's promise.
        unsafe {
            TensorView::from_raw(address, self.dtype, self.device, &self.shape, &self.strides)
        }
        .map_err(|error| exception(named(error, name)))
    }

    /// The tensor for writing.
    ///
    /// # Safety
    /// The integers must describe memory that is the caller's alone for `'a`.
    pub(crate) unsafe fn view_mut<'a>(&self, name: &'static str) -> PyResult<TensorViewMut<'a>> {
        let address = self.address as *mut std::ffi::c_void;
        // SAFETY: the caller's promise.
        unsafe {
            TensorViewMut::from_raw(address, self.dtype, self.device, &self.shape, &self.strides)
        }
        .map_err(|error| exception(named(error, name)))
    }
}

/// A view knows only that it is a tensor; here it has a name.
fn named(error: Error, name: &'static str) -> Error {
    match error {
        Error::Shape { expected, got, .. } => Error::Shape { argument: name, expected, got },
        other => other,
    }
}
