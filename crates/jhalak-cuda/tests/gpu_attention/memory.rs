//! Test tensors in the GPU's memory.

use jhalak_cases::strided::Strided;
use jhalak_cuda::driver::{Buffer, Context};

/// Memory that lives as long as this does.
pub struct Memory {
    context: Context,
    buffers: Vec<Buffer>,
}

impl Memory {
    pub fn new(context: &Context) -> Self {
        Memory { context: context.clone(), buffers: Vec::new() }
    }

    /// Memory that nobody has written, but with NaN in every float.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        self.upload(&vec![0xff; bytes])
    }

    /// A copy of these bytes.
    pub fn upload(&mut self, bytes: &[u8]) -> u64 {
        let buffer = self.context.allocate(bytes.len().max(1)).unwrap();
        let address = buffer.address();
        // SAFETY: the memory is new and as large as what is copied.
        unsafe { self.context.copy_to_device(address, bytes).unwrap() };
        self.buffers.push(buffer);
        address
    }

    /// Reads a tensor's memory back, once its stream is done.
    pub fn download(&self, tensor: &mut Strided, address: u64) {
        let mut bytes = tensor.bytes();
        // SAFETY: the memory is there, and as large as the tensor.
        unsafe { self.context.copy_to_host(&mut bytes, address).unwrap() };
        tensor.set_bytes(&bytes);
    }
}
