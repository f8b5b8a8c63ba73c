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
    rank: usize,
    shape: [usize; MOST],
    strides: [isize; MOST],
}

/// More dimensions than any argument has: so many can still be named in an error.
const MOST: usize = 8;

impl<'a, 'py> FromPyObject<'a, 'py> for RawTensor {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let fields = object.cast::<PyTuple>()?;
        let code: usize = fields.get_borrowed_item(1)?.extract()?;
        let device: i64 = fields.get_borrowed_item(2)?.extract()?;
        let dtype = DTYPES.get(code).copied();
        Ok(RawTensor {
            address: fields.get_borrowed_item(0)?.extract()?,
            dtype: dtype.ok_or_else(|| PyValueError::new_err(format!("no dtype {code}")))?,
            device: match u32::try_from(device) {
                Ok(ordinal) => Device::Cuda(ordinal),
                Err(_) if device == HOST => Device::Cpu,
                Err(_) => return Err(PyValueError::new_err(format!("no device {device}"))),
            },
            rank: fields.get_borrowed_item(3)?.cast::<PyTuple>()?.len(),
            shape: integers(fields.get_borrowed_item(3)?)?,
            strides: integers(fields.get_borrowed_item(4)?)?,
        })
    }
}

/// The numbers of a tuple.
fn integers<'py, T>(object: Borrowed<'_, 'py, PyAny>) -> PyResult<[T; MOST]>
where
    T: Copy + Default + for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let tuple = object.cast::<PyTuple>()?;
    if tuple.len() > MOST {
        let text = format!("a tensor must have at most 4 dimensions, but has {}", tuple.len());
        return Err(PyValueError::new_err(text));
    }
    let mut numbers = [T::default(); MOST];
    for (number, object) in numbers.iter_mut().zip(tuple.iter_borrowed()) {
        *number = object.extract()?;
    }
    Ok(numbers)
}

impl RawTensor {
    fn shape(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    fn strides(&self) -> &[isize] {
        &self.strides[..self.rank]
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// The same tensor with as many leading dimensions of size 1 as four need.
    pub(crate) fn broadcast_to_four(mut self) -> Self {
        while self.rank < 4 {
            self.shape[..=self.rank].rotate_right(1);
            self.strides[..=self.rank].rotate_right(1);
            (self.shape[0], self.strides[0]) = (1, 0);
            self.rank += 1;
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
            TensorView::from_raw(address, self.dtype, self.device, self.shape(), self.strides())
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
            TensorViewMut::from_raw(address, self.dtype, self.device, self.shape(), self.strides())
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
