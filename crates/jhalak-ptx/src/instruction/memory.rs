//! Loads, stores and prefetches (PTX ISA, "ld", "ld.global.nc", "st", "prefetch").

use super::types::{Scope, Type};
use crate::KernelBuilder;
use crate::address::{Address, GlobalAddress, Space};
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::parameter::Param;
use crate::register::{B32, B64, Class, Operand, Register, TypedRegister};
use crate::target::{Since, Target, Version};

const CACHE_HINTS: &Since = &[(Target::Sm75, Version::new(7, 4))];
const CACHE_POLICY: &Since = &[(Target::Sm80, Version::new(7, 4))];

/// How an access is ordered with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Not at all; barriers and fences order it.
    Weak,
    /// Loads from global memory that nobody writes while the kernel runs.
    ReadOnly,
    /// As written, every time.
    Volatile,
    /// Seen by others in one piece.
    Relaxed(Scope),
    /// A load: what the writer did before its release is seen afterwards.
    Acquire(Scope),
    /// A store: what was done before is seen by whoever acquires it.
    Release(Scope),
}

named! {
    /// What the first cache should do with a line.
    pub enum L1 {
        /// As usual.
        Normal = "",
        /// Not keep it.
        NoAllocate = ".L1::no_allocate",
        /// Let it go first.
        EvictFirst = ".L1::evict_first",
        /// Keep it longest.
        EvictLast = ".L1::evict_last",
    }
}

/// How a load or store treats order and caches. The default is weak, with nothing said of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub(crate) order: Order,
    pub(crate) l1: L1,
    pub(crate) policy: Option<B64>,
}

impl Default for Access {
    fn default() -> Self {
        Access::new(Order::Weak)
    }
}

impl Access {
    /// An access of this order, with nothing said of caches.
    pub fn new(order: Order) -> Self {
        Access { order, l1: L1::Normal, policy: None }
    }

    /// The first cache treats the line so.
    pub fn l1(self, l1: L1) -> Self {
        Access { l1, ..self }
    }

    /// The second cache treats the line as this policy says (PTX ISA, "createpolicy").
    pub fn policy(self, policy: B64) -> Self {
        Access { policy: Some(policy), ..self }
    }

    fn order_name(&self) -> [&'static str; 2] {
        match self.order {
            Order::Weak | Order::ReadOnly => ["", ""],
            Order::Volatile => [".volatile", ""],
            Order::Relaxed(scope) => [".relaxed", scope.name()],
            Order::Acquire(scope) => [".acquire", scope.name()],
            Order::Release(scope) => [".release", scope.name()],
        }
    }

    fn describe(&self, space: Space, to: &mut impl Reader) {
        let hinted = self.l1 != L1::Normal || self.policy.is_some();
        if self.l1 != L1::Normal {
            to.needs(CACHE_HINTS);
        }
        if self.policy.is_some() {
            to.needs(CACHE_POLICY);
        }
        to.rule(!hinted || space == Space::Global, "cache hints are for global memory");
        to.rule(!hinted || self.order != Order::Volatile, "a volatile access takes no cache hints");
    }

    fn policy_name(&self) -> &'static str {
        if self.policy.is_some() { ".L2::cache_hint" } else { "" }
    }
}

fn vector_name(count: usize, to: &mut impl Reader) -> &'static str {
    to.rule(matches!(count, 1 | 2 | 4), "a vector has 2 or 4 elements");
    match count {
        1 => "",
        2 => ".v2",
        _ => ".v4",
    }
}

fn check_place(address: &Address, ty: Type, count: usize, to: &mut impl Reader) {
    let bytes = ty.bytes() * u32::try_from(count).unwrap_or(u32::MAX);
    to.rule(bytes <= 16, "an access is of 16 bytes at most");
    to.rule(address.may_hold(bytes), "an access is aligned to its own size");
}

/// Registers = memory at `address`.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) access: Access,
    pub(crate) ty: Type,
    pub(crate) d: Vec<Register>,
    pub(crate) address: Address,
}

impl Describe for Load {
    fn describe(&self, to: &mut impl Reader) {
        let space = self.address.space;
        let read_only = self.access.order == Order::ReadOnly;
        self.access.describe(space, to);
        check_place(&self.address, self.ty, self.d.len(), to);
        to.rule(!read_only || space == Space::Global, "read-only loads are from global memory");
        to.rule(!matches!(self.access.order, Order::Release(_)), "a load acquires, never releases");
        let vector = vector_name(self.d.len(), to);
        let [order, scope] = self.access.order_name();
        to.name(&[
            "ld",
            order,
            scope,
            space.name(),
            if read_only { ".nc" } else { "" },
            self.access.l1.name(),
            self.access.policy_name(),
            vector,
            self.ty.name(),
        ]);
        match *self.d {
            [d] => to.output(d),
            ref d => to.outputs(d),
        }
        to.memory(self.address);
        if let Some(policy) = self.access.policy {
            to.input(policy.into());
        }
    }
}

/// Memory at `address` = registers.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) access: Access,
    pub(crate) ty: Type,
    pub(crate) address: Address,
    pub(crate) values: Vec<Register>,
}

impl Describe for Store {
    fn describe(&self, to: &mut impl Reader) {
        let space = self.address.space;
        self.access.describe(space, to);
        check_place(&self.address, self.ty, self.values.len(), to);
        to.rule(
            !matches!(self.access.order, Order::Acquire(_) | Order::ReadOnly),
            "a store is weak, volatile or relaxed, or releases",
        );
        let vector = vector_name(self.values.len(), to);
        let [order, scope] = self.access.order_name();
        to.name(&[
            "st",
            order,
            scope,
            space.name(),
            self.access.l1.name(),
            self.access.policy_name(),
            vector,
            self.ty.name(),
        ]);
        to.memory(self.address);
        match *self.values {
            [value] => to.input(Operand::Register(value)),
            ref values => to.inputs(values),
        }
        if let Some(policy) = self.access.policy {
            to.input(policy.into());
        }
    }
}

/// Asks for the line at `address` to be brought to the second cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefetch {
    pub(crate) address: Address,
}

impl Describe for Prefetch {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["prefetch.global.L2"]);
        to.memory(self.address);
    }
}

fn memory_type(class: Class) -> Type {
    match class {
        Class::Pred => Type::Pred,
        Class::B16 => Type::B16,
        Class::B32 => Type::B32,
        Class::B64 => Type::B64,
        Class::F32 => Type::F32,
    }
}

/// A register that memory can hold: any but a predicate.
#[diagnostic::on_unimplemented(
    message = "memory does not hold a `{Self}`",
    note = "B16, B32, B64 and F32 are loaded and stored; a predicate becomes a number by `selp_b32`"
)]
pub trait Element: TypedRegister {}

impl Element for crate::B16 {}
impl Element for B32 {}
impl Element for B64 {}
impl Element for crate::F32 {}

/// # Loads and stores
impl KernelBuilder {
    /// One register from memory; its type says how many bytes.
    #[track_caller]
    pub fn ld<R: Element>(&mut self, place: impl Into<Address>) -> R {
        let d: R = self.register();
        self.ld_to(d, place);
        d
    }

    /// [`ld`](Self::ld), written to `d`.
    #[track_caller]
    pub fn ld_to<R: Element>(&mut self, d: R, place: impl Into<Address>) {
        self.ld_with([d], place, Access::default());
    }

    /// 2 or 4 registers from adjacent memory, 16 bytes at most, aligned to the whole.
    #[track_caller]
    pub fn ld_vector<R: Element, const N: usize>(&mut self, place: impl Into<Address>) -> [R; N] {
        let d = self.registers();
        self.ld_with(d, place, Access::default());
        d
    }

    /// Memory into registers that exist, with the order and the caches told.
    #[track_caller]
    pub fn ld_with<R: Element, const N: usize>(
        &mut self,
        d: [R; N],
        place: impl Into<Address>,
        access: Access,
    ) {
        let (ty, d) = (memory_type(R::CLASS), d.map(Into::into).to_vec());
        self.push(Load { access, ty, d, address: place.into() });
    }

    /// A byte from memory, in the low part of a register; the rest is 0.
    #[track_caller]
    pub fn ld_u8(&mut self, place: impl Into<Address>) -> B32 {
        let d: B32 = self.register();
        self.ld_u8_to(d, place);
        d
    }

    /// [`ld_u8`](Self::ld_u8), written to `d`.
    #[track_caller]
    pub fn ld_u8_to(&mut self, d: B32, place: impl Into<Address>) {
        self.load_narrow(Type::U8, d, place.into());
    }

    /// Two bytes from memory, in the low part of a register; the rest is 0.
    #[track_caller]
    pub fn ld_u16(&mut self, place: impl Into<Address>) -> B32 {
        let d: B32 = self.register();
        self.ld_u16_to(d, place);
        d
    }

    /// [`ld_u16`](Self::ld_u16), written to `d`.
    #[track_caller]
    pub fn ld_u16_to(&mut self, d: B32, place: impl Into<Address>) {
        self.load_narrow(Type::U16, d, place.into());
    }

    #[track_caller]
    fn load_narrow(&mut self, ty: Type, d: B32, address: Address) {
        self.push(Load { access: Access::default(), ty, d: vec![d.into()], address });
    }

    /// The value of a parameter.
    #[track_caller]
    pub fn ld_param<R: Element>(&mut self, parameter: Param<R>) -> R {
        let d: R = self.register();
        let (access, ty) = (Access::default(), memory_type(R::CLASS));
        let address = Address::parameter(parameter.index);
        self.push(Load { access, ty, d: vec![d.into()], address });
        d
    }

    /// One register to memory; its type says how many bytes.
    #[track_caller]
    pub fn st<R: Element>(&mut self, place: impl Into<Address>, value: R) {
        self.st_vector(place, [value]);
    }

    /// 2 or 4 registers to adjacent memory, 16 bytes at most, aligned to the whole.
    #[track_caller]
    pub fn st_vector<R: Element, const N: usize>(
        &mut self,
        place: impl Into<Address>,
        values: [R; N],
    ) {
        self.st_with(place, values, Access::default());
    }

    /// Registers to memory, with the order and the caches told.
    #[track_caller]
    pub fn st_with<R: Element, const N: usize>(
        &mut self,
        place: impl Into<Address>,
        values: [R; N],
        access: Access,
    ) {
        let (ty, values) = (memory_type(R::CLASS), values.map(Into::into).to_vec());
        self.push(Store { access, ty, address: place.into(), values });
    }

    /// The low byte of a register to memory.
    #[track_caller]
    pub fn st_u8(&mut self, place: impl Into<Address>, value: B32) {
        self.store_narrow(Type::U8, place.into(), value);
    }

    /// The low two bytes of a register to memory.
    #[track_caller]
    pub fn st_u16(&mut self, place: impl Into<Address>, value: B32) {
        self.store_narrow(Type::U16, place.into(), value);
    }

    #[track_caller]
    fn store_narrow(&mut self, ty: Type, address: Address, value: B32) {
        let (access, values) = (Access::default(), vec![value.into()]);
        self.push(Store { access, ty, address, values });
    }

    /// Asks for the line at an address to be brought to the second cache.
    #[track_caller]
    pub fn prefetch(&mut self, place: impl Into<GlobalAddress>) {
        self.push(Prefetch { address: place.into().0 });
    }
}
