//! [`Engine`]: runs checked calls on one GPU.

use std::sync::Arc;

use jhalak_problem::{Backward, Device, Forward, Merge, Problem};

use crate::driver::{Arguments, Context, Driver, Function, Launch, ModuleCache, Stream};
use crate::error::{Error, Result};
use crate::kernels::KernelClass;
use crate::plan::{
    BackwardPlan, BackwardWorkspace, DqSum, ForwardPlan, Limits, PassPlan, Path, SplitWorkspace,
    Value,
};

/// The compiler's usual level.
const OPTIMIZATION: u32 = 4;
/// Sums of dq are padded to this many columns.
const DQ_COLUMNS: usize = 16;
/// What a part of a workspace begins at a multiple of.
const ALIGN: usize = 256;

/// Runs checked calls on one GPU. A clone shares the compiled kernels.
///
/// A kernel is compiled at the first call of its class, by the driver, which keeps it on disk for
/// the next process. After that a call allocates no device memory, waits for nothing and reads
/// nothing of the device: it may be captured into a graph.
#[derive(Clone, Debug)]
pub struct Engine {
    context: Context,
    limits: Limits,
    kernels: Arc<ModuleCache<KernelClass, Function>>,
}

impl Engine {
    /// The GPU of this ordinal.
    ///
    /// # Errors
    /// No driver, no such GPU, or one older than compute capability 7.5; a value of
    /// `JHALAK_GPU_PATH` that does not name a path.
    pub fn new(ordinal: u32) -> Result<Self> {
        let portable = asks_for_portable(std::env::var_os("JHALAK_GPU_PATH"))?;
        let context = Driver::get()?.device(ordinal)?.primary_context()?;
        let limits = Limits::of_device(&context.device().properties()?)?;
        let limits = if portable { limits.portable() } else { limits };
        Ok(Engine { context, limits, kernels: Arc::new(ModuleCache::new()) })
    }

    /// The same GPU with kernels for other limits: an older architecture's, say.
    pub fn with_limits(self, limits: Limits) -> Self {
        Engine { limits, ..self }
    }

    /// The GPU's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What kernels are made for.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Which kernels run a call; `None` if there is nothing to compute.
    ///
    /// # Errors
    /// What kernels or the GPU cannot do.
    pub fn path(&self, call: &Forward<'_>) -> Result<Option<Path>> {
        Ok(ForwardPlan::new(call, self.limits, None)?.map(|plan| plan.path))
    }

    /// Device memory that [`forward`](Self::forward) needs for a problem, in bytes: 0, unless queries
    /// are so short that the keys are split.
    ///
    /// # Errors
    /// What kernels or the GPU cannot do.
    pub fn forward_workspace_bytes(&self, problem: &Problem<'_>) -> Result<usize> {
        let parts = ForwardPlan::parts(problem, self.limits)?;
        Ok(if parts > 1 { SplitWorkspace::bytes(problem, parts) } else { 0 })
    }

    /// Begins to compute out and lse, on this stream. `workspace` is the address of
    /// [`forward_workspace_bytes`](Self::forward_workspace_bytes), a multiple of 256; 0 for none,
    /// and then the keys are never split.
    ///
    /// # Errors
    /// Tensors of another device; what kernels or the GPU cannot do; what the driver says.
    ///
    /// # Safety
    /// The tensors' memory must stay what `TensorView::from_raw` promises until the stream has done
    /// the work, not only until this returns; and nobody else may use the workspace until then.
    pub unsafe fn forward(
        &self,
        stream: &Stream,
        call: &Forward<'_>,
        workspace: u64,
    ) -> Result<()> {
        let problem = call.problem();
        self.check_device(problem.device())?;
        let parts = if workspace == 0 { 1 } else { ForwardPlan::parts(problem, self.limits)? };
        let split = (parts > 1).then(|| SplitWorkspace::at(workspace, problem, parts));
        let plan = ForwardPlan::new(call, self.limits, split.as_ref())?;
        let combine = match &split {
            None => None,
            Some(split) => PassPlan::combine(call, self.limits, split)?,
        };
        let _current = self.context.enter()?;
        // SAFETY: each plan's arguments are those of its class; the caller vouches for the memory.
        unsafe {
            if let Some(plan) = plan {
                self.launch(stream, plan.class, plan.grid, &plan.arguments)?;
            }
            if let Some(plan) = combine {
                self.launch(stream, plan.class.into(), plan.grid, &plan.arguments)?;
            }
        }
        Ok(())
    }

    /// Device memory that [`backward`](Self::backward) needs for a problem, in bytes: about as much
    /// as q in f32, and, where `dbias` is wanted, as the bias in f32.
    pub fn backward_workspace_bytes(problem: &Problem<'_>, dbias: bool) -> usize {
        let bias = if dbias { 4 * bias_elements(problem) } else { 0 };
        delta_bytes(problem) + dq_bytes(problem) + turns_bytes(problem) + bias
    }

    /// Begins to compute the gradients that are asked for, on this stream. `workspace` is the
    /// address of [`backward_workspace_bytes`](Self::backward_workspace_bytes), a multiple of 256.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// # Safety
    /// As [`forward`](Self::forward); and nobody else may use the workspace until the stream has
    /// done the work.
    pub unsafe fn backward(
        &self,
        stream: &Stream,
        call: &Backward<'_>,
        workspace: u64,
    ) -> Result<()> {
        let problem = call.problem();
        self.check_device(problem.device())?;
        let address = workspace + delta_bytes(problem) as u64;
        let columns = dq_columns(problem) as u32;
        let dq_sum = call.targets().dq.as_ref().map(|_| DqSum { address, columns });
        let after = address + dq_bytes(problem) as u64;
        let turns = (dq_sum.is_some() && problem.is_deterministic()).then_some(after);
        let after = after + turns_bytes(problem) as u64;
        let dbias_sum = call.targets().dbias.as_ref().map(|_| after);
        let workspace = BackwardWorkspace { delta: workspace, dq_sum, dbias_sum, turns };
        // Everything is planned before anything is launched.
        let delta = PassPlan::delta(call, self.limits, &workspace)?;
        let backward = BackwardPlan::new(call, self.limits, &workspace)?;
        let finish_dq = PassPlan::finish_dq(call, self.limits, &workspace)?;
        let finish_dbias = PassPlan::finish_dbias(call, self.limits, &workspace)?;
        let dsinks = PassPlan::dsinks(call, self.limits, &workspace)?;
        let _current = self.context.enter()?;
        // SAFETY: each plan's arguments are those of its class; the caller vouches for the memory.
        unsafe {
            if let Some(plan) = delta {
                self.launch(stream, plan.class.into(), plan.grid, &plan.arguments)?;
            }
            if let Some(sums) = dbias_sum.filter(|_| finish_dbias.is_some()) {
                stream.fill_words(sums, 0, bias_elements(problem))?;
            }
            if let Some(turns) = turns.filter(|_| backward.is_some()) {
                stream.fill_words(turns, 0, BackwardPlan::turns(problem))?;
            }
            if let Some(plan) = backward {
                self.launch(stream, plan.class.into(), plan.grid, &plan.arguments)?;
            }
            if let Some(plan) = finish_dq {
                self.launch(stream, plan.class.into(), plan.grid, &plan.arguments)?;
            }
            if let Some(plan) = finish_dbias {
                self.launch(stream, plan.class.into(), plan.grid, &plan.arguments)?;
            }
            if let Some(plan) = dsinks {
                self.launch(stream, plan.class.into(), plan.grid, &plan.arguments)?;
            }
        }
        Ok(())
    }

    /// Begins to merge partial results, on this stream.
    ///
    /// # Errors
    /// As [`forward`](Self::forward); more than 48 parts.
    ///
    /// # Safety
    /// As [`forward`](Self::forward).
    pub unsafe fn merge(&self, stream: &Stream, call: &Merge<'_>) -> Result<()> {
        self.check_device(call.device())?;
        let Some(plan) = PassPlan::merge(call, self.limits)? else { return Ok(()) };
        let _current = self.context.enter()?;
        // SAFETY: the plan's arguments are those of its class; the caller vouches for the memory.
        unsafe { self.launch(stream, plan.class.into(), plan.grid, &plan.arguments) }
    }

    /// Compiles the kernel of a class, unless that has been done.
    ///
    /// # Errors
    /// What the driver says.
    pub fn kernel(&self, class: KernelClass) -> Result<Arc<Function>> {
        let kernel = self.kernels.get_or_load(&self.context, class.clone(), |context| {
            let module = class.module().expect("a planned class can be written");
            let module = context.load_module(&module.text(), OPTIMIZATION)?;
            let function = module.function(class.name())?;
            function.allow_shared_memory(class.shared_bytes())?;
            Ok(function)
        });
        Ok(kernel?)
    }

    /// # Safety
    /// `arguments` must be those of the class's kernel, in order, for memory as in
    /// [`forward`](Self::forward).
    unsafe fn launch(
        &self,
        stream: &Stream,
        class: KernelClass,
        [x, y]: [u32; 2],
        values: &[Value],
    ) -> Result<()> {
        let (threads, shared) = (class.threads(), class.shared_bytes());
        let kernel = self.kernel(class)?;
        let launch = Launch::new([x, y, 1], [threads, 1, 1]).shared_bytes(shared);
        let arguments = self.arguments(values)?;
        // SAFETY: as the caller's.
        unsafe { kernel.launch(stream, &launch, &arguments)? };
        Ok(())
    }

    fn arguments(&self, values: &[Value]) -> Result<Arguments> {
        let mut arguments = Arguments::new();
        for value in values {
            match value {
                Value::U32(value) => arguments.u32(*value),
                Value::U64(value) => arguments.u64(*value),
                Value::F32(value) => arguments.f32(*value),
                Value::Map(tensor) => arguments.tensor_map(&tensor.tiled().encode(&self.context)?),
            };
        }
        Ok(arguments)
    }

    fn check_device(&self, device: Device) -> Result<()> {
        let own = Device::Cuda(self.context.device().ordinal());
        if device == own {
            return Ok(());
        }
        let (expected, got) = (own.to_string(), device.to_string());
        Err(jhalak_problem::Error::Device { argument: "q", expected, got }.into())
    }
}

fn dq_columns(problem: &Problem<'_>) -> usize {
    problem.head_dim().next_multiple_of(DQ_COLUMNS)
}

/// Bytes of delta', up to where the sums of dq begin.
fn delta_bytes(problem: &Problem<'_>) -> usize {
    (4 * rows(problem)).next_multiple_of(ALIGN)
}

/// Bytes of the sums of dq, up to where what follows begins.
fn dq_bytes(problem: &Problem<'_>) -> usize {
    (4 * rows(problem) * dq_columns(problem)).next_multiple_of(ALIGN)
}

/// Bytes of the turns of blocks, up to where the sums of dbias begin.
fn turns_bytes(problem: &Problem<'_>) -> usize {
    if problem.is_deterministic() {
        (4 * BackwardPlan::turns(problem)).next_multiple_of(ALIGN)
    } else {
        0
    }
}

/// Rows of queries, of all heads.
fn rows(problem: &Problem<'_>) -> usize {
    problem.lse_shape().iter().product()
}

fn bias_elements(problem: &Problem<'_>) -> usize {
    problem.bias_shape().map_or(0, |shape| shape.iter().product())
}

/// Whether the portable kernels are asked for.
fn asks_for_portable(path: Option<std::ffi::OsString>) -> Result<bool> {
    match path {
        Some(path) if path != "portable" => {
            let got = path.display().to_string();
            let expected = "portable, or unset".to_owned();
            let argument = "JHALAK_GPU_PATH";
            Err(Error::Call(jhalak_problem::Error::Value { argument, expected, got }))
        }
        path => Ok(path.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_path_is_an_error_that_names_it() {
        assert!(!asks_for_portable(None).unwrap());
        assert!(asks_for_portable(Some("portable".into())).unwrap());
        let error = asks_for_portable(Some("warp".into())).unwrap_err().to_string();
        assert_eq!(error, "JHALAK_GPU_PATH must be portable, or unset, but is warp");
    }
}
