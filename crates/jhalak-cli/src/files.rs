//! Tensors in files: reading safetensors and .npy, writing safetensors, all or nothing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use half::{bf16, f16};
use jhalak::{DType, Element, Tensor};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};

use crate::failure::Failure;
use crate::interrupt;
use crate::npy;

/// All of a file's bytes.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::file(path, format!("cannot be read: {error}")))
}

/// Whether a path's name ends like this, whatever the case.
pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// A safetensors file whose header is sound.
pub(crate) struct Archive<'b> {
    path: &'b Path,
    tensors: SafeTensors<'b>,
}

impl<'b> Archive<'b> {
    pub(crate) fn parse(path: &'b Path, bytes: &'b [u8]) -> Result<Self, Failure> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| {
            Failure::file(path, format!("is not a sound safetensors file: {error}"))
        })?;
        Ok(Archive { path, tensors })
    }

    /// The names of its tensors, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names = self.tensors.names();
        names.sort_unstable();
        names
    }

    /// The tensor of this name, if there is one.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Tensor>, Failure> {
        let Ok(view) = self.tensors.tensor(name) else { return Ok(None) };
        match owned(&view) {
            Ok(tensor) => Ok(Some(tensor)),
            Err(problem) => Err(Failure::file(self.path, format!("tensor {name} {problem}"))),
        }
    }

    /// The tensor of this name.
    pub(crate) fn need(&self, name: &str) -> Result<Tensor, Failure> {
        self.get(name)?.ok_or_else(|| {
            let names = self.names().join(", ");
            let holds = if names.is_empty() { "nothing".into() } else { names };
            Failure::file(self.path, format!("holds no tensor {name}; it holds {holds}"))
        })
    }
}

fn owned(view: &TensorView<'_>) -> Result<Tensor, String> {
    let dtype = match view.dtype() {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F64 => DType::F64,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::BOOL => DType::Bool,
        other => {
            let known = "f32, f16, bf16, f64, i32, i64 and bool";
            return Err(format!("has dtype {other:?}, but jhalak reads {known}"));
        }
    };
    decode(dtype, view.data(), view.shape())
}

/// A tensor of little-endian elements.
pub(crate) fn decode(dtype: DType, bytes: &[u8], shape: &[usize]) -> Result<Tensor, String> {
    fn elements<T: Element, const N: usize>(
        bytes: &[u8],
        shape: &[usize],
        decode: impl Fn([u8; N]) -> T,
    ) -> Result<Tensor, String> {
        let (chunks, _) = bytes.as_chunks::<N>();
        let elements = chunks.iter().map(|chunk| decode(*chunk)).collect();
        Tensor::from_vec(elements, shape)
            .map_err(|_| format!("has shape {shape:?}, but jhalak takes up to 4 dimensions"))
    }
    match dtype {
        DType::F32 => elements(bytes, shape, f32::from_le_bytes),
        DType::F16 => elements(bytes, shape, f16::from_le_bytes),
        DType::BF16 => elements(bytes, shape, bf16::from_le_bytes),
        DType::F64 => elements(bytes, shape, f64::from_le_bytes),
        DType::I32 => elements(bytes, shape, i32::from_le_bytes),
        DType::I64 => elements(bytes, shape, i64::from_le_bytes),
        DType::Bool => elements(bytes, shape, |[byte]: [u8; 1]| byte != 0),
        other => Err(format!("has dtype {other}, which this command cannot read")),
    }
}

/// Reads one .npy file.
pub(crate) fn read_npy(path: &Path) -> Result<Tensor, Failure> {
    npy::parse(&read(path)?).map_err(|problem| Failure::file(path, problem))
}

/// Writes a safetensors file.
pub(crate) fn write_safetensors(path: &Path, tensors: &[(&str, &Tensor)]) -> Result<(), Failure> {
    let failed = |error| Failure::file(path, format!("cannot be written: {error}"));
    let encoded: Vec<_> =
        tensors.iter().map(|(name, tensor)| (name, tensor.shape(), encode(tensor))).collect();
    let views = encoded
        .iter()
        .map(|(name, shape, (dtype, bytes))| {
            TensorView::new(*dtype, shape.to_vec(), bytes).map(|view| (name, view))
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    write(path, &serialize(views, None).map_err(failed)?)
}

fn encode(tensor: &Tensor) -> (Dtype, Vec<u8>) {
    fn bytes<T: Element, const N: usize>(tensor: &Tensor, encode: fn(T) -> [u8; N]) -> Vec<u8> {
        let elements = tensor.as_slice::<T>().expect("asked by its own dtype");
        elements.iter().flat_map(|&x| encode(x)).collect()
    }
    match tensor.dtype() {
        DType::F16 => (Dtype::F16, bytes(tensor, f16::to_le_bytes)),
        DType::BF16 => (Dtype::BF16, bytes(tensor, bf16::to_le_bytes)),
        DType::F64 => (Dtype::F64, bytes(tensor, f64::to_le_bytes)),
        DType::F32 => (Dtype::F32, bytes(tensor, f32::to_le_bytes)),
        other => unreachable!("results are floating-point numbers, not {other}"),
    }
}

/// Writes a file beside its final place and then gives it its name: it is complete or not there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    // A rename would replace /dev/stdout itself, or a link instead of what it points to.
    let target = match fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            return Err(Failure::file(path, "cannot be written: it is not an ordinary file"));
        }
        Ok(_) => fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
        Err(_) => path.to_path_buf(),
    };
    let beside = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = beside.unwrap_or(Path::new("."));
    let create = || {
        tempfile::Builder::new()
            .prefix(".jhalak-")
            // As an ordinary new file, less what the umask takes away.
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(directory)
    };
    interrupt::with_temporary_file(create, |mut file| {
        file.write_all(bytes)?;
        file.persist(&target).map_err(|error| error.error)?;
        Ok(())
    })
    .map_err(|error| Failure::file(path, format!("cannot be written: {error}")))
}
