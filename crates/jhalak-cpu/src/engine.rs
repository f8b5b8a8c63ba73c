//! [`Engine`]: which instructions and which threads a call runs on.

use jhalak_problem::{
    Backward, DType, Device, Error, Forward, Merge, Result, TensorView, TensorViewMut,
};

use crate::arithmetic::Wide;
#[cfg(target_arch = "x86_64")]
use crate::arithmetic_bf16::Bf16Pairs;
use crate::backward;
use crate::dispatch::with_f32_isa;
use crate::executor::Executor;
use crate::forward;
#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512Bf16;
use crate::isa::{IsaKind, Scalar};
use crate::merge;

/// Runs checked calls on this machine's CPU.
///
/// Results depend on the instruction set, never on the number of threads. Inside a rayon pool a
/// call runs there; elsewhere on jhalak's own pool, which has as many threads as the machine, or
/// as `RAYON_NUM_THREADS` says. Small calls stay on the calling thread.
#[derive(Clone, Debug)]
pub struct Engine {
    isa: IsaKind,
    executor: Executor,
}

impl Engine {
    /// The best instruction set of this machine, or the one that `JHALAK_ISA` names.
    ///
    /// # Errors
    /// [`Error::Environment`] if `JHALAK_ISA` names one that this machine lacks.
    pub fn new() -> Result<Self> {
        let isa = IsaKind::selected().map_err(Error::Environment)?;
        Ok(Engine { isa, executor: Executor::Shared })
    }

    /// This instruction set, whatever `JHALAK_ISA` says.
    ///
    /// # Errors
    /// [`Error::Environment`] if this machine lacks it.
    pub fn with_isa(isa: IsaKind) -> Result<Self> {
        if !isa.is_available() {
            return Err(Error::Environment(format!("this machine has no {isa}")));
        }
        Ok(Engine { isa, executor: Executor::Shared })
    }

    /// The same engine on a pool of its own with `threads` threads; 1 stays on the calling
    /// thread.
    ///
    /// # Errors
    /// [`Error::Environment`] if the threads cannot be started.
    pub fn threads(mut self, threads: usize) -> Result<Self> {
        self.executor = Executor::with_threads(threads)?;
        Ok(self)
    }

    /// The instruction set in use.
    pub fn isa(&self) -> IsaKind {
        self.isa
    }

    /// Computes out and lse.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if work space cannot be had, [`Error::Device`] for tensors of another
    /// device; nothing has been written then.
    pub fn forward(&self, call: &Forward<'_>) -> Result<()> {
        check_device("q", call.problem().device())?;
        if call.problem().dtype() == DType::F64 {
            return forward::forward(Wide(Scalar::<f64>::new()), call, &self.executor);
        }
        #[cfg(target_arch = "x86_64")]
        if call.problem().dtype() == DType::BF16
            && self.isa == IsaKind::Avx512Bf16
            && let Some(isa) = Avx512Bf16::new()
        {
            return forward::forward(Bf16Pairs(isa), call, &self.executor);
        }
        with_f32_isa!(self.isa, isa => forward::forward(Wide(isa), call, &self.executor))
    }

    /// Computes the gradients that the call asks for.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if work space cannot be had, [`Error::Device`] for tensors of another
    /// device; nothing has been written then.
    pub fn backward(&self, call: &Backward<'_>) -> Result<()> {
        check_device("q", call.problem().device())?;
        if call.problem().dtype() == DType::F64 {
            return backward::backward(Scalar::<f64>::new(), call, &self.executor);
        }
        with_f32_isa!(self.isa, isa => backward::backward(isa, call, &self.executor))
    }

    /// Merges partial results of the same queries over disjoint sets of keys.
    ///
    /// Shapes and dtypes are those of [`Merge::new`].
    ///
    /// # Errors
    /// What [`Merge::new`] refuses; [`Error::Device`] for tensors of another device.
    pub fn merge(
        &self,
        parts: &[(TensorView<'_>, TensorView<'_>)],
        out: TensorViewMut<'_>,
        lse: TensorViewMut<'_>,
    ) -> Result<()> {
        let call = Merge::new(parts, out, lse)?;
        check_device("out", call.device())?;
        merge::merge(&call, &self.executor)
    }
}

fn check_device(argument: &'static str, device: Device) -> Result<()> {
    if device == Device::Cpu {
        return Ok(());
    }
    let (expected, got) = (Device::Cpu.to_string(), device.to_string());
    Err(Error::Device { argument, expected, got })
}
