//! Loads that happen only where a condition holds; elsewhere the result is 0.

use jhalak_ptx::{Access, Address, B32, Condition, F32, KernelBuilder, Order};

use super::element::Element;

/// 16 bytes to these registers, or zeros.
pub(crate) fn load_vector_to(
    k: &mut KernelBuilder,
    values: [B32; 4],
    condition: impl Into<Condition>,
    place: impl Into<Address>,
) {
    for value in values {
        k.mov_b32_to(value, 0);
    }
    k.when(condition, |k| k.ld_with(values, place, Access::new(Order::Weak)));
}

/// The bits of an element, or 0.
pub(crate) fn load_bits(
    k: &mut KernelBuilder,
    element: Element,
    condition: impl Into<Condition>,
    place: impl Into<Address>,
) -> B32 {
    let bits = k.mov_b32(0);
    k.when(condition, |k| match element.bytes() {
        2 => k.ld_u16_to(bits, place),
        _ => k.ld_to(bits, place),
    });
    bits
}

/// An element as a float, or 0.
pub(crate) fn load_float(
    k: &mut KernelBuilder,
    element: Element,
    condition: impl Into<Condition>,
    place: impl Into<Address>,
) -> F32 {
    let bits = load_bits(k, element, condition, place);
    if element == Element::F32 { k.f32_of_bits(bits) } else { element.widen(k, bits) }
}

/// A byte, or 0.
pub(crate) fn load_byte(
    k: &mut KernelBuilder,
    condition: impl Into<Condition>,
    place: impl Into<Address>,
) -> B32 {
    let byte = k.mov_b32(0);
    k.when(condition, |k| k.ld_u8_to(byte, place));
    byte
}
