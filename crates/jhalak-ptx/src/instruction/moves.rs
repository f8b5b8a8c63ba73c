//! Copies, constants, bits in another class, halves of registers, addresses and special registers
//! (PTX ISA, "mov").

use super::forms::forms;
use super::types::Type;
use crate::KernelBuilder;
use crate::address::{Address, Base, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::parameter::TensorMap;
use crate::register::{B16, B32, B64, F32, Operand, Pred, Register, TypedRegister};

/// `d = a`, bit for bit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) a: Operand,
}

impl Describe for Move {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["mov", self.ty.name()]);
        to.output(self.d);
        to.input(self.a);
    }
}

/// `d` = two halves, the low one first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pack {
    pub(crate) ty: Type,
    pub(crate) d: Register,
    pub(crate) halves: [Register; 2],
}

impl Describe for Pack {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["mov", self.ty.name()]);
        to.output(self.d);
        to.inputs(&self.halves);
    }
}

/// Two halves of `a`, the low one first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpack {
    pub(crate) ty: Type,
    pub(crate) halves: [Register; 2],
    pub(crate) a: Operand,
}

impl Describe for Unpack {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["mov", self.ty.name()]);
        to.outputs(&self.halves);
        to.input(self.a);
    }
}

/// `d` = the address of shared memory (32 bits) or of a parameter (64 bits).
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressOf {
    pub(crate) d: Register,
    pub(crate) address: Address,
}

impl Describe for AddressOf {
    fn describe(&self, to: &mut impl Reader) {
        let wide = self.d.class == B64::CLASS;
        to.name(&["mov", if wide { ".b64" } else { ".b32" }]);
        to.output(self.d);
        to.symbol(self.address);
    }
}

named! {
    /// What the hardware tells a thread of itself (PTX ISA, "Special Registers").
    pub enum Special {
        /// The thread's number in its block, along x.
        TidX = "%tid.x",
        /// The thread's number in its block, along y.
        TidY = "%tid.y",
        /// The thread's number in its block, along z.
        TidZ = "%tid.z",
        /// Threads of a block, along x.
        NtidX = "%ntid.x",
        /// Threads of a block, along y.
        NtidY = "%ntid.y",
        /// Threads of a block, along z.
        NtidZ = "%ntid.z",
        /// The block's number in the grid, along x.
        CtaidX = "%ctaid.x",
        /// The block's number in the grid, along y.
        CtaidY = "%ctaid.y",
        /// The block's number in the grid, along z.
        CtaidZ = "%ctaid.z",
        /// Blocks of the grid, along x.
        NctaidX = "%nctaid.x",
        /// Blocks of the grid, along y.
        NctaidY = "%nctaid.y",
        /// Blocks of the grid, along z.
        NctaidZ = "%nctaid.z",
        /// The thread's number in its warp.
        LaneId = "%laneid",
    }
}

/// `d` = a special register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadSpecial {
    pub(crate) d: Register,
    pub(crate) special: Special,
}

impl Describe for ReadSpecial {
    fn describe(&self, to: &mut impl Reader) {
        to.name(&["mov.u32"]);
        to.output(self.d);
        to.word(self.special.name());
    }
}

forms! {
    "Moves";
    /// A copy, or a constant in a register.
    mov_f32, mov_f32_to(a: F32) -> F32 = |d| Move { ty: Type::F32, d, a };
    /// A copy, or a constant in a register.
    mov_b16, mov_b16_to(a: B16) -> B16 = |d| Move { ty: Type::B16, d, a };
    /// A copy, or a constant in a register.
    mov_b32, mov_b32_to(a: B32) -> B32 = |d| Move { ty: Type::B32, d, a };
    /// A copy, or a constant in a register.
    mov_b64, mov_b64_to(a: B64) -> B64 = |d| Move { ty: Type::B64, d, a };
    /// A copy, or a constant in a register.
    mov_pred, mov_pred_to(a: Pred) -> Pred = |d| Move { ty: Type::Pred, d, a };
    /// The bits of a float.
    bits_of_f32, bits_of_f32_to(a: F32) -> B32 = |d| Move { ty: Type::B32, d, a };
    /// The float of these bits.
    f32_of_bits, f32_of_bits_to(a: B32) -> F32 = |d| Move { ty: Type::B32, d, a };
}

/// # Moves, constants, special registers
impl KernelBuilder {
    /// Two 16-bit registers as one of 32 bits.
    #[track_caller]
    pub fn pack_b32(&mut self, low: B16, high: B16) -> B32 {
        let d: B32 = self.register();
        self.push(Pack { ty: Type::B32, d: d.into(), halves: [low.into(), high.into()] });
        d
    }

    /// Two 32-bit registers as one of 64 bits.
    #[track_caller]
    pub fn pack_b64(&mut self, low: B32, high: B32) -> B64 {
        let d: B64 = self.register();
        self.push(Pack { ty: Type::B64, d: d.into(), halves: [low.into(), high.into()] });
        d
    }

    /// The halves of a 32-bit register, the low one first.
    #[track_caller]
    pub fn unpack_b32(&mut self, a: B32) -> [B16; 2] {
        let halves: [B16; 2] = self.registers();
        self.push(Unpack { ty: Type::B32, halves: halves.map(Into::into), a: a.into() });
        halves
    }

    /// The halves of a 64-bit register, the low one first.
    #[track_caller]
    pub fn unpack_b64(&mut self, a: B64) -> [B32; 2] {
        let halves: [B32; 2] = self.registers();
        self.push(Unpack { ty: Type::B64, halves: halves.map(Into::into), a: a.into() });
        halves
    }

    /// The address of a place in shared memory as a number: for arithmetic on addresses.
    #[track_caller]
    pub fn shared_address(&mut self, place: impl Into<SharedAddress>) -> B32 {
        let address = place.into().0;
        match address.base {
            Base::Register(base) if address.offset == 0 => B32::from_index(base.index),
            Base::Register(base) => self.add_u32(B32::from_index(base.index), address.offset),
            Base::Shared(_) | Base::Parameter(_) => {
                let d: B32 = self.register();
                self.push(AddressOf { d: d.into(), address });
                d
            }
        }
    }

    /// The generic address of a tensor map among the parameters.
    #[track_caller]
    pub fn tensor_map_address(&mut self, map: TensorMap) -> B64 {
        let d: B64 = self.register();
        self.push(AddressOf { d: d.into(), address: Address::parameter(map.index) });
        self.cvta_param(d)
    }

    /// The value of a special register.
    #[track_caller]
    pub fn special(&mut self, special: Special) -> B32 {
        let d: B32 = self.register();
        self.push(ReadSpecial { d: d.into(), special });
        d
    }

    /// The thread's number in its block, along x.
    #[track_caller]
    pub fn tid_x(&mut self) -> B32 {
        self.special(Special::TidX)
    }

    /// The block's number in the grid, along x.
    #[track_caller]
    pub fn ctaid_x(&mut self) -> B32 {
        self.special(Special::CtaidX)
    }
}
