//! One description of each instruction form, read in several ways.
//!
//! A form tells a [`Reader`] what it needs, which rules it keeps, its name and its operands, in the
//! order of the text. The text writer, the legality check and whoever asks which registers are
//! touched are readers; so a form is described once, and nothing can disagree.

use crate::address::Address;
use crate::instruction::Label;
use crate::register::{Condition, Operand, Register};
use crate::target::Since;

/// Who listens to a form's description. Each reader takes what it cares for.
pub(crate) trait Reader {
    /// The targets and versions that have the form.
    fn needs(&mut self, _since: &Since) {}
    /// A rule that must hold, in words.
    fn rule(&mut self, _holds: bool, _rule: &'static str) {}
    /// The name, in parts.
    fn name(&mut self, _parts: &[&str]) {}
    /// A register that is written.
    fn output(&mut self, _register: Register) {}
    /// A predicate that is written beside a number that nobody wants: `_|%p0`.
    fn elected(&mut self, _predicate: Register) {}
    /// Registers that are written, in braces.
    fn outputs(&mut self, _registers: &[Register]) {}
    /// Registers that are read and written again, in braces.
    fn accumulators(&mut self, _registers: &[Register]) {}
    /// A register or constant that is read.
    fn input(&mut self, _operand: Operand) {}
    /// Registers that are read, in braces.
    fn inputs(&mut self, _registers: &[Register]) {}
    /// A predicate that is read, as it is or negated.
    fn condition(&mut self, _condition: Condition) {}
    /// A place in memory, in brackets.
    fn memory(&mut self, _address: Address) {}
    /// A tensor map, by its generic address, in brackets.
    fn tensor_map(&mut self, _map: Register) {}
    /// A box of a tensor, in brackets: the address of its map, and coordinates in braces.
    fn tensor(&mut self, _map: Register, _coordinates: &[Operand]) {}
    /// The address itself as a value: a symbol and an offset.
    fn symbol(&mut self, _address: Address) {}
    /// Where a branch goes.
    fn label(&mut self, _label: Label) {}
    /// An operand that is a plain number: never a register.
    fn number(&mut self, _number: u32) {}
    /// A sign as an operand: 1, or -1 where it is flipped.
    fn sign(&mut self, _flipped: bool) {}
    /// An operand that is a word, such as a special register.
    fn word(&mut self, _word: &str) {}
}

/// An instruction family's description of one of its instructions.
pub(crate) trait Describe {
    /// Tells everything about this instruction, operands in the order of the text.
    fn describe(&self, to: &mut impl Reader);
}
