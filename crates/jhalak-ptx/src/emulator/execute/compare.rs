//! Comparisons, selection and logic of predicates.

use std::cmp::Ordering::{self, Equal, Greater, Less};

use crate::emulator::fault::Outcome;
use crate::emulator::registers::{Registers, each, mask_of};
use crate::instruction::compare::{
    Compare, Comparison as C, Connective, Logic, LogicOperator, Select,
};
use crate::instruction::types::Type;

/// Whether a comparison holds, given the order of the numbers; `None` when one is NaN.
fn holds(comparison: C, order: Option<Ordering>) -> bool {
    match comparison {
        C::Eq => order == Some(Equal),
        C::Ne => order.is_some_and(|order| order != Equal),
        C::Lt => order == Some(Less),
        C::Le => matches!(order, Some(Less | Equal)),
        C::Gt => order == Some(Greater),
        C::Ge => matches!(order, Some(Greater | Equal)),
        C::Equ => matches!(order, None | Some(Equal)),
        C::Neu => order != Some(Equal),
        C::Ltu => matches!(order, None | Some(Less)),
        C::Leu => matches!(order, None | Some(Less | Equal)),
        C::Gtu => matches!(order, None | Some(Greater)),
        C::Geu => matches!(order, None | Some(Greater | Equal)),
        C::Num => order.is_some(),
        C::Nan => order.is_none(),
    }
}

pub(super) fn compare(r: &mut Registers, lanes: u32, form: &Compare) -> Outcome<()> {
    let test = |order: &dyn Fn(usize) -> Option<Ordering>| {
        mask_of(|lane| holds(form.comparison, order(lane)))
    };
    let mut truth = match form.ty {
        Type::F32 => {
            let (a, b) = (r.floats(form.a, lanes)?, r.floats(form.b, lanes)?);
            test(&|l| a[l].partial_cmp(&b[l]))
        }
        Type::U64 | Type::S64 => {
            let (a, b) = (r.wide(form.a, lanes)?, r.wide(form.b, lanes)?);
            if form.ty == Type::S64 {
                test(&|l| Some(a[l].cast_signed().cmp(&b[l].cast_signed())))
            } else {
                test(&|l| Some(a[l].cmp(&b[l])))
            }
        }
        _ => {
            let (a, b) = (r.words(form.a, lanes)?, r.words(form.b, lanes)?);
            if form.ty == Type::S32 {
                test(&|l| Some(a[l].cast_signed().cmp(&b[l].cast_signed())))
            } else {
                test(&|l| Some(a[l].cmp(&b[l])))
            }
        }
    };
    if let Some((connective, condition)) = form.combine {
        let other = r.condition(condition, lanes)?;
        truth = match connective {
            Connective::And => truth & other,
            Connective::Or => truth | other,
            Connective::Xor => truth ^ other,
        };
    }
    r.set_truth(form.d, lanes, truth);
    Ok(())
}

/// Only the chosen operand needs a value.
pub(super) fn select(r: &mut Registers, lanes: u32, form: &Select) -> Outcome<()> {
    let truth = r.truth(form.predicate, lanes)?;
    let (a, b) = (r.any(form.a, lanes & truth)?, r.any(form.b, lanes & !truth)?);
    r.set_any(form.d, lanes, each(|l| if truth >> l & 1 == 1 { a[l] } else { b[l] }));
    Ok(())
}

pub(super) fn logic(r: &mut Registers, lanes: u32, form: &Logic) -> Outcome<()> {
    let a = r.truth(form.a, lanes)?;
    let b = form.b.map_or(Ok(0), |b| r.truth(b, lanes))?;
    let truth = match form.operator {
        LogicOperator::And => a & b,
        LogicOperator::Or => a | b,
        LogicOperator::Xor => a ^ b,
        LogicOperator::Not => !a,
    };
    r.set_truth(form.d, lanes, truth);
    Ok(())
}
