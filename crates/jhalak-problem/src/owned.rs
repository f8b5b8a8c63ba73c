//! [`Tensor`]: an owned, row-major tensor for results.

use std::any::Any;

use half::{bf16, f16};

use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::tensor::{TensorView, TensorViewMut};

/// An owned tensor in host memory, row-major.
///
/// ```
/// use jhalak_problem::Tensor;
///
/// let t = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// assert_eq!(t.as_slice::<f32>(), Some(&[1.0, 2.0, 3.0, 4.0][..]));
/// # Ok::<(), jhalak_problem::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

#[derive(Clone, Debug, PartialEq)]
enum Data {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
}

/// Runs `$body` with `$vec` bound to the vector inside `$data`, whatever its type.
macro_rules! with_vec {
    ($data:expr, $vec:ident => $body:expr) => {
        match $data {
            Data::F32($vec) => $body,
            Data::F16($vec) => $body,
            Data::BF16($vec) => $body,
            Data::F64($vec) => $body,
            Data::I32($vec) => $body,
            Data::I64($vec) => $body,
            Data::Bool($vec) => $body,
        }
    };
}

impl Tensor {
    /// A tensor of zeros (false for bool).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if it cannot be allocated; [`Error::Shape`] for more than
    /// [`MAX_RANK`](crate::MAX_RANK) dimensions.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Self> {
        let numel = shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
        let bytes = numel.and_then(|n| n.checked_mul(dtype.size())).unwrap_or(usize::MAX);
        let numel = numel.ok_or(Error::OutOfMemory { what: "a tensor", bytes })?;
        fn zeroed<T: Element>(numel: usize, bytes: usize) -> Result<Vec<T>> {
            let mut vec = Vec::new();
            vec.try_reserve_exact(numel)
                .map_err(|_| Error::OutOfMemory { what: "a tensor", bytes })?;
            vec.resize(numel, T::ZERO);
            Ok(vec)
        }
        let data = match dtype {
            DType::F32 => Data::F32(zeroed(numel, bytes)?),
            DType::F16 => Data::F16(zeroed(numel, bytes)?),
            DType::BF16 => Data::BF16(zeroed(numel, bytes)?),
            DType::F64 => Data::F64(zeroed(numel, bytes)?),
            DType::I32 => Data::I32(zeroed(numel, bytes)?),
            DType::I64 => Data::I64(zeroed(numel, bytes)?),
            DType::Bool => Data::Bool(zeroed(numel, bytes)?),
        };
        Self::checked(shape, data)
    }

    /// A tensor of these elements, in row-major order.
    ///
    /// # Errors
    /// [`Error::Shape`] if the product of `shape` is not the number of elements.
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: &[usize]) -> Result<Self> {
        let mut elements = elements;
        let any: &mut dyn Any = &mut elements;
        macro_rules! take {
            ($ty:ty) => {
                std::mem::take(any.downcast_mut::<Vec<$ty>>().expect("T::DTYPE names T"))
            };
        }
        let data = match T::DTYPE {
            DType::F32 => Data::F32(take!(f32)),
            DType::F16 => Data::F16(take!(f16)),
            DType::BF16 => Data::BF16(take!(bf16)),
            DType::F64 => Data::F64(take!(f64)),
            DType::I32 => Data::I32(take!(i32)),
            DType::I64 => Data::I64(take!(i64)),
            DType::Bool => Data::Bool(take!(bool)),
        };
        Self::checked(shape, data)
    }

    fn checked(shape: &[usize], data: Data) -> Result<Self> {
        let tensor = Tensor { shape: shape.to_vec(), data };
        with_vec!(&tensor.data, vec => TensorView::from_slice(vec, shape).map(|_| ()))?;
        Ok(tensor)
    }

    /// The elements' type.
    pub fn dtype(&self) -> DType {
        match self.data {
            Data::F32(_) => DType::F32,
            Data::F16(_) => DType::F16,
            Data::BF16(_) => DType::BF16,
            Data::F64(_) => DType::F64,
            Data::I32(_) => DType::I32,
            Data::I64(_) => DType::I64,
            Data::Bool(_) => DType::Bool,
        }
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements in row-major order, or `None` if `T` is not their type.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        with_vec!(&self.data, vec => (vec as &dyn Any).downcast_ref::<Vec<T>>()).map(Vec::as_slice)
    }

    /// The elements in row-major order, or `None` if `T` is not their type.
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        with_vec!(&mut self.data, vec => (vec as &mut dyn Any).downcast_mut::<Vec<T>>())
            .map(Vec::as_mut_slice)
    }

    /// The tensor for reading.
    pub fn view(&self) -> TensorView<'_> {
        with_vec!(&self.data, vec => TensorView::from_slice(vec, &self.shape))
            .expect("checked when the tensor was made")
    }

    /// The tensor for writing.
    pub fn view_mut(&mut self) -> TensorViewMut<'_> {
        with_vec!(&mut self.data, vec => TensorViewMut::from_slice(vec, &self.shape))
            .expect("checked when the tensor was made")
    }

    /// All elements as `f64` in row-major order.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        with_vec!(&self.data, vec => vec.iter().map(|x| x.to_f64()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_as_their_own_type_only() {
        let mut t = Tensor::from_vec(vec![true, false], &[2]).unwrap();
        assert_eq!(t.as_slice::<bool>(), Some(&[true, false][..]));
        assert_eq!(t.as_slice::<f32>(), None);
        t.as_mut_slice::<bool>().unwrap()[1] = true;
        assert_eq!(t.to_f64_vec(), [1.0, 1.0]);
        assert!(Tensor::from_vec(vec![1.0f64; 3], &[2]).is_err());
    }

    #[test]
    fn a_size_that_cannot_be_had_is_an_error() {
        assert!(matches!(
            Tensor::zeros(DType::F32, &[1 << 40, 1 << 20]),
            Err(Error::OutOfMemory { .. })
        ));
        assert!(matches!(
            Tensor::zeros(DType::F32, &[usize::MAX, 3]),
            Err(Error::OutOfMemory { .. })
        ));
    }
}
