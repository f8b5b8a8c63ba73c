//! Writes a kernel: hands out registers, declares what it takes, and collects instructions.
//!
//! The methods that make instructions stand with their families; those for control flow in
//! [`crate::control`]. Whatever goes wrong is kept until the module is built, with the Rust line.

use std::marker::PhantomData;
use std::panic::Location;

use crate::check::{Check, Fault};
use crate::error::Error;
use crate::instruction::{Instruction, Label, Operation};
use crate::kernel::{BlockThreads, Kernel};
use crate::parameter::{Param, Parameter, ParameterKind, TensorMap};
use crate::register::{B32, B64, Class, Condition, F32, TypedRegister};
use crate::shared::{Placement, Region};
use crate::target::{Target, Version};
use crate::text;

/// The position of a label that nothing follows yet.
const UNBOUND: usize = usize::MAX;

/// Bytes of a kernel's parameters that every version of PTX takes.
const MAX_PARAMETER_BYTES: usize = 4352;

/// A kernel that is being written. [`ModuleBuilder::kernel`](crate::ModuleBuilder::kernel) lends
/// one to a closure.
#[derive(Debug)]
pub struct KernelBuilder {
    pub(crate) kernel: Kernel,
    pub(crate) version: Version,
    pub(crate) error: Option<Error>,
    pub(crate) guard: Option<Condition>,
    target: Target,
}

/// # Registers, parameters, shared memory, bounds
impl KernelBuilder {
    pub(crate) fn new(name: &str, target: Target) -> Self {
        KernelBuilder {
            kernel: Kernel::new(name),
            version: target.first_version(),
            error: None,
            guard: None,
            target,
        }
    }

    /// The target that the module is for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// A new register, with nothing in it yet.
    pub fn register<R: TypedRegister>(&mut self) -> R {
        let count = &mut self.kernel.registers[R::CLASS as usize];
        *count += 1;
        R::from_index(*count - 1)
    }

    /// New registers, with nothing in them yet.
    pub fn registers<R: TypedRegister, const N: usize>(&mut self) -> [R; N] {
        std::array::from_fn(|_| self.register())
    }

    /// As many new registers as asked, with nothing in them yet.
    pub fn fragment<R: TypedRegister>(&mut self, count: usize) -> Vec<R> {
        (0..count).map(|_| self.register()).collect()
    }

    /// Declares a parameter that is a 32-bit integer.
    #[track_caller]
    pub fn param_u32(&mut self, name: &str) -> Param<B32> {
        Param { index: self.parameter(name, ParameterKind::U32), of: PhantomData }
    }

    /// Declares a parameter that is a 64-bit integer.
    #[track_caller]
    pub fn param_u64(&mut self, name: &str) -> Param<B64> {
        Param { index: self.parameter(name, ParameterKind::U64), of: PhantomData }
    }

    /// Declares a parameter that is a float.
    #[track_caller]
    pub fn param_f32(&mut self, name: &str) -> Param<F32> {
        Param { index: self.parameter(name, ParameterKind::F32), of: PhantomData }
    }

    /// Declares a parameter that is an address in global memory, a multiple of `align` bytes.
    #[track_caller]
    pub fn param_pointer(&mut self, name: &str, align: u32) -> Param<B64> {
        let rule = "what a pointer points to is aligned to a power of two";
        self.declare(align.is_power_of_two(), format!("pointer `{name}`"), rule);
        Param { index: self.parameter(name, ParameterKind::Pointer { align }), of: PhantomData }
    }

    /// Declares a parameter that holds a tensor map (`CUtensorMap`), by value.
    #[track_caller]
    pub fn param_tensor_map(&mut self, name: &str) -> TensorMap {
        TensorMap { index: self.parameter(name, ParameterKind::TensorMap) }
    }

    #[track_caller]
    fn parameter(&mut self, name: &str, kind: ParameterKind) -> usize {
        let what = format!("parameter `{name}`");
        self.declare(is_identifier(name), what.clone(), IDENTIFIER_RULE);
        let taken = self.kernel.parameters.iter().any(|other| other.name == name);
        self.declare(!taken, what.clone(), "a parameter's name is its own");
        let before = self.kernel.parameters.iter().map(|parameter| parameter.kind);
        let bytes = before
            .chain([kind])
            .fold(0, |end: usize, kind| end.next_multiple_of(kind.align()) + kind.bytes());
        let rule = "a kernel's parameters have at most 4352 bytes";
        self.declare(bytes <= MAX_PARAMETER_BYTES, what, rule);
        self.kernel.parameters.push(Parameter { name: name.to_owned(), kind });
        self.kernel.parameters.len() - 1
    }

    /// A region of dynamic shared memory, which the launch provides. `align` is in bytes, a power
    /// of two up to 1024.
    #[track_caller]
    pub fn dynamic_shared(&mut self, name: &str, bytes: u32, align: u32) -> Region {
        self.shared(Placement::Dynamic, name, bytes, align)
    }

    /// A region of static shared memory, of which there are 48 KiB. `align` is in bytes, a power of
    /// two up to 1024.
    #[track_caller]
    pub fn static_shared(&mut self, name: &str, bytes: u32, align: u32) -> Region {
        self.shared(Placement::Static, name, bytes, align)
    }

    #[track_caller]
    fn shared(&mut self, placement: Placement, name: &str, bytes: u32, align: u32) -> Region {
        let layout = match placement {
            Placement::Static => &mut self.kernel.static_shared,
            Placement::Dynamic => &mut self.kernel.dynamic_shared,
        };
        let region = layout.region(name, bytes, align);
        let what = format!("shared memory `{name}`");
        // The dynamic memory comes after the static one, at its own alignment.
        let (fixed, dynamic) = (&self.kernel.static_shared, &self.kernel.dynamic_shared);
        let total = u64::from(fixed.bytes()).next_multiple_of(dynamic.align().into())
            + u64::from(dynamic.bytes());
        let fits = total <= self.target.max_shared_bytes().into();
        self.declare(fits, what.clone(), "a block has no more shared memory than its device");
        match region {
            Ok(region) => region,
            Err(rule) => {
                self.declare(false, what, rule);
                Region { placement, offset: 0, bytes }
            }
        }
    }

    /// Promises that a block has at most so many threads (`.maxntid`), all along x.
    #[track_caller]
    pub fn maxntid(&mut self, threads: u32) {
        self.block_threads(BlockThreads::AtMost(threads), threads);
    }

    /// Promises that a block has exactly so many threads (`.reqntid`), all along x.
    #[track_caller]
    pub fn reqntid(&mut self, threads: u32) {
        self.block_threads(BlockThreads::Exactly(threads), threads);
    }

    #[track_caller]
    fn block_threads(&mut self, bound: BlockThreads, threads: u32) {
        let what = format!("{threads} threads");
        self.declare((1..=1024).contains(&threads), what, "a block has 1 to 1024 threads");
        self.kernel.bounds.threads = bound;
    }

    /// Asks for registers few enough that a multiprocessor holds so many blocks (`.minnctapersm`).
    /// The block's threads must be known by then.
    #[track_caller]
    pub fn minnctapersm(&mut self, blocks: u32) {
        let known = self.kernel.bounds.threads != BlockThreads::Any;
        let rule = "minnctapersm counts blocks of known size: say maxntid or reqntid before";
        self.declare(known, format!("minnctapersm {blocks}"), rule);
        self.kernel.bounds.min_blocks = Some(blocks);
    }

    /// Asks for at most so many registers per thread (`.maxnreg`).
    #[track_caller]
    pub fn maxnreg(&mut self, registers: u32) {
        let known = (1..=255).contains(&registers);
        self.declare(known, format!("maxnreg {registers}"), "a thread has 1 to 255 registers");
        self.kernel.bounds.max_registers = Some(registers);
    }

    /// Appends an instruction under the current guard.
    #[track_caller]
    pub(crate) fn push(&mut self, operation: impl Into<Operation>) {
        self.push_guarded(self.guard, operation.into());
    }

    /// Appends an instruction; an illegal one becomes the module's error.
    #[track_caller]
    pub(crate) fn push_guarded(&mut self, guard: Option<Condition>, operation: Operation) {
        use crate::describe::Describe;
        let location = Location::caller();
        let mut check = Check::new(self.target, self.version);
        operation.describe(&mut check);
        let instruction = Instruction { guard, operation, location };
        match check.verdict() {
            Ok(version) => self.version = version,
            Err(fault) => self.fail(|this| this.instruction_error(fault, &instruction)),
        }
        self.kernel.instructions.push(instruction);
    }

    fn instruction_error(&self, fault: Fault, instruction: &Instruction) -> Error {
        let kernel = self.kernel.name.clone();
        let location = instruction.location;
        let instruction = text::instruction(&self.kernel, instruction);
        match fault {
            Fault::Rule(rule) => Error::Illegal { kernel, instruction, rule, location },
            Fault::Needs(needs, version) => {
                let target = self.target;
                Error::Unsupported { kernel, instruction, needs, version, target, location }
            }
        }
    }

    /// Keeps an error about a declaration unless the rule holds.
    #[track_caller]
    pub(crate) fn declare(&mut self, holds: bool, what: String, rule: &'static str) {
        let location = Location::caller();
        if !holds {
            self.fail(|this| Error::Declaration {
                kernel: this.kernel.name.clone(),
                what,
                rule,
                location,
            });
        }
    }

    /// Keeps the first error: later ones often follow from it.
    fn fail(&mut self, error: impl FnOnce(&Self) -> Error) {
        if self.error.is_none() {
            self.error = Some(error(self));
        }
    }

    /// A label to be placed later.
    pub(crate) fn new_label(&mut self) -> Label {
        self.kernel.labels.push(UNBOUND);
        Label(self.kernel.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub(crate) fn bind(&mut self, label: Label) {
        self.kernel.labels[label.0] = self.kernel.instructions.len();
    }
}

/// The rule for the names of kernels and parameters.
pub(crate) const IDENTIFIER_RULE: &str =
    "a name is a letter, followed by letters, digits and underscores; WARP_SZ is taken by PTX";

/// Whether PTX takes the name as it is.
pub(crate) fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name != "WARP_SZ"
}

// Every class counts its registers in its own place.
const _: () = {
    let mut index = 0;
    while index < Class::ALL.len() {
        assert!(Class::ALL[index] as usize == index);
        index += 1;
    }
};
