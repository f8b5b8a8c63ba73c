//! A PTX assembler: GPU kernels are Rust programs that emit PTX, which the CUDA driver compiles when
//! they are first run. No CUDA toolkit, no C++, no build step. It knows nothing of attention.
//!
//! ```text
//! ModuleBuilder ──kernel(name, |k| …)──▶ KernelBuilder ──build()──▶ Module ──text()──▶ the driver
//!  (a target)      k.fma_f32(a, b, c)     (checks each               (instructions as data)
//!                  k.for_range(…)          instruction)
//! ```
//!
//! # Writing a kernel
//!
//! ```
//! use jhalak_ptx::Comparison::Lt;
//! use jhalak_ptx::{F32, KernelBuilder, ModuleBuilder, Special, Target};
//!
//! /// y = a · x + y, by as many threads as are launched.
//! fn axpy(k: &mut KernelBuilder) {
//!     k.maxntid(256);
//!     let (x, y) = (k.param_pointer("x", 4), k.param_pointer("y", 4));
//!     let (a, count) = (k.param_f32("a"), k.param_u32("count"));
//!     let (x, y) = (k.ld_param(x), k.ld_param(y));
//!     let (a, count) = (k.ld_param(a), k.ld_param(count));
//!
//!     let (block, thread) = (k.ctaid_x(), k.tid_x());
//!     let (threads, blocks) = (k.special(Special::NtidX), k.special(Special::NctaidX));
//!     let i = k.mad_lo_u32(block, threads, thread);
//!     let step = k.mul_lo_u32(threads, blocks);
//!     k.while_(
//!         |k| k.setp_u32(Lt, i, count),
//!         |k| {
//!             let (x, y) = (k.mad_wide_u32(i, 4, x), k.mad_wide_u32(i, 4, y));
//!             let (from_x, from_y): (F32, F32) = (k.ld(x), k.ld(y));
//!             let sum = k.fma_f32(a, from_x, from_y);
//!             k.st(y, sum);
//!             k.add_u32_to(i, i, step);
//!         },
//!     );
//! }
//!
//! let mut module = ModuleBuilder::new(Target::Sm75);
//! module.kernel("axpy", axpy);
//! let module = module.build()?;
//! assert_eq!(module.version().to_string(), "6.3");
//! assert!(module.text().contains("fma.rn.f32 %f3, %f0, %f1, %f2;"));
//! # Ok::<(), jhalak_ptx::Error>(())
//! ```
//!
//! The test `tests/layernorm.rs` of this crate is a small whole example: a kernel, its reference in
//! f64, the emulator over shapes and seeds, and ptxas.
//!
//! *Registers* are typed handles ([`F32`], [`B32`], [`B64`], [`B16`], [`Pred`]), so that an operand
//! of a wrong type does not compile. They are as many as you like; the driver's compiler assigns the
//! hardware's. A method stands for one instruction form: `k.fma_f32(a, b, c)` writes a new register
//! and returns it, `k.fma_f32_to(d, a, b, c)` writes one that exists: a sum, a loop's variable.
//! Inputs can be constants: `k.add_u32(a, 1)`. Calls do not nest, as each borrows `k`: name what is in
//! between. A register belongs to the whole kernel, whichever closure asked for it; what was written
//! inside `when` or `if_` has a value only where the condition held.
//!
//! *Addresses* tell their state space by their type: [`B64`] points to global memory, [`B32`] and
//! [`Region`] to shared memory; `(base, 16)` adds an offset in bytes. The type of the result tells
//! how much is loaded: `k.ld::<F32>(place)`, or `let x: [F32; 4] = k.ld_vector(place)`. Shared memory
//! is laid out by asking for named, aligned regions.
//!
//! *Control flow* is made of closures ([`if_`](KernelBuilder::if_),
//! [`for_range`](KernelBuilder::for_range), [`role`](KernelBuilder::role), …); a Rust loop around
//! `k` unrolls. [`when`](KernelBuilder::when) guards single instructions with a predicate, and `!p`
//! is the opposite of a predicate. The lanes of a warp meet again at the end of an `if_` or of a loop.
//! Rust functions and structs are the macros and templates: a kernel for another tile or type is
//! another argument. Mark helpers `#[track_caller]`, and errors name the line that calls them.
//!
//! *A warp's own instructions* (shuffles, votes, [`elect`](KernelBuilder::elect), `ldmatrix`, `mma`)
//! are for all 32 lanes together. They do not order memory: lanes that pass values through shared
//! memory need [`bar_warp_sync`](KernelBuilder::bar_warp_sync), warps
//! [`bar_sync_all`](KernelBuilder::bar_sync_all). Two threads that write one place race, even if they
//! write the same value.
//!
//! *Approximations*: `ex2`, `lg2`, `rcp`, `sqrt`, `rsqrt` and `tanh` are the hardware's fast ones, and
//! take subnormals for 0 (tanh excepted). There is no division: multiply by `rcp_f32`.
//!
//! *Hopper* is covered where a fast kernel needs it: wgmma with [`Descriptor`]s of matrices in
//! shared memory, tensor copies with [`TensorMapSpec`]s, mbarriers, setmaxnreg.
//!
//! # From CUDA C++
//!
//! | CUDA | here |
//! | --- | --- |
//! | `threadIdx.x`, `blockIdx.x` | [`tid_x`](KernelBuilder::tid_x), [`ctaid_x`](KernelBuilder::ctaid_x) |
//! | `blockDim.x`, `gridDim.x`, … | [`special`](KernelBuilder::special)([`Special::NtidX`]), … |
//! | `__launch_bounds__(256, 2)` | [`maxntid`](KernelBuilder::maxntid)`(256)`, [`minnctapersm`](KernelBuilder::minnctapersm)`(2)` |
//! | `__shared__ float tile[64]` | [`static_shared`](KernelBuilder::static_shared), [`shared_address`](KernelBuilder::shared_address) |
//! | `extern __shared__` | [`dynamic_shared`](KernelBuilder::dynamic_shared) |
//! | `__syncthreads()`, `__syncwarp()` | [`bar_sync_all`](KernelBuilder::bar_sync_all), [`bar_warp_sync`](KernelBuilder::bar_warp_sync) |
//! | `__shfl_xor_sync` | [`shfl_bfly_f32`](KernelBuilder::shfl_bfly_f32), [`shfl_bfly_b32`](KernelBuilder::shfl_bfly_b32) |
//! | `__ballot_sync`, `__any_sync` | [`vote_ballot`](KernelBuilder::vote_ballot), [`vote_any`](KernelBuilder::vote_any) |
//! | `x[i]` | [`mad_wide_u32`](KernelBuilder::mad_wide_u32)`(i, 4, x)`, then [`ld`](KernelBuilder::ld) or [`st`](KernelBuilder::st) |
//! | `a ? b : c` | [`setp_u32`](KernelBuilder::setp_u32), then [`selp_b32`](KernelBuilder::selp_b32) |
//! | `exp2f`, `rsqrtf` | [`ex2_f32`](KernelBuilder::ex2_f32), [`rsqrt_f32`](KernelBuilder::rsqrt_f32) |
//! | `atomicAdd` without its result | [`red_add_f32`](KernelBuilder::red_add_f32) |
//! | `__pipeline_memcpy_async` | [`cp_async`](KernelBuilder::cp_async), [`cp_async_commit_group`](KernelBuilder::cp_async_commit_group), [`cp_async_wait_group`](KernelBuilder::cp_async_wait_group) |
//!
//! # What is checked, and when
//!
//! * Types of operands and state spaces: by the Rust compiler.
//! * Every instruction form states the rules of PTX that types cannot express, the targets that have
//!   it, and the version of PTX that brought it. What breaks a rule is reported by
//!   [`ModuleBuilder::build`], with the rule, the instruction and the Rust line that emitted it. The
//!   module gets the lowest `.version` that has what its kernels use, so that old drivers read it.
//! * What a kernel does: by the [`emulator`], on any CPU.
//! * What the compiler makes of it: by ptxas, which needs no GPU.
//!
//! # Emulating it
//!
//! [`emulator::Launch`] runs a kernel of a module for a grid, and finds what a device lets pass in
//! silence: races, reads of memory that nobody wrote, accesses out of bounds, barriers that not all
//! lanes reach, deadlocks. This kernel reverses 64 numbers by way of shared memory; without its
//! barrier it may well work on a GPU, for years:
//!
//! ```
//! use jhalak_ptx::emulator::{Fault, Launch, Memory, run_seeds};
//! use jhalak_ptx::{B32, KernelBuilder, Module, ModuleBuilder, Target};
//!
//! /// Reverses the order of 64 numbers, by one block of 64 threads.
//! fn reverse(k: &mut KernelBuilder, with_barrier: bool) {
//!     k.reqntid(64);
//!     let values = k.param_pointer("values", 4);
//!     let values = k.ld_param(values);
//!     let tile = k.static_shared("tile", 64 * 4, 4);
//!     let tile = k.shared_address(tile);
//!     let thread = k.tid_x();
//!     let mine = k.mad_wide_u32(thread, 4, values);
//!     let value: B32 = k.ld(mine);
//!     let to = k.mad_lo_u32(thread, 4, tile);
//!     k.st(to, value);
//!     if with_barrier {
//!         k.bar_sync_all();
//!     }
//!     let other = k.xor_b32(thread, 63);
//!     let from = k.mad_lo_u32(other, 4, tile);
//!     let value: B32 = k.ld(from);
//!     k.st(mine, value);
//! }
//!
//! fn module(with_barrier: bool) -> Module {
//!     let mut module = ModuleBuilder::new(Target::Sm75);
//!     module.kernel("reverse", |k| reverse(k, with_barrier));
//!     module.build().unwrap()
//! }
//!
//! let good = module(true);
//! // Each seed is another order of warps and another moment at which copies arrive.
//! run_seeds(0..20, |seed| {
//!     let mut memory = Memory::new();
//!     let values = memory.alloc(&Vec::from_iter(0..64u32));
//!     Launch::new(&good, "reverse").block(64).arg(values).seed(seed).run(&mut memory)?;
//!     assert_eq!(memory.read::<u32>(values, 64).unwrap(), Vec::from_iter((0..64u32).rev()));
//!     Ok::<(), jhalak_ptx::emulator::Report>(())
//! })
//! .unwrap();
//!
//! let mut memory = Memory::new();
//! let values = memory.alloc(&[0u32; 64]);
//! let broken = module(false);
//! let report = Launch::new(&broken, "reverse").block(64).arg(values).run(&mut memory).unwrap_err();
//! assert!(matches!(report.fault, Fault::Race { .. } | Fault::Uninitialised { .. }));
//! // It names the instruction, and the line of this text that emitted it.
//! assert!(report.to_string().contains("ld.shared.b32"), "{report}");
//! ```
//!
//! A report ends the run; it reads like this:
//!
//! ```text
//! uninitialised: nobody wrote the byte at 0x47c of shared memory
//!   at `ld.shared.b32 %r6, [%r5];` (instruction 9, src/reverse.rs:20:24) of block (0, 0, 0), warp 1, lane 0
//!   in kernel `reverse`, seed 0
//! ```
//!
//! # Judging it
//!
//! ptxas, NVIDIA's assembler, is part of the CUDA toolkit and of the package `nvidia-cuda-nvcc` on
//! PyPI. Give it the module's [`text`](Module::text):
//!
//! ```text
//! ptxas -v -arch=sm_90a axpy.ptx -o axpy.cubin
//! ```
//!
//! It says how many registers a thread needs and whether some are spilled to memory. An advisory
//! C75xx means that products of wgmma will wait for each other, or that setmaxnreg is ignored: take
//! it for a failure. jhalak's own tests do this with its crate `jhalak-gate`, which also counts the
//! machine's instructions:
//!
//! ```no_run
//! # let module = jhalak_ptx::ModuleBuilder::new(jhalak_ptx::Target::Sm90a).build()?;
//! let assembled = jhalak_gate::Gate::new()?.assemble(&module.text(), "sm_90a")?;
//! assembled.assert_no_advisory();
//! assembled.kernel("axpy").assert_no_spills();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Then the driver compiles the same text when it is loaded (`cuModuleLoadDataEx`), on whatever GPU
//! there is from the module's [`Target`] on; only [`Target::Sm90a`] is for one architecture alone.
//!
//! # Whole kernels to learn from
//!
//! The crate `jhalak-programs`, in this repository, has a softmax with shuffles, a matrix product
//! with `mma` and a ring of `cp.async`, and one for Hopper that keeps its tensor cores busy: wgmma,
//! tensor copies, mbarriers and warp roles.

mod address;
mod builder;
mod check;
mod control;
mod describe;
mod descriptor;
pub mod emulator;
mod error;
mod instruction;
mod kernel;
mod module;
mod names;
mod parameter;
mod register;
mod shared;
mod swizzle;
mod target;
mod tensor_map;
mod text;

pub use address::{Address, GlobalAddress, SharedAddress};
pub use builder::KernelBuilder;
pub use control::Loop;
pub use descriptor::{Descriptor, Major, MatrixLayout};
pub use error::Error;
pub use instruction::atomic::{AtomicOperator, AtomicOrder};
pub use instruction::barrier::{AsyncMemory, FenceOrder};
pub use instruction::compare::{Comparison, Connective};
pub use instruction::memory::{Access, Element, L1, Order};
pub use instruction::moves::Special;
pub use instruction::types::Scope;
pub use instruction::wgmma::LeftMatrix;
pub use kernel::{BlockThreads, Kernel, LaunchBounds};
pub use module::{Module, ModuleBuilder};
pub use parameter::{Param, Parameter, ParameterKind, TensorMap};
pub use register::{B16, B32, B64, Class, Condition, F32, Pred, Register, Source, TypedRegister};
pub use shared::{Placement, Region, SharedLayout};
pub use swizzle::Swizzle;
pub use target::{Target, Version};
pub use tensor_map::{OutOfBounds, TENSOR_ALIGN, TensorElement, TensorMapError, TensorMapSpec};
