//! A warp's registers: a value for every lane, and which lanes have one.

use super::fault::{Fault, Outcome, Trouble};
use crate::kernel::Kernel;
use crate::register::{Class, Condition, Operand, Register};

/// A value for every lane of a warp.
pub(super) type Lanes<T> = [T; 32];

/// All lanes of a warp.
pub(super) const WARP: u32 = u32::MAX;

/// The numbers of the lanes in a mask, the lowest first.
pub(super) fn lanes_of(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}

/// A value for every lane.
pub(super) fn each<T>(f: impl FnMut(usize) -> T) -> Lanes<T> {
    std::array::from_fn(f)
}

/// The mask of the lanes for which something holds.
pub(super) fn mask_of(mut holds: impl FnMut(usize) -> bool) -> u32 {
    (0..32).fold(0, |mask, lane| mask | (u32::from(holds(lane)) << lane))
}

/// The registers of a warp. Those of 16 bits are held in 32, the upper half 0.
pub(super) struct Registers {
    truths: Vec<u32>,
    /// The classes B16, B32, F32.
    words: [Vec<Lanes<u32>>; 3],
    wide: Vec<Lanes<u64>>,
    /// Of each register of each class, which lanes have a value.
    set: [Vec<u32>; Class::ALL.len()],
}

fn word_class(class: Class) -> usize {
    match class {
        Class::B16 => 0,
        Class::F32 => 2,
        _ => 1,
    }
}

impl Registers {
    pub(super) fn new(kernel: &Kernel) -> Self {
        let count = |class| kernel.register_count(class) as usize;
        let words = |class| vec![[0; 32]; count(class)];
        Registers {
            truths: vec![0; count(Class::Pred)],
            words: [words(Class::B16), words(Class::B32), words(Class::F32)],
            wide: vec![[0; 32]; count(Class::B64)],
            set: Class::ALL.map(|class| vec![0; count(class)]),
        }
    }

    /// Fails unless these lanes of the register have values.
    fn check(&self, register: Register, mask: u32) -> Outcome<()> {
        let missing = mask & !self.set[register.class as usize][register.index as usize];
        if missing == 0 {
            return Ok(());
        }
        let Register { class, index } = register;
        let name = format!("{}{index}", class.prefix());
        Err(Trouble::from(Fault::UnsetRegister { register: name })
            .at_lane(missing.trailing_zeros()))
    }

    /// An operand of 16 or 32 bits.
    pub(super) fn words(&self, operand: Operand, mask: u32) -> Outcome<Lanes<u32>> {
        match operand {
            Operand::Constant(_, bits) => Ok([bits as u32; 32]),
            Operand::Register(register) => {
                self.check(register, mask)?;
                Ok(self.words[word_class(register.class)][register.index as usize])
            }
        }
    }

    /// The same as floats.
    pub(super) fn floats(&self, operand: Operand, mask: u32) -> Outcome<Lanes<f32>> {
        self.words(operand, mask).map(|bits| bits.map(f32::from_bits))
    }

    /// An operand of 64 bits.
    pub(super) fn wide(&self, operand: Operand, mask: u32) -> Outcome<Lanes<u64>> {
        match operand {
            Operand::Constant(_, bits) => Ok([bits; 32]),
            Operand::Register(register) => {
                self.check(register, mask)?;
                Ok(self.wide[register.index as usize])
            }
        }
    }

    /// An operand of any class but a predicate, in 64 bits.
    pub(super) fn any(&self, operand: Operand, mask: u32) -> Outcome<Lanes<u64>> {
        match operand {
            Operand::Register(Register { class: Class::B64, .. }) => self.wide(operand, mask),
            Operand::Register(_) => self.words(operand, mask).map(|words| words.map(u64::from)),
            Operand::Constant(_, bits) => Ok([bits; 32]),
        }
    }

    /// The lanes in which a predicate holds.
    pub(super) fn truth(&self, operand: Operand, mask: u32) -> Outcome<u32> {
        match operand {
            Operand::Constant(_, bits) => Ok(if bits == 0 { 0 } else { WARP }),
            Operand::Register(register) => {
                self.check(register, mask)?;
                Ok(self.truths[register.index as usize])
            }
        }
    }

    /// The lanes in which a condition holds.
    pub(super) fn condition(&self, condition: Condition, mask: u32) -> Outcome<u32> {
        let truth = self.truth(condition.predicate.into(), mask)?;
        Ok(if condition.negated { !truth } else { truth })
    }

    /// Writes these lanes of a register of 16 or 32 bits.
    pub(super) fn set_words(&mut self, d: Register, mask: u32, values: Lanes<u32>) {
        self.set[d.class as usize][d.index as usize] |= mask;
        blend(&mut self.words[word_class(d.class)][d.index as usize], mask, values);
    }

    /// The same of floats, as they are.
    pub(super) fn set_floats(&mut self, d: Register, mask: u32, values: Lanes<f32>) {
        self.set_words(d, mask, values.map(f32::to_bits));
    }

    /// Writes these lanes of a register of 64 bits.
    pub(super) fn set_wide(&mut self, d: Register, mask: u32, values: Lanes<u64>) {
        self.set[d.class as usize][d.index as usize] |= mask;
        blend(&mut self.wide[d.index as usize], mask, values);
    }

    /// Writes these lanes of a register of any class but a predicate.
    pub(super) fn set_any(&mut self, d: Register, mask: u32, values: Lanes<u64>) {
        if d.class == Class::B64 {
            self.set_wide(d, mask, values);
        } else {
            self.set_words(d, mask, values.map(|value| value as u32));
        }
    }

    /// Writes these lanes of a predicate.
    pub(super) fn set_truth(&mut self, d: Register, mask: u32, truth: u32) {
        self.set[d.class as usize][d.index as usize] |= mask;
        let old = &mut self.truths[d.index as usize];
        *old = (*old & !mask) | (truth & mask);
    }

    /// Takes the value of these lanes away: nobody may count on it.
    pub(super) fn unset(&mut self, d: Register, mask: u32) {
        self.set[d.class as usize][d.index as usize] &= !mask;
    }
}

fn blend<T: Copy>(old: &mut Lanes<T>, mask: u32, new: Lanes<T>) {
    if mask == WARP {
        *old = new;
    } else {
        for lane in 0..32 {
            if mask >> lane & 1 == 1 {
                old[lane] = new[lane];
            }
        }
    }
}
