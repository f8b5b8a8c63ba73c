//! The only place where PTX is written as text.

use std::fmt::Write;

use crate::address::{Address, Base};
use crate::describe::{Describe, Reader};
use crate::instruction::{Instruction, Label};
use crate::kernel::{BlockThreads, Kernel};
use crate::module::Module;
use crate::parameter::{Parameter, ParameterKind};
use crate::register::{Class, Condition, Operand, Register};
use crate::shared::Placement;

/// Room for an instruction of usual length, so that the text grows rarely.
const USUAL_INSTRUCTION: usize = 48;

/// The whole module.
pub(crate) fn module(module: &Module) -> String {
    let instructions: usize = module.kernels().iter().map(Kernel::instruction_count).sum();
    let mut out = String::with_capacity(instructions * USUAL_INSTRUCTION);
    let (version, target) = (module.version(), module.target());
    put(&mut out, format_args!(".version {version}\n.target {target}\n.address_size 64\n"));
    for kernel in module.kernels() {
        write_kernel(&mut out, kernel);
    }
    out
}

/// One instruction with its guard, without indentation or end of line.
pub(crate) fn instruction(kernel: &Kernel, instruction: &Instruction) -> String {
    let mut out = String::new();
    write_instruction(&mut out, kernel, instruction);
    out
}

/// A string never refuses what is written to it.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// Register numbers are most of a text: they skip the formatting machinery, which takes longer than
/// all else together.
fn put_decimal(out: &mut String, mut number: u64) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] += (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits[first..].iter().for_each(|digit| out.push(char::from(*digit)));
}

fn write_kernel(out: &mut String, kernel: &Kernel) {
    let (name, dynamic) = (&kernel.name, &kernel.dynamic_shared);
    out.push('\n');
    if dynamic.bytes() > 0 {
        let align = dynamic.align();
        put(out, format_args!(".extern .shared .align {align} .b8 {name}_dynamic[];\n"));
    }
    put(out, format_args!(".visible .entry {name}("));
    for (index, parameter) in kernel.parameters.iter().enumerate() {
        out.push_str(if index == 0 { "\n  " } else { ",\n  " });
        write_parameter(out, parameter);
    }
    out.push_str(if kernel.parameters.is_empty() { ")\n" } else { "\n)\n" });
    write_bounds(out, kernel);
    out.push_str("{\n");
    for class in Class::ALL {
        let (declared, prefix, count) =
            (class.declared(), class.prefix(), kernel.register_count(class));
        if count > 0 {
            put(out, format_args!("  .reg {declared} {prefix}<{count}>;\n"));
        }
    }
    let fixed = &kernel.static_shared;
    if fixed.bytes() > 0 {
        let (align, bytes) = (fixed.align(), fixed.bytes());
        put(out, format_args!("  .shared .align {align} .b8 {name}_static[{bytes}];\n"));
    }
    write_body(out, kernel);
    out.push_str("}\n");
}

fn write_parameter(out: &mut String, Parameter { name, kind }: &Parameter) {
    match kind {
        ParameterKind::U32 => put(out, format_args!(".param .u32 param_{name}")),
        ParameterKind::U64 => put(out, format_args!(".param .u64 param_{name}")),
        ParameterKind::F32 => put(out, format_args!(".param .f32 param_{name}")),
        ParameterKind::Pointer { align } => {
            put(out, format_args!(".param .u64 .ptr .global .align {align} param_{name}"));
        }
        ParameterKind::TensorMap => {
            put(out, format_args!(".param .align 64 .b8 param_{name}[128]"));
        }
    }
}

fn write_bounds(out: &mut String, kernel: &Kernel) {
    match kernel.bounds.threads {
        BlockThreads::Any => {}
        BlockThreads::AtMost(threads) => put(out, format_args!(".maxntid {threads}, 1, 1\n")),
        BlockThreads::Exactly(threads) => put(out, format_args!(".reqntid {threads}, 1, 1\n")),
    }
    if let Some(blocks) = kernel.bounds.min_blocks {
        put(out, format_args!(".minnctapersm {blocks}\n"));
    }
    if let Some(registers) = kernel.bounds.max_registers {
        put(out, format_args!(".maxnreg {registers}\n"));
    }
}

fn write_body(out: &mut String, kernel: &Kernel) {
    let mut labels: Vec<Label> = (0..kernel.labels.len()).map(Label).collect();
    labels.sort_by_key(|label| kernel.position(*label));
    let mut labels = labels.into_iter().peekable();
    for (index, instruction) in kernel.instructions.iter().enumerate() {
        while let Some(label) = labels.next_if(|label| kernel.position(*label) == index) {
            put(out, format_args!("$L{}:\n", label.0));
        }
        out.push_str("  ");
        write_instruction(out, kernel, instruction);
        out.push('\n');
    }
}

fn write_instruction(out: &mut String, kernel: &Kernel, instruction: &Instruction) {
    let mut writer = InstructionText { out, kernel, operands: 0 };
    if let Some(guard) = instruction.guard {
        writer.out.push('@');
        writer.raw_condition(guard);
        writer.out.push(' ');
    }
    instruction.operation.describe(&mut writer);
    out.push(';');
}

/// The reader that writes what it hears.
struct InstructionText<'a> {
    out: &'a mut String,
    kernel: &'a Kernel,
    operands: u32,
}

impl InstructionText<'_> {
    /// Begins the next operand.
    fn next(&mut self) {
        self.out.push_str(if self.operands == 0 { " " } else { ", " });
        self.operands += 1;
    }

    fn raw_register(&mut self, register: Register) {
        self.out.push_str(register.class.prefix());
        put_decimal(self.out, register.index.into());
    }

    fn raw_condition(&mut self, condition: Condition) {
        if condition.negated {
            self.out.push('!');
        }
        self.raw_register(condition.predicate.into());
    }

    /// Floats by their bits; large integers, which are masks or negative, in base 16.
    fn raw_operand(&mut self, operand: Operand) {
        match operand {
            Operand::Register(register) => self.raw_register(register),
            Operand::Constant(Class::F32, bits) => put(self.out, format_args!("0f{bits:08X}")),
            Operand::Constant(_, bits) if bits < 1 << 16 => put_decimal(self.out, bits),
            Operand::Constant(_, bits) => put(self.out, format_args!("0x{bits:x}")),
        }
    }

    fn raw_address(&mut self, address: Address) {
        let name = &self.kernel.name;
        match address.base {
            Base::Register(register) => self.raw_register(register),
            Base::Shared(Placement::Static) => put(self.out, format_args!("{name}_static")),
            Base::Shared(Placement::Dynamic) => put(self.out, format_args!("{name}_dynamic")),
            Base::Parameter(index) => {
                let name = &self.kernel.parameters[index].name;
                put(self.out, format_args!("param_{name}"));
            }
        }
        if address.offset != 0 {
            put(self.out, format_args!("+{}", address.offset));
        }
    }

    fn braces<T: Copy>(&mut self, items: &[T], write: fn(&mut Self, T)) {
        self.next();
        self.raw_braces(items, write);
    }

    fn raw_braces<T: Copy>(&mut self, items: &[T], write: fn(&mut Self, T)) {
        for (index, item) in items.iter().enumerate() {
            self.out.push_str(if index == 0 { "{" } else { ", " });
            write(self, *item);
        }
        self.out.push('}');
    }
}

impl Reader for InstructionText<'_> {
    fn name(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.out.push_str(part));
    }

    fn output(&mut self, register: Register) {
        self.next();
        self.raw_register(register);
    }

    fn elected(&mut self, predicate: Register) {
        self.next();
        self.out.push_str("_|");
        self.raw_register(predicate);
    }

    fn outputs(&mut self, registers: &[Register]) {
        self.braces(registers, Self::raw_register);
    }

    fn accumulators(&mut self, registers: &[Register]) {
        self.braces(registers, Self::raw_register);
    }

    fn input(&mut self, operand: Operand) {
        self.next();
        self.raw_operand(operand);
    }

    fn inputs(&mut self, registers: &[Register]) {
        self.braces(registers, Self::raw_register);
    }

    fn condition(&mut self, condition: Condition) {
        self.next();
        self.raw_condition(condition);
    }

    fn memory(&mut self, address: Address) {
        self.next();
        self.out.push('[');
        self.raw_address(address);
        self.out.push(']');
    }

    fn tensor_map(&mut self, map: Register) {
        self.next();
        self.out.push('[');
        self.raw_register(map);
        self.out.push(']');
    }

    fn tensor(&mut self, map: Register, coordinates: &[Operand]) {
        self.next();
        self.out.push('[');
        self.raw_register(map);
        self.out.push_str(", ");
        self.raw_braces(coordinates, Self::raw_operand);
        self.out.push(']');
    }

    fn symbol(&mut self, address: Address) {
        self.next();
        self.raw_address(address);
    }

    fn label(&mut self, label: Label) {
        self.next();
        put(self.out, format_args!("$L{}", label.0));
    }

    fn number(&mut self, number: u32) {
        self.input(Operand::Constant(Class::B32, number.into()));
    }

    fn sign(&mut self, flipped: bool) {
        self.word(if flipped { "-1" } else { "1" });
    }

    fn word(&mut self, word: &str) {
        self.next();
        self.out.push_str(word);
    }
}
