//! Tensors of a request on the GPU.

use half::{bf16, f16};
use jhalak_cuda::driver::{Buffer, Context};
use jhalak_cuda::{Engine, Result};
use jhalak_problem::{DType, Device, TensorView, TensorViewMut};

use crate::request::Request;

/// A contiguous tensor with its memory.
pub struct Owned {
    buffer: Buffer,
    dtype: DType,
    device: Device,
    shape: Vec<usize>,
}

impl Owned {
    /// Numbers that look random, near unit-normal: the rates of a GPU depend on the data.
    pub fn noise(engine: &Engine, dtype: DType, shape: &[usize], seed: u64) -> Result<Self> {
        let tensor = Self::new(engine, dtype, shape)?;
        let count: usize = shape.iter().product();
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut bytes = Vec::with_capacity(count * dtype.size());
        for _ in 0..count {
            let mut sum = 0.0f32;
            for _ in 0..3 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                sum += (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
            }
            match dtype {
                DType::F32 => bytes.extend((2.0 * sum).to_le_bytes()),
                DType::F16 => bytes.extend(f16::from_f32(2.0 * sum).to_le_bytes()),
                _ => bytes.extend(bf16::from_f32(2.0 * sum).to_le_bytes()),
            }
        }
        // SAFETY: the memory is new and as large as what is copied.
        unsafe { engine.context().copy_to_device(tensor.buffer.address(), &bytes)? };
        Ok(tensor)
    }

    /// Memory that nobody has written.
    pub fn new(engine: &Engine, dtype: DType, shape: &[usize]) -> Result<Self> {
        let context: &Context = engine.context();
        let bytes = shape.iter().product::<usize>() * dtype.size();
        let device = Device::Cuda(context.device().ordinal());
        Ok(Owned { buffer: context.allocate(bytes)?, dtype, device, shape: shape.to_vec() })
    }

    fn strides(&self) -> Vec<isize> {
        let after = |d: usize| self.shape[d + 1..].iter().product::<usize>() as isize;
        (0..self.shape.len()).map(after).collect()
    }

    pub fn view(&self) -> TensorView<'_> {
        let ptr = std::ptr::without_provenance(self.buffer.address() as usize);
        // SAFETY: the memory is this tensor's.
        unsafe { TensorView::from_raw(ptr, self.dtype, self.device, &self.shape, &self.strides()) }
            .expect("a contiguous tensor")
    }

    pub fn view_mut(&self) -> TensorViewMut<'_> {
        let ptr = std::ptr::without_provenance_mut(self.buffer.address() as usize);
        // SAFETY: the memory is this tensor's, and only kernels of one stream write it.
        unsafe {
            TensorViewMut::from_raw(ptr, self.dtype, self.device, &self.shape, &self.strides())
        }
        .expect("a contiguous tensor")
    }
}

/// What a backward call has besides.
pub struct Gradients {
    pub dout: Owned,
    pub dq: Owned,
    pub dk: Owned,
    pub dv: Owned,
    pub workspace: Buffer,
}

impl Gradients {
    pub fn new(engine: &Engine, request: &Request, workspace: usize) -> Result<Self> {
        let Request { batch, queries, seqlen, heads, heads_k, dim, dtype, .. } = *request;
        let (q, k) = ([batch, queries, heads, dim], [batch, seqlen, heads_k, dim]);
        Ok(Gradients {
            dout: Owned::noise(engine, dtype, &q, 4)?,
            dq: Owned::new(engine, dtype, &q)?,
            dk: Owned::new(engine, dtype, &k)?,
            dv: Owned::new(engine, dtype, &k)?,
            workspace: engine.context().allocate(workspace)?,
        })
    }
}

/// The tensors of a forward call.
pub struct Tensors {
    pub q: Owned,
    pub k: Owned,
    pub v: Owned,
    pub out: Owned,
    pub lse: Owned,
}

impl Tensors {
    pub fn new(engine: &Engine, request: &Request) -> Result<Self> {
        let Request { batch, queries, seqlen, heads, heads_k, dim, dtype, .. } = *request;
        let (q, k) = ([batch, queries, heads, dim], [batch, seqlen, heads_k, dim]);
        Ok(Tensors {
            q: Owned::noise(engine, dtype, &q, 1)?,
            k: Owned::noise(engine, dtype, &k, 2)?,
            v: Owned::noise(engine, dtype, &k, 3)?,
            out: Owned::new(engine, dtype, &q)?,
            lse: Owned::new(engine, DType::F32, &[batch, heads, queries])?,
        })
    }
}
