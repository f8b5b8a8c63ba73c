//! Products of a warpgroup, which run on while its threads do something else.
//!
//! Each warp computes its own 16 rows, as late as its wait allows or at an earlier moment that the
//! seed picks. All that the warpgroup reads counts as read by each warp. Sums are as in
//! [`super::matrix`].

use std::collections::VecDeque;

use super::Context;
use super::formats::canonical;
use super::matrix::unpack;
use crate::descriptor::Major;
use crate::emulator::arena::{Arena, Request};
use crate::emulator::clock::{PRODUCT, agent};
use crate::emulator::fault::{Fault, Outcome};
use crate::emulator::random::Random;
use crate::emulator::registers::{Registers, WARP};
use crate::emulator::shadow::{ASYNC, Access};
use crate::instruction::Operation;
use crate::instruction::types::Type;
use crate::instruction::wgmma::{LeftMatrix, Wgmma, WgmmaWait};
use crate::kernel::Kernel;
use crate::register::{Operand, Register};
use crate::swizzle::Swizzle;

/// Bytes that the tensor cores read as one.
const CHUNK: usize = 16;

/// A product that has begun and not ended.
struct Product {
    group: u32,
    /// The instruction.
    at: usize,
    a: u64,
    b: u64,
    accumulates: bool,
}

/// The products of a warp.
#[derive(Default)]
pub(in crate::emulator) struct Products {
    under_way: VecDeque<Product>,
    committed: u32,
    /// Stands for all products that have begun: which, and of which tiles.
    pub(in crate::emulator) trace: u64,
}

/// A matrix in shared memory, as its descriptor and the instruction tell it.
struct Matrix {
    start: u64,
    leading: u64,
    stride: u64,
    swizzle: Swizzle,
    major: Major,
    /// Bytes of an element.
    size: usize,
}

impl Matrix {
    fn new(bits: u64, major: Major, size: usize) -> Result<Self, Fault> {
        let field = |low: u32| (bits >> low & 0x3fff) << 4;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        let (start, chunks) = (field(0), u64::from(swizzle.row_bytes() / 16));
        if !(start >> 7).is_multiple_of(chunks) {
            let rule = "the descriptor says that its tile begins with a pattern of the swizzle";
            return Err(Fault::BadOperand { operand: "the tile's address", value: start, rule });
        }
        Ok(Matrix { start, leading: field(16), stride: field(32), swizzle, major, size })
    }

    /// Where the chunk is that begins with element `mn` of row or column, at depth `k`.
    fn chunk(&self, mn: usize, k: usize) -> u64 {
        let row_bytes = self.swizzle.row_bytes() as usize;
        let (mn64, k64) = (mn as u64, k as u64);
        let per_chunk = CHUNK / self.size;
        let offset = match (self.major, self.swizzle) {
            (Major::K, Swizzle::None) => {
                mn64 / 8 * self.stride + (k / per_chunk) as u64 * self.leading + mn64 % 8 * 16
            }
            (Major::K, _) => {
                mn64 / 8 * self.stride + mn64 % 8 * row_bytes as u64 + (k * self.size) as u64
            }
            (Major::Mn, Swizzle::None) => {
                (mn / per_chunk) as u64 * self.stride + k64 / 8 * self.leading + k64 % 8 * 16
            }
            (Major::Mn, _) => {
                let panel = row_bytes / self.size;
                (mn / panel) as u64 * self.leading
                    + k64 / 8 * self.stride
                    + k64 % 8 * row_bytes as u64
                    + (mn % panel * self.size) as u64
            }
        };
        self.swizzle.offset((self.start + offset) as u32).into()
    }

    /// The first elements of all chunks.
    fn chunks(&self, count: usize, depth: usize) -> impl Iterator<Item = (usize, usize)> {
        let per_chunk = CHUNK / self.size;
        let (mn_step, k_step) = match self.major {
            Major::K => (1, per_chunk),
            Major::Mn => (per_chunk, 1),
        };
        (0..count)
            .step_by(mn_step)
            .flat_map(move |mn| (0..depth).step_by(k_step).map(move |k| (mn, k)))
    }

    /// The numbers from `first` on, `count` rows or columns of `depth` each.
    fn numbers(
        &self,
        shared: &Arena,
        ty: Type,
        first: usize,
        count: usize,
        depth: usize,
    ) -> Result<Vec<f64>, Fault> {
        let mut numbers = vec![0.0; count * depth];
        for (mn, k) in self.chunks(count, depth) {
            let chunk = shared.bytes(self.chunk(first + mn, k), CHUNK)?;
            for (index, bytes) in chunk.chunks_exact(self.size).enumerate() {
                let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
                let place = match self.major {
                    Major::K => mn * depth + k + index,
                    Major::Mn => (mn + index) * depth + k,
                };
                numbers[place] = unpack(ty, bits, 0);
            }
        }
        Ok(numbers)
    }
}

fn left_registers(form: &Wgmma) -> Vec<Register> {
    match form.a {
        LeftMatrix::Registers(a) => a.map(Register::from).to_vec(),
        LeftMatrix::Shared(_) => Vec::new(),
    }
}

pub(super) fn begin(context: &mut Context<'_>, form: &Wgmma) -> Outcome<()> {
    context.require_whole_warp()?;
    let accumulates = match context.warp.registers.truth(form.accumulate, WARP)? {
        0 => false,
        WARP => true,
        _ => return Err(Fault::NotUniform { operand: "whether to accumulate" }.into()),
    };
    let size = form.ty.bytes() as usize;
    let depth = form.depth() as usize;
    let b = context.uniform(Operand::from(form.b.bits), "the descriptor of b")?;
    let mut a = 0;
    if let LeftMatrix::Shared(descriptor) = form.a {
        a = context.uniform(Operand::from(descriptor.bits), "the descriptor of a")?;
        check_reads(context, &Matrix::new(a, descriptor.major, size)?, 64, depth)?;
    }
    check_reads(context, &Matrix::new(b, form.b.major, size)?, form.columns(), depth)?;
    let registers = &mut context.warp.registers;
    registers.begin_reads(&left_registers(form))?;
    registers.begin_sums(&form.d, accumulates)?;
    let at = context.at;
    let products = &mut context.warp.products;
    for word in [at as u64, a, b] {
        products.trace = Random::new(products.trace ^ word).next();
    }
    let group = products.committed + 1;
    products.under_way.push_back(Product { group, at, a, b, accumulates });
    *context.progress += 1;
    Ok(())
}

fn check_reads(
    context: &mut Context<'_>,
    matrix: &Matrix,
    count: usize,
    depth: usize,
) -> Outcome<()> {
    let warp = &*context.warp;
    let access = Access {
        lanes: WARP,
        agent: agent(warp.number, PRODUCT),
        epoch: warp.products.committed + 1,
        ..warp.access(0, context.at as u32, ASYNC)
    };
    for (mn, k) in matrix.chunks(count, depth) {
        let observer = warp.whole_observer();
        let request = Request { address: matrix.chunk(mn, k), access, observer };
        context.shared.memory.begin_read(&request, CHUNK)?;
    }
    Ok(())
}

pub(super) fn fence(context: &mut Context<'_>) -> Outcome<()> {
    context.require_whole_warp()?;
    context.warp.registers.fence();
    Ok(())
}

pub(super) fn commit(context: &mut Context<'_>) -> Outcome<()> {
    context.require_whole_warp()?;
    context.warp.products.committed += 1;
    Ok(())
}

pub(super) fn wait(context: &mut Context<'_>, form: &WgmmaWait) -> Outcome<()> {
    context.require_whole_warp()?;
    let warp = &mut *context.warp;
    let group = warp.products.committed.saturating_sub(form.pending);
    while warp.products.under_way.front().is_some_and(|product| product.group <= group) {
        let (kernel, shared) = (context.grid.kernel, &context.shared.memory);
        warp.products.finish_first(kernel, shared, warp.number, &mut warp.registers)?;
    }
    warp.products_ended(group);
    Ok(())
}

impl Products {
    /// Computes the oldest product under way.
    pub(in crate::emulator) fn finish_first(
        &mut self,
        kernel: &Kernel,
        shared: &Arena,
        warp: usize,
        registers: &mut Registers,
    ) -> Result<(), Fault> {
        let Some(product) = self.under_way.pop_front() else { return Ok(()) };
        let Operation::Wgmma(form) = &kernel.instructions[product.at].operation else {
            unreachable!("only wgmma begins products")
        };
        let (depth, columns) = (form.depth() as usize, form.columns());
        let size = form.ty.bytes() as usize;
        let row = 16 * (warp % 4);
        let a = match form.a {
            LeftMatrix::Shared(a) => {
                Matrix::new(product.a, a.major, size)?.numbers(shared, form.ty, row, 16, depth)?
            }
            LeftMatrix::Registers(a) => left_numbers(registers, form.ty, a.map(Register::from)),
        };
        let b = Matrix::new(product.b, form.b.major, size)?;
        let b = b.numbers(shared, form.ty, 0, columns, depth)?;
        let negated = matches!(form.a, LeftMatrix::Shared(a) if a.negated) != form.b.negated;
        let sign = if negated { -1.0 } else { 1.0 };
        for (index, register) in form.d.iter().enumerate() {
            let sums = registers.lent(*register);
            for (lane, sum) in sums.iter_mut().enumerate() {
                let row = lane / 4 + 8 * (index / 2 % 2);
                let column = 8 * (index / 4) + 2 * (lane % 4) + index % 2;
                let products = dot(&a[row * depth..][..depth], &b[column * depth..][..depth]);
                let old = if product.accumulates { f32::from_bits(*sum) } else { 0.0 };
                *sum = canonical((f64::from(old) + sign * products) as f32).to_bits();
            }
        }
        registers.end_product(&form.d, &left_registers(form));
        Ok(())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The 16 rows of a that a warp holds in registers.
fn left_numbers(registers: &mut Registers, ty: Type, a: [Register; 4]) -> Vec<f64> {
    let width = 4 / ty.bytes() as usize;
    let depth = 8 * width;
    let mut numbers = vec![0.0; 16 * depth];
    for (index, register) in a.into_iter().enumerate() {
        for (lane, word) in registers.lent(register).iter().enumerate() {
            for element in 0..width {
                let row = lane / 4 + 8 * (index % 2);
                let k = 4 * width * (index / 2) + width * (lane % 4) + element;
                numbers[row * depth + k] = unpack(ty, *word, element);
            }
        }
    }
    numbers
}
