//! A warp's registers: a value for every lane, and which lanes have one.

use super::fault::{Fault, Outcome, Trouble};
use crate::kernel::Kernel;
use crate::register::{Class, Condition, Operand, Register};

/// A value for every lane of a warp.
pub(super) type Lanes<T> = [T; 32];

/// All lanes of a warp.
pub(super) const WARP: u32 = u32::MAX;

/// The numbers of the lanes in a mask, the lowest first.
pub(super) fn lanes_of(mut mask: u32) -> impl Iterator<Item = u32> + Clone {
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
    /// Of each register, what wgmma cares for.
    tenure: [Vec<Tenure>; Class::ALL.len()],
    /// How many wgmma fences there were.
    fences: u32,
    /// The first register that was written while a product had it.
    violated: Option<Register>,
}

/// What the products under way have of a register.
#[derive(Clone, Copy, Default)]
struct Tenure {
    /// Products that read it.
    readers: u32,
    /// Products that sum in it, all of the same accumulator: its first register and columns.
    writers: u32,
    accumulator: (u32, usize),
    /// 1 + the number of fences before it was last written by anything else.
    written: u32,
}

fn name(Register { class, index }: Register) -> String {
    format!("{}{index}", class.prefix())
}

fn in_flight(register: Register) -> Trouble {
    Fault::RegisterInFlight { register: name(register) }.into()
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
            tenure: Class::ALL.map(|class| vec![Tenure::default(); count(class)]),
            fences: 0,
            violated: None,
        }
    }

    /// Fails unless these lanes of the register have values.
    fn check(&self, register: Register, mask: u32) -> Outcome<()> {
        if self.tenure[register.class as usize][register.index as usize].writers > 0 {
            return Err(in_flight(register));
        }
        let missing = mask & !self.set[register.class as usize][register.index as usize];
        if missing == 0 {
            return Ok(());
        }
        let fault = Fault::UnsetRegister { register: name(register) };
        Err(Trouble::from(fault).at_lane(missing.trailing_zeros()))
    }

    /// Notes that a register gets a value from an ordinary instruction.
    fn note(&mut self, d: Register, mask: u32) {
        self.set[d.class as usize][d.index as usize] |= mask;
        let tenure = &mut self.tenure[d.class as usize][d.index as usize];
        tenure.written = self.fences + 1;
        if tenure.readers + tenure.writers > 0 {
            self.violated.get_or_insert(d);
        }
    }

    /// Fails if a register was written that a product under way has.
    pub(super) fn check_violation(&mut self) -> Outcome<()> {
        self.violated.take().map_or(Ok(()), |register| Err(in_flight(register)))
    }

    /// Products may use what was written before.
    pub(super) fn fence(&mut self) {
        self.fences += 1;
    }

    /// Fails unless a fence came after the last write of this register.
    fn check_fenced(&self, register: Register) -> Outcome<()> {
        let tenure = &self.tenure[register.class as usize][register.index as usize];
        if self.fences > 0 && tenure.written <= self.fences {
            return Ok(());
        }
        Err(Fault::MissingWgmmaFence { register: name(register) }.into())
    }

    /// A product begins to sum in these registers, in all lanes.
    pub(super) fn begin_sums(&mut self, d: &[Register], accumulates: bool) -> Outcome<()> {
        for register in d {
            self.check_fenced(*register)?;
            let tenure = &mut self.tenure[register.class as usize][register.index as usize];
            let accumulator = (d[0].index, d.len());
            if tenure.readers > 0 || (tenure.writers > 0 && tenure.accumulator != accumulator) {
                return Err(in_flight(*register));
            }
            let set = &mut self.set[register.class as usize][register.index as usize];
            if accumulates && *set != WARP {
                return Err(Fault::UnsetRegister { register: name(*register) }.into());
            }
            *set = WARP;
            tenure.writers += 1;
            tenure.accumulator = accumulator;
        }
        Ok(())
    }

    /// A product begins to read these registers.
    pub(super) fn begin_reads(&mut self, a: &[Register]) -> Outcome<()> {
        for register in a {
            self.check(*register, WARP)?;
            self.check_fenced(*register)?;
            self.tenure[register.class as usize][register.index as usize].readers += 1;
        }
        Ok(())
    }

    /// A product has ended: what it had is free again.
    pub(super) fn end_product(&mut self, d: &[Register], a: &[Register]) {
        for register in d {
            self.tenure[register.class as usize][register.index as usize].writers -= 1;
        }
        for register in a {
            self.tenure[register.class as usize][register.index as usize].readers -= 1;
        }
    }

    /// A register of 32 bits, for the product that has it.
    pub(super) fn lent(&mut self, register: Register) -> &mut Lanes<u32> {
        &mut self.words[word_class(register.class)][register.index as usize]
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
        self.note(d, mask);
        blend(&mut self.words[word_class(d.class)][d.index as usize], mask, values);
    }

    /// The same of floats, as they are.
    pub(super) fn set_floats(&mut self, d: Register, mask: u32, values: Lanes<f32>) {
        self.set_words(d, mask, values.map(f32::to_bits));
    }

    /// Writes these lanes of a register of 64 bits.
    pub(super) fn set_wide(&mut self, d: Register, mask: u32, values: Lanes<u64>) {
        self.note(d, mask);
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
        self.note(d, mask);
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
