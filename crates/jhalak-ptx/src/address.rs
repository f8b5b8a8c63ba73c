//! Where an instruction reads or writes memory.
//!
//! The type of an address tells its state space: 64 bits point to global memory, 32 bits (or a
//! [`Region`]) to shared memory. So a load from the wrong space does not compile.

use crate::register::{B32, B64, Register};
use crate::shared::{Placement, Region};

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The device's memory.
    Global,
    /// The memory that the threads of a block share.
    Shared,
    /// The kernel's parameters.
    Param,
}

impl Space {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Global => ".global",
            Space::Shared => ".shared",
            Space::Param => ".param",
        }
    }
}

/// What an address counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The value of a register, in bytes.
    Register(Register),
    /// The begin of the kernel's static or dynamic shared memory.
    Shared(Placement),
    /// The kernel's parameter of this number.
    Parameter(usize),
}

/// A place in memory: a state space, a base, and an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) space: Space,
    pub(crate) base: Base,
    pub(crate) offset: i32,
}

impl Address {
    pub(crate) fn parameter(index: usize) -> Self {
        Address { space: Space::Param, base: Base::Parameter(index), offset: 0 }
    }

    /// False when it is known already that an access of this many bytes would not be aligned.
    pub(crate) fn may_hold(&self, bytes: u32) -> bool {
        matches!(self.base, Base::Register(_)) || self.offset.rem_euclid(bytes.cast_signed()) == 0
    }
}

/// A place in global memory: a [`B64`], or a pair of it and an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalAddress(pub(crate) Address);

/// A place in shared memory: a [`B32`] or a [`Region`], or a pair of it and an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedAddress(pub(crate) Address);

impl From<GlobalAddress> for Address {
    fn from(address: GlobalAddress) -> Self {
        address.0
    }
}

impl From<SharedAddress> for Address {
    fn from(address: SharedAddress) -> Self {
        address.0
    }
}

/// Offsets are i32 in PTX; a larger u32 stands for the same 32 bits.
macro_rules! places {
    ($($from:ty: $to:ident = |$value:pat_param| $base:expr, $offset:expr;)*) => {$(
        impl From<$from> for $to {
            fn from($value: $from) -> Self {
                let (base, offset) = ($base, $offset);
                $to(Address { space: places!(@space $to), base, offset })
            }
        }

        impl From<$from> for Address {
            fn from(place: $from) -> Self {
                $to::from(place).0
            }
        }
    )*};
    (@space GlobalAddress) => { Space::Global };
    (@space SharedAddress) => { Space::Shared };
}

places! {
    B64: GlobalAddress = |base| Base::Register(base.into()), 0;
    (B64, i32): GlobalAddress = |(base, offset)| Base::Register(base.into()), offset;
    (B64, u32): GlobalAddress = |(base, offset)| Base::Register(base.into()), offset.cast_signed();
    B32: SharedAddress = |base| Base::Register(base.into()), 0;
    (B32, i32): SharedAddress = |(base, offset)| Base::Register(base.into()), offset;
    (B32, u32): SharedAddress = |(base, offset)| Base::Register(base.into()), offset.cast_signed();
    Region: SharedAddress = |region| Base::Shared(region.placement), region.offset.cast_signed();
    (Region, i32): SharedAddress = |(region, offset)| Base::Shared(region.placement),
        region.offset.cast_signed() + offset;
    (Region, u32): SharedAddress = |(region, offset)| Base::Shared(region.placement),
        (region.offset + offset).cast_signed();
}
