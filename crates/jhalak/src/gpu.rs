//! [`OnGpu`]: the same options on tensors in a GPU's memory.

use jhalak_cuda::driver::Stream;
use jhalak_cuda::{Engine, Result};
use jhalak_problem::{
    Attention, Backward, BackwardInputs, Forward, GradientTargets, Problem, TensorView,
    TensorViewMut,
};

/// [`Attention`] on a GPU, in the order of a stream; made by
/// [`FlashAttention::on_gpu`](crate::FlashAttention::on_gpu).
///
/// Tensors are views of the GPU's memory, by [`TensorView::from_raw`] with
/// [`Device::Cuda`](crate::Device::Cuda). A call returns once its kernels are queued. It allocates
/// no device memory and reads none, so it may be captured into a CUDA graph; lists of lengths stay
/// on the device, where wrong ones are clamped.
#[derive(Clone, Copy, Debug)]
pub struct OnGpu<'s> {
    pub(crate) options: &'s Attention<'s>,
    pub(crate) engine: &'s Engine,
    pub(crate) stream: &'s Stream,
}

impl OnGpu<'_> {
    /// Bytes of device memory that [`forward_into`](Self::forward_into) wants as a workspace: 0,
    /// unless queries are so short that the GPU is kept busy by splitting the keys.
    ///
    /// # Errors
    /// As [`forward_into`](Self::forward_into).
    pub fn forward_workspace_bytes(
        &self,
        q: TensorView<'_>,
        k: TensorView<'_>,
        v: TensorView<'_>,
    ) -> Result<usize> {
        self.engine.forward_workspace_bytes(&Problem::new(self.options, q, k, v)?)
    }

    /// Begins to compute out and lse, shaped as
    /// [`forward`](crate::FlashAttention::forward) has them, into memory of any strides. `workspace`
    /// is the address of [`forward_workspace_bytes`](Self::forward_workspace_bytes) on the GPU, a
    /// multiple of 256; or 0, and then the keys are not split.
    ///
    /// # Errors
    /// An error that names the argument, what it must be, and what it was; nothing was launched
    /// then. And what the driver says.
    ///
    /// # Safety
    /// The memory must stay, and nobody else may write it, until the stream has done the work. That
    /// includes the workspace.
    pub unsafe fn forward_into(
        &self,
        q: TensorView<'_>,
        k: TensorView<'_>,
        v: TensorView<'_>,
        out: TensorViewMut<'_>,
        lse: TensorViewMut<'_>,
        workspace: u64,
    ) -> Result<()> {
        let problem = Problem::new(self.options, q, k, v)?;
        let call = Forward::new(&problem, out, lse)?;
        // SAFETY: as the caller's.
        unsafe { self.engine.forward(self.stream, &call, workspace) }
    }

    /// Bytes of device memory that [`backward_into`](Self::backward_into) wants as a workspace:
    /// about as much as q in f32, and, where `dbias` is wanted, as the bias in f32.
    ///
    /// # Errors
    /// As [`forward_into`](Self::forward_into).
    pub fn backward_workspace_bytes(
        &self,
        q: TensorView<'_>,
        k: TensorView<'_>,
        v: TensorView<'_>,
        dbias: bool,
    ) -> Result<usize> {
        Ok(Engine::backward_workspace_bytes(&Problem::new(self.options, q, k, v)?, dbias))
    }

    /// Begins to compute the gradients that `targets` asks for. `workspace` is the address of
    /// [`backward_workspace_bytes`](Self::backward_workspace_bytes) on the GPU, a multiple of 256.
    ///
    /// # Errors
    /// As [`forward_into`](Self::forward_into).
    ///
    /// # Safety
    /// As [`forward_into`](Self::forward_into), the workspace included.
    pub unsafe fn backward_into(
        &self,
        q: TensorView<'_>,
        k: TensorView<'_>,
        v: TensorView<'_>,
        inputs: BackwardInputs<'_>,
        targets: GradientTargets<'_>,
        workspace: u64,
    ) -> Result<()> {
        let problem = Problem::new(self.options, q, k, v)?;
        let call = Backward::new(&problem, inputs, targets)?;
        // SAFETY: as the caller's.
        unsafe { self.engine.backward(self.stream, &call, workspace) }
    }
}
