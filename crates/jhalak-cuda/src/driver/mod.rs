//! A small layer over NVIDIA's driver, `libcuda`, which is found when the program runs.
//!
//! ```text
//! Driver::get ─▶ Device ─▶ Context ─┬─▶ Module ─▶ Function ─▶ launch(stream, shape, arguments)
//!  (the library)  (one GPU)  (shared │    (PTX, compiled by the driver)
//!                            with    ├─▶ Stream, Event, Graph     (own, or borrowed by raw handle)
//!                            PyTorch)└─▶ Buffer                   (or any address of the caller)
//! ```
//!
//! ```no_run
//! use jhalak_cuda::driver::{Arguments, Driver, Launch};
//!
//! # let (ptx, address) = ("", 0);
//! let context = Driver::get()?.device(0)?.primary_context()?;
//! let stream = context.stream()?;
//! let module = context.load_module(ptx, 4)?;
//! let kernel = module.function("add_one")?;
//! let mut arguments = Arguments::new();
//! arguments.pointer(address).u32(1000);
//! // SAFETY: the kernel takes a pointer to 1000 numbers and their count.
//! unsafe { kernel.launch(&stream, &Launch::new([8, 1, 1], [128, 1, 1]), &arguments)? };
//! stream.synchronize()?;
//! # Ok::<(), jhalak_cuda::driver::Error>(())
//! ```
//!
//! * **Contexts.** Everything happens in the device's primary context, the one that PyTorch and the
//!   CUDA runtime use. Each call makes it current and gives the calling thread back the one it had.
//! * **Threads.** All types may be used from several threads at once.
//! * **Handles.** Device memory is a plain `u64` address, and streams of others come in as the
//!   number that they are: nothing has to be wrapped to be used.
//! * **Errors.** Nothing here panics over the machine. A missing or old driver, a function that the
//!   driver does not have, and each failed call are values of [`Error`].
//! * **Fork.** CUDA does not survive `fork`. In the child, every call that reaches for a context
//!   fails with [`Error::Forked`]; start worker processes by `spawn`, or fork before the first use.
//!
//! Names, codes and layouts are those of `cuda.h`, CUDA 12.0.

mod arguments;
mod context;
mod device;
mod error;
mod event;
mod function;
mod functions;
mod graph;
mod launch;
mod library;
mod memory;
mod module;
mod module_cache;
mod stream;
mod tensor_map;

pub use arguments::{Arguments, MAX_ARGUMENTS, MAX_BYTES};
pub use context::{Context, Current};
pub use device::{Device, Properties};
pub use error::{Error, Result};
pub use event::Event;
pub use function::{Function, Resources};
pub use graph::{CapturedGraph, ExecutableGraph};
pub use launch::Launch;
pub use library::Driver;
pub use memory::Buffer;
pub use module::Module;
pub use module_cache::ModuleCache;
pub use stream::Stream;
pub use tensor_map::{Swizzle, TensorMap, TensorMapType, TiledTensor};
