//! Arrays of other libraries, in and out without a copy, by the DLPack protocol.

use std::ffi::c_void;
use std::sync::Arc;

use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::metadata::Dynamic;
use dlpark::python::{DlpackExporter, ExportRequest, ImportRequest, ImportedDlpack, export_dlpack};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use jhalak::DType;
use pyo3::exceptions::{PyMemoryError, PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::tensor::DTYPES;

/// DLPack's names of the dtypes, in the order of their codes.
const DLPACK_DTYPES: [DLDataType; 7] = [
    DLDataType::F32,
    DLDataType::F16,
    DLDataType::BF16,
    DLDataType::F64,
    DLDataType::I32,
    DLDataType::I64,
    DLDataType::BOOL,
];

/// What `RawTensor` reads: address, dtype code, device, shape, strides.
type Descriptor<'py> = (usize, usize, i64, Bound<'py, PyTuple>, Bound<'py, PyTuple>);

/// Another library's array, kept alive while this object lives.
#[pyclass(frozen, module = "jhalak._jhalak")]
pub(crate) struct Borrowed {
    imported: ImportedDlpack,
    dtype: usize,
}

#[pymethods]
impl Borrowed {
    /// `name` is what errors call the array.
    #[new]
    fn new(array: Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let request = ImportRequest::new(array.as_borrowed())?;
        let device = request.device().map_or(DLDeviceType::CPU, |device| device.device_type);
        if device != DLDeviceType::CPU && device != DLDeviceType::CUDAHOST {
            return Err(PyNotImplementedError::new_err(format!(
                "{name} is not in host memory, but this version of jhalak for Python has no GPU \
                 kernels yet: move the arrays to the CPU"
            )));
        }
        let imported = match request.import(None, None) {
            // A producer from before the protocol had versions takes no arguments.
            Err(error) if error.is_instance_of::<PyTypeError>(array.py()) => {
                let capsule = array.call_method0("__dlpack__")?;
                ImportRequest::new(capsule.as_borrowed())?.import(None, None)?
            }
            imported => imported?,
        };
        let dtype = imported.validate().map_err(|e| PyValueError::new_err(e.to_string()))?.dtype();
        let dtype = DLPACK_DTYPES.iter().position(|known| *known == dtype).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{name} must have dtype f32, f16, bf16, f64, i32, i64 or bool, but has another"
            ))
        })?;
        Ok(Borrowed { imported, dtype })
    }

    /// Whether its owner lets others write to it; the older protocol cannot say so.
    #[getter]
    fn writable(&self) -> bool {
        matches!(self.imported, ImportedDlpack::Versioned(_))
            && !self.imported.flags().contains(DlpackFlags::READ_ONLY)
    }

    /// Where the array is and how it is laid out.
    #[getter]
    fn descriptor<'py>(&self, py: Python<'py>) -> PyResult<Descriptor<'py>> {
        let invalid = |e: dlpark::tensor::Error| PyValueError::new_err(e.to_string());
        let tensor = self.imported.validate().map_err(invalid)?;
        let strides = tensor.strides_or_compact().map_err(invalid)?;
        let address = (tensor.data_ptr() as usize).wrapping_add(tensor.byte_offset() as usize);
        let shape = PyTuple::new(py, tensor.shape())?;
        Ok((address, self.dtype, -1, shape, PyTuple::new(py, strides.iter())?))
    }
}

/// A result for callers whose arrays are neither torch's nor NumPy's.
///
/// Any library that knows DLPack takes it without a copy: `np.from_dlpack(array)`.
#[pyclass(frozen, module = "jhalak")]
pub(crate) struct Array {
    /// 8 bytes a word: enough alignment for every dtype.
    memory: Arc<Vec<u64>>,
    address: usize,
    dtype: usize,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

#[pymethods]
impl Array {
    /// A row-major array of zeros.
    #[new]
    fn new(dtype: usize, shape: Vec<i64>) -> PyResult<Self> {
        let known: DType =
            *DTYPES.get(dtype).ok_or_else(|| PyValueError::new_err("no such dtype"))?;
        let mut strides = vec![1i64; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d].saturating_mul(shape[d].max(1));
        }
        let bytes = shape
            .iter()
            .try_fold(known.size(), |n, &size| n.checked_mul(usize::try_from(size).ok()?))
            .ok_or_else(|| PyValueError::new_err("a shape that fits no address space"))?;
        let mut words: Vec<u64> = Vec::new();
        let count = bytes.div_ceil(8);
        words
            .try_reserve_exact(count)
            .map_err(|_| PyMemoryError::new_err(format!("{bytes} bytes could not be allocated")))?;
        words.resize(count, 0);
        let address = words.as_mut_ptr() as usize;
        Ok(Array { memory: Arc::new(words), address, dtype, shape, strides })
    }

    /// The size of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// Where the array is and how it is laid out.
    #[getter]
    fn descriptor<'py>(&self, py: Python<'py>) -> PyResult<Descriptor<'py>> {
        let strides = PyTuple::new(py, &self.strides)?;
        Ok((self.address, self.dtype, -1, self.shape(py)?, strides))
    }

    /// The same memory with two dimensions exchanged.
    fn swapaxes(&self, a: usize, b: usize) -> PyResult<Self> {
        if a.max(b) >= self.shape.len() {
            return Err(PyValueError::new_err("no such dimension"));
        }
        let (mut shape, mut strides) = (self.shape.clone(), self.strides.clone());
        shape.swap(a, b);
        strides.swap(a, b);
        let (address, dtype) = (self.address, self.dtype);
        Ok(Array { memory: self.memory.clone(), address, dtype, shape, strides })
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let request = ExportRequest::parse(stream.as_ref(), max_version, dl_device, copy)?;
        export_dlpack(self, py, request)
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (DLDevice::CPU.device_type.0, DLDevice::CPU.device_id)
    }
}

impl Array {
    fn managed<M: ManagedTensorBase>(&self) -> PyResult<Managed<M>> {
        let mut tensor = Dynamic::new(&self.shape[..], &self.strides[..])
            .prepare_as::<M>()
            .map_err(|e| PyValueError::new_err(e.to_string()))?
            .initialize(self.memory.clone());
        tensor.set_data(self.address as *mut c_void);
        tensor.set_dtype(DLPACK_DTYPES[self.dtype]);
        tensor.set_device(DLDevice::CPU);
        // SAFETY: the shape and strides stay within `memory`, which the tensor now shares.
        Ok(unsafe { tensor.finish() })
    }
}

impl DlpackExporter for Array {
    fn device(&self) -> DLDevice {
        DLDevice::CPU
    }

    fn flags(&self) -> DlpackFlags {
        DlpackFlags::empty()
    }

    fn prepare_export(&self, _py: Python<'_>, _request: &ExportRequest<'_>) -> PyResult<()> {
        Ok(())
    }

    fn export_legacy(&self, _py: Python<'_>) -> PyResult<Managed<DLManagedTensor>> {
        self.managed()
    }

    fn export_versioned(&self, _py: Python<'_>) -> PyResult<Managed<DLManagedTensorVersioned>> {
        self.managed()
    }
}
