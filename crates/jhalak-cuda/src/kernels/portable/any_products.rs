//! The products of a class: by tensor cores, or in single precision.

use jhalak_ptx::{B32, KernelBuilder};

use super::super::element::Element;
use super::super::softmax::Fragments;
use super::super::thread::Thread;
use super::products::Products;
use super::products_f32::ProductsF32;

/// The two products of attention, of a class's element.
pub(crate) enum AnyProducts {
    Tensor(Products),
    F32(ProductsF32),
}

impl AnyProducts {
    /// For a warp whose first row of q is `first_row`, with tiles at these addresses.
    pub(crate) fn new(
        k: &mut KernelBuilder,
        thread: &Thread,
        element: Element,
        dims: [u32; 2],
        first_row: B32,
        tiles: [B32; 3],
    ) -> Self {
        if element == Element::F32 {
            AnyProducts::F32(ProductsF32::new(k, thread, dims, first_row, tiles))
        } else {
            AnyProducts::Tensor(Products::new(k, thread, element, dims, first_row, tiles))
        }
    }

    /// S = Q·Kᵀ
    pub(crate) fn scores(&self, k: &mut KernelBuilder, s: &Fragments) {
        match self {
            AnyProducts::Tensor(products) => products.scores(k, s),
            AnyProducts::F32(products) => products.scores(k, s),
        }
    }

    /// O += P·V
    pub(crate) fn values(&self, k: &mut KernelBuilder, p: &Fragments, o: &Fragments) {
        match self {
            AnyProducts::Tensor(products) => products.values(k, p, o),
            AnyProducts::F32(products) => products.values(k, p, o),
        }
    }
}
