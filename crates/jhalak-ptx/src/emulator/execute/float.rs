//! Floats. Sums, products and extrema are those of the hardware, bit for bit. The approximate
//! functions are computed in double precision and rounded once; the hardware's may differ in the
//! last bits.

use super::formats::{canonical, flush};
use crate::emulator::fault::Outcome;
use crate::emulator::registers::{Registers, each};
use crate::instruction::float::{
    Float, FloatFunction as Function, FloatOperator as Op, FloatUnary, FusedMulAdd,
};

pub(super) fn binary(r: &mut Registers, lanes: u32, form: &Float) -> Outcome<()> {
    let (mut a, mut b) = (r.floats(form.a, lanes)?, r.floats(form.b, lanes)?);
    if form.flush {
        (a, b) = (a.map(flush), b.map(flush));
    }
    let mut d = match form.operator {
        Op::Add => each(|l| canonical(a[l] + b[l])),
        Op::Sub => each(|l| canonical(a[l] - b[l])),
        Op::Mul => each(|l| canonical(a[l] * b[l])),
        Op::Min => each(|l| smaller(a[l], b[l])),
        Op::Max => each(|l| -smaller(-a[l], -b[l])).map(canonical),
    };
    if form.flush {
        d = d.map(flush);
    }
    r.set_floats(form.d, lanes, d);
    Ok(())
}

/// The smaller one; the other one when one is NaN; -0 is smaller than +0.
fn smaller(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        canonical(b)
    } else if b.is_nan() || a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

pub(super) fn fused(r: &mut Registers, lanes: u32, form: &FusedMulAdd) -> Outcome<()> {
    let (a, b) = (r.floats(form.a, lanes)?, r.floats(form.b, lanes)?);
    let c = r.floats(form.c, lanes)?;
    let d = if form.flush {
        each(|l| flush(canonical(flush(a[l]).mul_add(flush(b[l]), flush(c[l])))))
    } else {
        each(|l| canonical(a[l].mul_add(b[l], c[l])))
    };
    r.set_floats(form.d, lanes, d);
    Ok(())
}

pub(super) fn unary(r: &mut Registers, lanes: u32, form: &FloatUnary) -> Outcome<()> {
    let a = r.floats(form.a, lanes)?;
    let approximate =
        |f: fn(f64) -> f64| each(|l| flush(canonical(f(f64::from(flush(a[l]))) as f32)));
    let d = match form.function {
        Function::Neg => a.map(|a| -a),
        Function::Abs => a.map(f32::abs),
        Function::Ex2 => approximate(f64::exp2),
        Function::Lg2 => approximate(f64::log2),
        Function::Rcp => approximate(f64::recip),
        Function::Sqrt => approximate(f64::sqrt),
        Function::Rsqrt => approximate(|x| 1.0 / x.sqrt()),
        Function::Tanh => a.map(|a| canonical(f64::from(a).tanh() as f32)),
    };
    r.set_floats(form.d, lanes, d);
    Ok(())
}
