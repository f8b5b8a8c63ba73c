//! [`Engine`]: runs checked calls on one GPU.

use std::sync::Arc;

use jhalak_problem::{Device, Forward};

use crate::driver::{Arguments, Context, Driver, Function, Launch, ModuleCache, Stream};
use crate::error::{Error, Result};
use crate::kernels::{ForwardClass, portable};
use crate::plan::{ForwardPlan, Limits, Value};

/// The compiler's usual level.
const OPTIMIZATION: u32 = 4;

/// Runs checked calls on one GPU. A clone shares the compiled kernels.
///
/// A kernel is compiled at the first call of its class, by the driver, which keeps it on disk for
/// the next process. After that a call allocates no device memory, waits for nothing and reads
/// nothing of the device: it may be captured into a graph.
#[derive(Clone, Debug)]
pub struct Engine {
    context: Context,
    limits: Limits,
    forward: Arc<ModuleCache<ForwardClass, Function>>,
}

impl Engine {
    /// The GPU of this ordinal.
    ///
    /// # Errors
    /// No driver, no such GPU, or one older than compute capability 7.5; a value of
    /// `JHALAK_GPU_PATH` that does not name a path.
    pub fn new(ordinal: u32) -> Result<Self> {
        check_path(std::env::var_os("JHALAK_GPU_PATH"))?;
        let context = Driver::get()?.device(ordinal)?.primary_context()?;
        let properties = context.device().properties()?;
        let shared = properties.shared_memory_per_block;
        let limits = Limits::of_capability(properties.compute_capability, shared)?;
        Ok(Engine { context, limits, forward: Arc::new(ModuleCache::new()) })
    }

    /// The same GPU with kernels for other limits: an older architecture's, say.
    pub fn with_limits(self, limits: Limits) -> Self {
        Engine { limits, ..self }
    }

    /// The GPU's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Begins to compute out and lse, on this stream.
    ///
    /// # Errors
    /// Tensors of another device; what kernels or the GPU cannot do; what the driver says.
    ///
    /// # Safety
    /// The tensors' memory must stay what [`TensorView::from_raw`](jhalak_problem::TensorView)
    /// promises until the stream has done the work, not only until this returns.
    pub unsafe fn forward(&self, stream: &Stream, call: &Forward<'_>) -> Result<()> {
        self.check_device(call.problem().device())?;
        let Some(plan) = ForwardPlan::new(call, self.limits)? else { return Ok(()) };
        let _current = self.context.enter()?;
        let kernel = self.forward_kernel(&plan.class)?;
        let [x, y] = plan.grid;
        let launch =
            Launch::new([x, y, 1], [plan.threads(), 1, 1]).shared_bytes(plan.shared_bytes());
        // SAFETY: the plan's arguments are those of its class's kernel, in order; the caller vouches
        // for the memory.
        unsafe { kernel.launch(stream, &launch, &arguments(&plan.arguments))? };
        Ok(())
    }

    /// Compiles the forward kernel of a class, unless that has been done.
    ///
    /// # Errors
    /// What the driver says.
    pub fn forward_kernel(&self, class: &ForwardClass) -> Result<Arc<Function>> {
        let kernel = self.forward.get_or_load(&self.context, *class, |context| {
            let module = portable::forward(class).expect("a planned class can be written");
            let module = context.load_module(&module.text(), OPTIMIZATION)?;
            let function = module.function(portable::FORWARD)?;
            function.allow_shared_memory(portable::shared_bytes(class))?;
            Ok(function)
        });
        Ok(kernel?)
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

fn arguments(values: &[Value]) -> Arguments {
    let mut arguments = Arguments::new();
    for value in values {
        match *value {
            Value::U32(value) => arguments.u32(value),
            Value::U64(value) => arguments.u64(value),
            Value::F32(value) => arguments.f32(value),
        };
    }
    arguments
}

/// So far there is one path.
fn check_path(path: Option<std::ffi::OsString>) -> Result<()> {
    match path {
        Some(path) if path != "portable" => {
            let got = path.display().to_string();
            let expected = "portable, or unset".to_owned();
            Err(Error::Call(jhalak_problem::Error::Value {
                argument: "JHALAK_GPU_PATH",
                expected,
                got,
            }))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_path_is_an_error_that_names_it() {
        assert!(check_path(None).is_ok() && check_path(Some("portable".into())).is_ok());
        let error = check_path(Some("warp".into())).unwrap_err().to_string();
        assert_eq!(error, "JHALAK_GPU_PATH must be portable, or unset, but is warp");
    }
}
