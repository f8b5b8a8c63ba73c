//! Compiling kernels before they are needed.

use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Device, Forward, Gradient, GradientTargets,
    OutOrDelta, Problem, Result as CallResult, TensorView, TensorViewMut,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::kernels::KernelClass;
use crate::plan::{BackwardPlan, BackwardWorkspace, DqSum, ForwardPlan, Limits, PassPlan};

/// The size of the calls that stand for all: long enough that nothing is left out.
const SHAPE: [usize; 3] = [1, 4096, 8];

impl Engine {
    /// Compiles the kernels of contiguous tensors with a head dimension, full or causal, forward
    /// and backward. The driver keeps them on disk: later processes begin at once.
    ///
    /// # Errors
    /// A dtype or head dimension that the GPU cannot do; what the driver says.
    pub fn warm_up(&self, dtype: DType, head_dim: usize, causal: bool) -> Result<()> {
        for class in classes(dtype, head_dim, causal, self.limits())? {
            self.kernel(class)?;
        }
        Ok(())
    }
}

/// A contiguous tensor somewhere on a device, at the `n`th of places that are far apart.
struct Somewhere {
    n: usize,
    dtype: DType,
    shape: Vec<usize>,
}

impl Somewhere {
    fn strides(&self) -> Vec<isize> {
        let after = |d: usize| self.shape[d + 1..].iter().product::<usize>() as isize;
        (0..self.shape.len()).map(after).collect()
    }

    fn view(&self) -> CallResult<TensorView<'static>> {
        let (at, device) = (std::ptr::without_provenance(self.n << 40), Device::Cuda(0));
        // SAFETY: planning reads no tensor, and nothing is launched.
        unsafe { TensorView::from_raw(at, self.dtype, device, &self.shape, &self.strides()) }
    }

    fn view_mut(&self) -> CallResult<TensorViewMut<'static>> {
        let (at, device) = (std::ptr::without_provenance_mut(self.n << 40), Device::Cuda(0));
        // SAFETY: as above.
        unsafe { TensorViewMut::from_raw(at, self.dtype, device, &self.shape, &self.strides()) }
    }
}

/// The classes of both passes.
fn classes(
    dtype: DType,
    head_dim: usize,
    causal: bool,
    limits: Limits,
) -> CallResult<Vec<KernelClass>> {
    let [batch, seqlen, heads] = SHAPE;
    let rows = |n| Somewhere { n, dtype, shape: vec![batch, seqlen, heads, head_dim] };
    let numbers = |n| Somewhere { n, dtype: DType::F32, shape: vec![batch, heads, seqlen] };
    let attention = if causal { Attention::new().causal() } else { Attention::new() };
    let (q, k, v) = (rows(1).view()?, rows(2).view()?, rows(3).view()?);
    let problem = Problem::new(&attention, q, k, v)?;
    let forward = Forward::new(&problem, rows(4).view_mut()?, numbers(5).view_mut()?)?;
    let inputs = BackwardInputs {
        dout: rows(6).view()?,
        out: OutOrDelta::Out(rows(4).view()?),
        lse: numbers(5).view()?,
        dlse: None,
    };
    let mut targets = GradientTargets::default();
    targets.dq = Some(Gradient::Write(rows(7).view_mut()?));
    targets.dk = Some(Gradient::Write(rows(8).view_mut()?));
    targets.dv = Some(Gradient::Write(rows(9).view_mut()?));
    let backward = Backward::new(&problem, inputs, targets)?;
    let columns = head_dim.next_multiple_of(16) as u32;
    let dq_sum = Some(DqSum { address: 10 << 40, columns });
    let workspace = BackwardWorkspace { delta: 11 << 40, dq_sum, dbias_sum: None, turns: None };
    let plans = [
        ForwardPlan::new(&forward, limits, None)?.map(|plan| plan.class),
        PassPlan::delta(&backward, limits, &workspace)?.map(|plan| plan.class.into()),
        BackwardPlan::new(&backward, limits, &workspace)?.map(|plan| plan.class.into()),
        PassPlan::finish_dq(&backward, limits, &workspace)?.map(|plan| plan.class.into()),
    ];
    Ok(plans.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jhalak_ptx::Target;

    #[test]
    fn both_passes_and_what_is_around_them_are_compiled() {
        let limits = Limits::of(Target::Sm80);
        let found = classes(DType::BF16, 128, true, limits).unwrap();
        let names: Vec<_> = found.iter().map(KernelClass::name).collect();
        assert_eq!(names, ["forward", "delta", "backward", "finish_dq"]);
        assert!(found.iter().all(|class| class.module().is_ok()));
        assert!(classes(DType::BF16, 128, true, Limits::of(Target::Sm75)).is_err());
        assert!(classes(DType::F16, 257, true, limits).is_err());
    }
}
