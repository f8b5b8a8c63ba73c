//! A launch: a kernel, its grid, its arguments, and a seed.

use std::fmt;

use super::block::Block;
use super::fault::{Fault, Place, Report};
use super::machine::Machine;
use super::memory::Memory;
use crate::kernel::{BlockThreads, Kernel};
use crate::module::Module;
use crate::parameter::ParameterKind;
use crate::tensor_map::{TENSOR_ALIGN, TensorMapSpec};

/// Instructions of warps after which a launch that does not end is given up.
const STEP_LIMIT: u64 = 1 << 27;

/// A kernel's argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A 32-bit integer.
    U32(u32),
    /// A 64-bit integer or an address.
    U64(u64),
    /// A float.
    F32(f32),
    /// A tensor map.
    Tensor {
        /// What the tensor looks like.
        spec: TensorMapSpec,
        /// Its address in global memory, a multiple of 16.
        base: u64,
    },
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::U32(value) => write!(f, "the u32 {value}"),
            Argument::U64(value) => write!(f, "the u64 {value:#x}"),
            Argument::F32(value) => write!(f, "the f32 {value}"),
            Argument::Tensor { base, .. } => write!(f, "a tensor map of {base:#x}"),
        }
    }
}

macro_rules! arguments {
    ($($ty:ty: $variant:ident = |$value:ident| $stored:expr;)*) => {$(
        impl From<$ty> for Argument {
            fn from($value: $ty) -> Self {
                Argument::$variant($stored)
            }
        }
    )*};
}

arguments! {
    u32: U32 = |value| value;
    i32: U32 = |value| value.cast_unsigned();
    u64: U64 = |value| value;
    f32: F32 = |value| value;
}

impl Argument {
    fn fits(&self, kind: ParameterKind) -> bool {
        match (self, kind) {
            (Argument::U32(_), ParameterKind::U32)
            | (Argument::F32(_), ParameterKind::F32)
            | (Argument::U64(_), ParameterKind::U64) => true,
            (Argument::U64(address), ParameterKind::Pointer { align }) => {
                address.is_multiple_of(u64::from(align))
            }
            (Argument::Tensor { spec, base }, ParameterKind::TensorMap) => {
                spec.validate().is_ok() && base.is_multiple_of(TENSOR_ALIGN)
            }
            _ => false,
        }
    }

    /// The bytes that the kernel loads, as a number.
    pub(super) fn bits(&self) -> u64 {
        match self {
            Argument::U32(value) => (*value).into(),
            Argument::U64(value) => *value,
            Argument::Tensor { base, .. } => *base,
            Argument::F32(value) => value.to_bits().into(),
        }
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions, counted once for each warp.
    pub instructions: u64,
}

/// A launch that is being described.
///
/// ```
/// use jhalak_ptx::emulator::{Launch, Memory};
/// use jhalak_ptx::{F32, ModuleBuilder, Target};
///
/// let mut module = ModuleBuilder::new(Target::Sm75);
/// module.kernel("twice", |k| {
///     let values = k.param_pointer("values", 4);
///     let values = k.ld_param(values);
///     let thread = k.tid_x();
///     let place = k.mad_wide_u32(thread, 4, values);
///     let value: F32 = k.ld(place);
///     let doubled = k.add_f32(value, value);
///     k.st(place, doubled);
/// });
/// let module = module.build()?;
///
/// let mut memory = Memory::new();
/// let values = memory.alloc(&[1.0f32, 2.0, 3.0]);
/// Launch::new(&module, "twice").grid(1, 1, 1).block(3).arg(values).run(&mut memory)?;
/// assert_eq!(memory.read::<f32>(values, 3)?, [2.0, 4.0, 6.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    module: &'a Module,
    name: &'a str,
    grid: [u32; 3],
    threads: u32,
    dynamic_shared: u32,
    arguments: Vec<Argument>,
    seed: u64,
    step_limit: u64,
    in_order: bool,
}

impl<'a> Launch<'a> {
    /// One block of one warp, no arguments, no dynamic shared memory, seed 0.
    pub fn new(module: &'a Module, kernel: &'a str) -> Self {
        Launch {
            module,
            name: kernel,
            grid: [1; 3],
            threads: 32,
            dynamic_shared: 0,
            arguments: Vec::new(),
            seed: 0,
            step_limit: STEP_LIMIT,
            in_order: false,
        }
    }

    /// So many blocks along x, y and z.
    pub fn grid(self, x: u32, y: u32, z: u32) -> Self {
        Launch { grid: [x, y, z], ..self }
    }

    /// So many threads in a block, all along x.
    pub fn block(self, threads: u32) -> Self {
        Launch { threads, ..self }
    }

    /// So many bytes of dynamic shared memory.
    pub fn dynamic_shared(self, bytes: u32) -> Self {
        Launch { dynamic_shared: bytes, ..self }
    }

    /// The next argument.
    pub fn arg(mut self, argument: impl Into<Argument>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The seed, from which the order of blocks and warps follows, and when copies arrive.
    pub fn seed(self, seed: u64) -> Self {
        Launch { seed, ..self }
    }

    /// After so many instructions of warps the launch is given up; 2²⁷ unless told.
    pub fn step_limit(self, steps: u64) -> Self {
        Launch { step_limit: steps, ..self }
    }

    /// Blocks begin in the order of their numbers, for kernels that count on it.
    pub fn in_order(self) -> Self {
        Launch { in_order: true, ..self }
    }

    /// Runs the grid to its end.
    ///
    /// # Errors
    ///
    /// The first fault that is found. `memory` then holds what was written until then.
    pub fn run(&self, memory: &mut Memory) -> Result<Statistics, Report> {
        let refuse = |why: String| Report {
            fault: Fault::Launch(why),
            place: None,
            kernel: self.name.to_owned(),
            seed: self.seed,
        };
        let Some(kernel) = self.module.kernel(self.name) else {
            return Err(refuse("the module has no kernel of this name".to_owned()));
        };
        self.check(kernel).map_err(refuse)?;
        let grid = Grid {
            kernel,
            blocks: self.grid,
            threads: self.threads,
            dynamic_shared: self.dynamic_shared,
            arguments: &self.arguments,
            seed: self.seed,
            step_limit: self.step_limit,
            in_order: self.in_order,
        };
        Machine::new(&grid, &mut memory.arena).run()
    }

    /// Whether the kernel can be launched so; if not, why.
    fn check(&self, kernel: &Kernel) -> Result<(), String> {
        let threads = self.threads;
        let [x, y, z] = self.grid;
        let blocks = x.checked_mul(y).and_then(|blocks| blocks.checked_mul(z));
        if blocks.is_none_or(|blocks| blocks == 0) {
            return Err(format!("a grid of {x} x {y} x {z} blocks; it has 1 to 2^32 - 1"));
        }
        if !(1..=1024).contains(&threads) {
            return Err(format!("a block of {threads} threads; it has 1 to 1024"));
        }
        match kernel.bounds.threads {
            BlockThreads::AtMost(most) if threads > most => {
                return Err(format!("{threads} threads, at most {most} were promised"));
            }
            BlockThreads::Exactly(exactly) if threads != exactly => {
                return Err(format!("{threads} threads, {exactly} were promised"));
            }
            _ => {}
        }
        let (have, need) = (self.dynamic_shared, kernel.dynamic_shared.bytes());
        if have < need {
            return Err(format!("{have} bytes of dynamic shared memory, {need} are needed"));
        }
        let most = self.module.target().max_shared_bytes();
        if have.saturating_add(kernel.static_shared.bytes()) > most {
            return Err(format!(
                "{have} bytes of dynamic shared memory, a block has {most} in all"
            ));
        }
        let (have, need) = (self.arguments.len(), kernel.parameters.len());
        if have != need {
            return Err(format!("{have} arguments for {need} parameters"));
        }
        for (argument, parameter) in self.arguments.iter().zip(&kernel.parameters) {
            if !argument.fits(parameter.kind) {
                let (name, kind) = (&parameter.name, parameter.kind);
                return Err(format!("argument `{name}` is {argument}, it must be {kind}"));
            }
        }
        Ok(())
    }
}

/// A launch that fits its kernel.
pub(super) struct Grid<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) blocks: [u32; 3],
    pub(super) threads: u32,
    dynamic_shared: u32,
    pub(super) arguments: &'a [Argument],
    pub(super) seed: u64,
    pub(super) step_limit: u64,
    pub(super) in_order: bool,
}

impl Grid<'_> {
    pub(super) fn block_count(&self) -> u32 {
        self.blocks.iter().product()
    }

    /// A block's place in the grid.
    pub(super) fn index_of(&self, block: u32) -> [u32; 3] {
        let [x, y, _] = self.blocks;
        [block % x, block / x % y, block / x / y]
    }

    /// A block at its beginning.
    pub(super) fn block(&self, block: u32) -> Block {
        Block::new(self.kernel, block, self.index_of(block), self.threads, self.dynamic_shared)
    }

    pub(super) fn report(&self, fault: Fault, place: Option<Box<Place>>) -> Report {
        Report { fault, place, kernel: self.kernel.name.clone(), seed: self.seed }
    }
}
