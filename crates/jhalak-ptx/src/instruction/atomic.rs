//! Atomic operations on memory (PTX ISA, "atom", "red").

use super::types::{Scope, Type};
use crate::KernelBuilder;
use crate::address::{Address, GlobalAddress};
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::register::{B32, B64, F32, Operand, Register, Source};
use crate::target::{Target, Version};

named! {
    /// What an atomic operation does to memory, given a value.
    pub enum AtomicOperator {
        /// Adds it.
        Add = ".add",
        /// Counts up by one, and from the value on begins at 0 again.
        Inc = ".inc",
        /// Keeps the smaller.
        Min = ".min",
        /// Keeps the larger.
        Max = ".max",
        /// Bitwise and.
        And = ".and",
        /// Bitwise or.
        Or = ".or",
        /// Bitwise exclusive or.
        Xor = ".xor",
        /// Replaces it.
        Exch = ".exch",
    }

    /// How an atomic operation is ordered with other accesses.
    pub enum AtomicOrder {
        /// Not at all.
        Relaxed = ".relaxed",
        /// What the writer did before its release is seen afterwards.
        Acquire = ".acquire",
        /// What was done before is seen by whoever acquires it.
        Release = ".release",
        /// Both.
        AcqRel = ".acq_rel",
    }
}

impl AtomicOperator {
    /// Bit operations and exchanges name bits, the others numbers.
    fn type_of(self, number: Type, bits: Type) -> Type {
        use AtomicOperator::*;
        if matches!(self, And | Or | Xor | Exch) { bits } else { number }
    }
}

fn check_operator(operator: AtomicOperator, ty: Type, to: &mut impl Reader) {
    to.rule(
        operator != AtomicOperator::Inc || ty == Type::U32,
        "counting up is of unsigned 32-bit numbers",
    );
}

/// `d` = memory before; memory = memory op value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    pub(crate) operator: AtomicOperator,
    pub(crate) order: AtomicOrder,
    pub(crate) scope: Scope,
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) address: Address,
    pub(crate) value: Operand,
}

impl Describe for Atomic {
    fn describe(&self, to: &mut impl Reader) {
        check_operator(self.operator, self.ty, to);
        to.rule(self.address.may_hold(self.ty.bytes()), "an access is aligned to its own size");
        let (order, scope) = (self.order.name(), self.scope.name());
        let space = self.address.space.name();
        to.name(&["atom", order, scope, space, self.operator.name(), self.ty.name()]);
        to.output(self.d);
        to.memory(self.address);
        to.input(self.value);
    }
}

/// `d` = memory before; if it equals `compare`, memory = `value`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompareSwap {
    pub(crate) order: AtomicOrder,
    pub(crate) scope: Scope,
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) address: Address,
    pub(crate) compare: Operand,
    pub(crate) value: Operand,
}

impl Describe for CompareSwap {
    fn describe(&self, to: &mut impl Reader) {
        to.rule(self.address.may_hold(self.ty.bytes()), "an access is aligned to its own size");
        let (order, scope) = (self.order.name(), self.scope.name());
        to.name(&["atom", order, scope, self.address.space.name(), ".cas", self.ty.name()]);
        to.output(self.d);
        to.memory(self.address);
        to.input(self.compare);
        to.input(self.value);
    }
}

/// Memory = memory op value, and nobody asks what it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduce {
    pub(crate) operator: AtomicOperator,
    pub(crate) order: AtomicOrder,
    pub(crate) scope: Scope,
    pub(crate) ty: Type,
    pub(crate) address: Address,
    pub(crate) value: Operand,
}

impl Describe for Reduce {
    fn describe(&self, to: &mut impl Reader) {
        check_operator(self.operator, self.ty, to);
        to.rule(self.address.may_hold(self.ty.bytes()), "an access is aligned to its own size");
        to.rule(
            self.operator != AtomicOperator::Exch,
            "an exchange gives back what was there: use atom",
        );
        to.rule(
            matches!(self.order, AtomicOrder::Relaxed | AtomicOrder::Release),
            "red is relaxed or releases: it reads nothing that could be acquired",
        );
        let (order, scope) = (self.order.name(), self.scope.name());
        let space = self.address.space.name();
        to.name(&["red", order, scope, space, self.operator.name(), self.ty.name()]);
        to.memory(self.address);
        to.input(self.value);
    }
}

/// Four adjacent floats in global memory += values, each at once, relaxed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReduceVector {
    pub(crate) scope: Scope,
    pub(crate) address: Address,
    pub(crate) values: [Register; 4],
    pub(crate) policy: Option<B64>,
}

impl Describe for ReduceVector {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(Target::Sm90a, Version::new(8, 1))]);
        let hint = if self.policy.is_some() { ".L2::cache_hint" } else { "" };
        to.name(&["red.relaxed", self.scope.name(), ".global.add", hint, ".v4.f32"]);
        to.memory(self.address);
        to.inputs(&self.values);
        if let Some(policy) = self.policy {
            to.input(policy.into());
        }
    }
}

/// Two adjacent 16-bit floats in global memory += values, each at once, relaxed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReducePair {
    pub(crate) ty: Type,
    pub(crate) scope: Scope,
    pub(crate) address: Address,
    pub(crate) values: Operand,
}

impl Describe for ReducePair {
    fn describe(&self, to: &mut impl Reader) {
        if self.ty == Type::Bf16x2 {
            to.needs(&[(Target::Sm90a, Version::new(7, 8))]);
        }
        to.name(&["red.relaxed", self.scope.name(), ".global.add.noftz", self.ty.name()]);
        to.memory(self.address);
        to.input(self.values);
    }
}

macro_rules! atomics {
    ($($atom:ident, $red:ident ($class:ty, $kind:literal) = $number:expr, $bits:expr;)*) => {
        impl KernelBuilder {$(
            #[doc = concat!("Changes ", $kind, " in memory at once, and returns what was there.")]
            #[track_caller]
            pub fn $atom(
                &mut self,
                operator: AtomicOperator,
                place: impl Into<Address>,
                value: impl Into<Source<$class>>,
                order: AtomicOrder,
                scope: Scope,
            ) -> $class {
                let d: $class = self.register();
                let (ty, address) = (operator.type_of($number, $bits), place.into());
                let value = value.into().operand;
                self.push(Atomic { operator, order, scope, ty, d: d.into(), address, value });
                d
            }

            #[doc = concat!("Changes ", $kind, " in memory at once.")]
            #[track_caller]
            pub fn $red(
                &mut self,
                operator: AtomicOperator,
                place: impl Into<Address>,
                value: impl Into<Source<$class>>,
                order: AtomicOrder,
                scope: Scope,
            ) {
                let (ty, address) = (operator.type_of($number, $bits), place.into());
                let value = value.into().operand;
                self.push(Reduce { operator, order, scope, ty, address, value });
            }
        )*}
    };
}

atomics! {
    atom_u32, red_u32(B32, "an unsigned number") = Type::U32, Type::B32;
    atom_s32, red_s32(B32, "a signed number") = Type::S32, Type::B32;
    atom_u64, red_u64(B64, "an unsigned number") = Type::U64, Type::B64;
}

/// # Atomics
impl KernelBuilder {
    /// Adds to a float in memory at once, and returns what was there.
    #[track_caller]
    pub fn atom_add_f32(
        &mut self,
        place: impl Into<Address>,
        value: impl Into<Source<F32>>,
        order: AtomicOrder,
        scope: Scope,
    ) -> F32 {
        let d: F32 = self.register();
        let (operator, ty, address) = (AtomicOperator::Add, Type::F32, place.into());
        let value = value.into().operand;
        self.push(Atomic { operator, order, scope, ty, d: d.into(), address, value });
        d
    }

    /// Adds to a float in memory at once.
    #[track_caller]
    pub fn red_add_f32(
        &mut self,
        place: impl Into<Address>,
        value: impl Into<Source<F32>>,
        order: AtomicOrder,
        scope: Scope,
    ) {
        let (operator, ty, address) = (AtomicOperator::Add, Type::F32, place.into());
        let value = value.into().operand;
        self.push(Reduce { operator, order, scope, ty, address, value });
    }

    /// Adds to four adjacent floats in global memory, each at once; the address is a multiple of
    /// 16. `policy` is a policy of the second cache.
    #[track_caller]
    pub fn red_add_v4_f32(
        &mut self,
        place: impl Into<GlobalAddress>,
        values: [F32; 4],
        scope: Scope,
        policy: Option<B64>,
    ) {
        let (address, values) = (place.into().0, values.map(Into::into));
        self.push(ReduceVector { scope, address, values, policy });
    }

    /// Adds to two adjacent f16 in global memory, each at once; the address is a multiple of 4.
    #[track_caller]
    pub fn red_add_f16x2(&mut self, place: impl Into<GlobalAddress>, values: B32, scope: Scope) {
        let (address, values) = (place.into().0, values.into());
        self.push(ReducePair { ty: Type::F16x2, scope, address, values });
    }

    /// Adds to two adjacent bf16 in global memory, each at once; the address is a multiple of 4.
    #[track_caller]
    pub fn red_add_bf16x2(&mut self, place: impl Into<GlobalAddress>, values: B32, scope: Scope) {
        let (address, values) = (place.into().0, values.into());
        self.push(ReducePair { ty: Type::Bf16x2, scope, address, values });
    }

    /// If memory holds `compare`, it becomes `value`, at once; returns what was there.
    #[track_caller]
    pub fn atom_cas_b32(
        &mut self,
        place: impl Into<Address>,
        compare: impl Into<Source<B32>>,
        value: impl Into<Source<B32>>,
        order: AtomicOrder,
        scope: Scope,
    ) -> B32 {
        let d: B32 = self.register();
        let (ty, address) = (Type::B32, place.into());
        let (compare, value) = (compare.into().operand, value.into().operand);
        self.push(CompareSwap { order, scope, ty, d: d.into(), address, compare, value });
        d
    }
}
