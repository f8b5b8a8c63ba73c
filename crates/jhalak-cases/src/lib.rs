//! Attention calls for the tests of every engine: [`case::Case`] has all options and draws them at
//! random; [`strided::Strided`] is a tensor in any layout, with poison between its elements.

pub mod attended;
mod bytes;
pub mod case;
pub mod gradients;
pub mod known;
pub mod strided;
