//! `jhalak warmup`: compiles GPU kernels before they are needed.

use std::time::Instant;

use clap::Args;
use jhalak::DType;
use jhalak::cuda::Engine;

use crate::failure::{Failure, say};

/// Compile the kernels of an NVIDIA GPU ahead, so that no first call waits for them. The driver
/// keeps them on disk.
#[derive(Debug, Args)]
pub(crate) struct Warmup {
    /// The GPU.
    #[arg(long, default_value_t = 0)]
    device: u32,
    /// Head dimensions.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 128])]
    head_dims: Vec<usize>,
    /// Also single precision.
    #[arg(long)]
    f32: bool,
}

impl Warmup {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let engine = Engine::new(self.device).map_err(|error| Failure::Input(error.to_string()))?;
        let (name, capability) = device(&engine)?;
        say(format_args!("{name}"))?;
        let mut dtypes = vec![DType::F16];
        // bf16 came with Ampere.
        dtypes.extend((capability >= (8, 0)).then_some(DType::BF16));
        dtypes.extend(self.f32.then_some(DType::F32));
        for dtype in dtypes {
            for &dim in &self.head_dims {
                let began = Instant::now();
                for causal in [false, true] {
                    let compiled = engine.warm_up(dtype, dim, causal);
                    compiled.map_err(|error| Failure::Input(error.to_string()))?;
                }
                let time = began.elapsed().as_secs_f64();
                say(format_args!("{dtype}, head dimension {dim}: {time:.1} s"))?;
            }
        }
        Ok(())
    }
}

fn device(engine: &Engine) -> Result<(String, (u32, u32)), Failure> {
    let properties = engine.context().device().properties();
    let properties = properties.map_err(|error| Failure::Input(error.to_string()))?;
    Ok((properties.name, properties.compute_capability))
}
