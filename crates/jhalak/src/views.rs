//! [`IntoView`] and [`IntoViewMut`]: everything that can be handed to a call as a tensor.

use jhalak_problem::{Result, Tensor, TensorView, TensorViewMut};

/// Whatever a call can read as a tensor: a [`TensorView`], a `&Tensor`, and, with the feature
/// `ndarray`, a reference to any of ndarray's arrays or views, whatever its strides.
///
/// ```
/// use jhalak::{IntoView, Tensor};
///
/// let tensor = Tensor::from_vec(vec![0.0f32; 6], &[2, 3])?;
/// assert_eq!(tensor.into_view()?.shape(), [2, 3]);
/// # Ok::<(), jhalak::Error>(())
/// ```
pub trait IntoView<'v> {
    /// The tensor for reading.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) for more than
    /// [`MAX_RANK`](crate::MAX_RANK) dimensions.
    fn into_view(self) -> Result<TensorView<'v>>;
}

/// Whatever a call can write as a tensor: a [`TensorViewMut`], a `&mut Tensor`, and, with the
/// feature `ndarray`, a mutable reference to any of ndarray's arrays or mutable views.
pub trait IntoViewMut<'v> {
    /// The tensor for writing.
    ///
    /// # Errors
    /// As [`IntoView::into_view`].
    fn into_view_mut(self) -> Result<TensorViewMut<'v>>;
}

impl<'v> IntoView<'v> for TensorView<'v> {
    fn into_view(self) -> Result<TensorView<'v>> {
        Ok(self)
    }
}

impl<'v> IntoView<'v> for &TensorView<'v> {
    fn into_view(self) -> Result<TensorView<'v>> {
        Ok(*self)
    }
}

impl<'v> IntoView<'v> for &'v Tensor {
    fn into_view(self) -> Result<TensorView<'v>> {
        Ok(self.view())
    }
}

impl<'v> IntoViewMut<'v> for TensorViewMut<'v> {
    fn into_view_mut(self) -> Result<TensorViewMut<'v>> {
        Ok(self)
    }
}

impl<'v> IntoViewMut<'v> for &'v mut Tensor {
    fn into_view_mut(self) -> Result<TensorViewMut<'v>> {
        Ok(self.view_mut())
    }
}

#[cfg(feature = "ndarray")]
mod arrays {
    use jhalak_problem::{Device, Element, Result, TensorView, TensorViewMut};
    use ndarray::{ArrayBase, Data, DataMut, Dimension};

    use super::{IntoView, IntoViewMut};

    impl<'v, A, S, D> IntoView<'v> for &'v ArrayBase<S, D>
    where
        A: Element,
        S: Data<Elem = A>,
        D: Dimension,
    {
        fn into_view(self) -> Result<TensorView<'v>> {
            let (shape, strides) = (self.shape(), self.strides());
            // SAFETY: every element that an array's shape and strides reach is initialised
            // memory of type A, and borrowed from it for 'v.
            unsafe {
                TensorView::from_raw(self.as_ptr().cast(), A::DTYPE, Device::Cpu, shape, strides)
            }
        }
    }

    impl<'v, A, S, D> IntoViewMut<'v> for &'v mut ArrayBase<S, D>
    where
        A: Element,
        S: DataMut<Elem = A>,
        D: Dimension,
    {
        fn into_view_mut(self) -> Result<TensorViewMut<'v>> {
            // First: a shared array makes itself unique here, and may move.
            let ptr = self.as_mut_ptr().cast();
            let (shape, strides) = (self.shape(), self.strides());
            // SAFETY: as above, and borrowed exclusively. Only numbers of type A are written; a
            // call never writes a bool tensor.
            unsafe { TensorViewMut::from_raw(ptr, A::DTYPE, Device::Cpu, shape, strides) }
        }
    }
}
