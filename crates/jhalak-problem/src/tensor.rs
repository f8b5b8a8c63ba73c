//! Tensor views: where the numbers are, without owning them.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use crate::dtype::{DType, Element};
use crate::error::{Error, Result};

/// The largest number of dimensions a tensor of a call has.
pub const MAX_RANK: usize = 4;

/// The most elements that a view may have, broadcast ones counted: sizes of work space then stay
/// far inside 64 bits.
const MAX_NUMEL: usize = 1 << 52;

/// Where a tensor's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// The host's memory.
    Cpu,
    /// The memory of the CUDA device with this ordinal.
    Cuda(u32),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// Everything about a view but its address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    dtype: DType,
    device: Device,
    rank: u8,
    shape: [usize; MAX_RANK],
    /// In elements.
    strides: [isize; MAX_RANK],
}

impl Layout {
    fn new(dtype: DType, device: Device, shape: &[usize], strides: &[isize]) -> Result<Self> {
        if shape.len() > MAX_RANK {
            return Err(Error::shape("tensor", format!("of at most {MAX_RANK} dimensions"), shape));
        }
        if strides.len() != shape.len() {
            return Err(Error::Value {
                argument: "strides",
                expected: format!("{} numbers, one per dimension", shape.len()),
                got: format!("{strides:?}"),
            });
        }
        let mut layout = Layout {
            dtype,
            device,
            rank: shape.len() as u8,
            shape: [1; MAX_RANK],
            strides: [0; MAX_RANK],
        };
        layout.shape[..shape.len()].copy_from_slice(shape);
        for (d, (&size, &stride)) in shape.iter().zip(strides).enumerate() {
            // The stride of a dimension of size 0 or 1 is never used, whatever it is.
            layout.strides[d] = if size > 1 { stride } else { 0 };
        }
        let bytes = layout.extent().map(|(low, high)| {
            high.saturating_sub(low).saturating_add(1).saturating_mul(dtype.size() as i128)
        });
        let numel = shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size.max(1)));
        if bytes.is_some_and(|b| b > isize::MAX as i128) || numel.is_none_or(|n| n > MAX_NUMEL) {
            return Err(Error::shape("tensor", "that fits the address space", shape));
        }
        Ok(layout)
    }

    fn contiguous(dtype: DType, device: Device, shape: &[usize]) -> Result<Self> {
        let mut strides = [0isize; MAX_RANK];
        let mut step = 1usize;
        for d in (0..shape.len().min(MAX_RANK)).rev() {
            strides[d] = isize::try_from(step).unwrap_or(isize::MAX);
            step = step.saturating_mul(shape[d].max(1));
        }
        Layout::new(dtype, device, shape, &strides[..shape.len().min(MAX_RANK)])
    }

    fn shape(&self) -> &[usize] {
        &self.shape[..usize::from(self.rank)]
    }

    fn strides(&self) -> &[isize] {
        &self.strides[..usize::from(self.rank)]
    }

    fn numel(&self) -> usize {
        self.shape().iter().product()
    }

    pub(crate) fn shape_and_strides(&self) -> (&[usize], &[isize]) {
        (self.shape(), self.strides())
    }

    /// Lowest and highest element offset from the base; `None` without elements.
    pub(crate) fn extent(&self) -> Option<(i128, i128)> {
        if self.shape().contains(&0) {
            return None;
        }
        let (mut low, mut high) = (0i128, 0i128);
        for (&size, &stride) in self.shape().iter().zip(self.strides()) {
            let reach = (size as i128 - 1).saturating_mul(stride as i128);
            if reach < 0 {
                low = low.saturating_add(reach);
            } else {
                high = high.saturating_add(reach);
            }
        }
        Some((low, high))
    }

    fn check_inside(&self, len: usize, offset: usize) -> Result<()> {
        let Some((low, high)) = self.extent() else { return Ok(()) };
        let outside = [low + offset as i128, high + offset as i128];
        match outside.into_iter().find(|&e| e < 0 || e >= len as i128) {
            Some(reached) => {
                Err(Error::OutOfBounds { argument: "tensor", available: len, reached })
            }
            None => Ok(()),
        }
    }

    /// Bytes from the base to the element at `index`, each in range of its dimension.
    #[inline]
    fn byte_offset(&self, index: &[usize]) -> isize {
        debug_assert_eq!(index.len(), usize::from(self.rank));
        let mut offset = 0isize;
        for (d, &i) in index.iter().enumerate() {
            debug_assert!(i < self.shape[d], "index {index:?} outside {:?}", self.shape());
            offset += i as isize * self.strides[d];
        }
        offset * self.dtype.size() as isize
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{:?} strides {:?} on {}",
            self.dtype,
            self.shape(),
            self.strides(),
            self.device
        )
    }
}

macro_rules! layout_getters {
    () => {
        /// The elements' type.
        pub fn dtype(&self) -> DType {
            self.layout.dtype
        }

        /// Where the memory is.
        pub fn device(&self) -> Device {
            self.layout.device
        }

        /// The size of each dimension.
        pub fn shape(&self) -> &[usize] {
            self.layout.shape()
        }

        /// The distance, in elements, between neighbours in each dimension; 0 where the size is
        /// at most 1.
        pub fn strides(&self) -> &[isize] {
            self.layout.strides()
        }

        /// The number of elements.
        pub fn numel(&self) -> usize {
            self.layout.numel()
        }

        #[allow(dead_code, reason = "one of the two views needs it")]
        pub(crate) fn layout(&self) -> &Layout {
            &self.layout
        }
    };
}

/// A read-only tensor somebody else owns: address, dtype, shape, strides and device.
///
/// Strides count elements and may be 0 (a broadcast dimension) or negative.
///
/// ```
/// use jhalak_problem::TensorView;
///
/// let data = [0.0f32; 2 * 3 * 4 * 8];
/// let q = TensorView::from_slice(&data, &[2, 3, 4, 8])?; // [B, S, H, D]
/// assert_eq!(q.strides(), [96, 32, 8, 1]);
/// # Ok::<(), jhalak_problem::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    ptr: *const u8,
    layout: Layout,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: a view is a shared borrow of plain numbers, as `&'a [T]` is.
unsafe impl Send for TensorView<'_> {}
// SAFETY: as above.
unsafe impl Sync for TensorView<'_> {}

impl<'a> TensorView<'a> {
    layout_getters!();

    /// A row-major view of a whole slice.
    ///
    /// # Errors
    /// [`Error::Shape`] if the product of `shape` is not the slice's length, or has more than
    /// [`MAX_RANK`] dimensions.
    pub fn from_slice<T: Element>(data: &'a [T], shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(T::DTYPE, Device::Cpu, shape)?;
        if layout.numel() != data.len() {
            return Err(Error::shape("tensor", format!("of {} elements", data.len()), shape));
        }
        Ok(TensorView { ptr: data.as_ptr().cast(), layout, memory: PhantomData })
    }

    /// A view into a slice with any strides, in elements; element 0 is `data[offset]`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] if the view leaves the slice; [`Error::Shape`] and
    /// [`Error::Value`] if shape and strides do not fit together.
    pub fn strided<T: Element>(
        data: &'a [T],
        offset: usize,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self> {
        let layout = Layout::new(T::DTYPE, Device::Cpu, shape, strides)?;
        layout.check_inside(data.len(), offset)?;
        let ptr = data.as_ptr().wrapping_add(offset).cast();
        Ok(TensorView { ptr, layout, memory: PhantomData })
    }

    /// A view of memory given by address. `ptr` is the address of element 0.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Value`] if shape and strides do not fit together.
    ///
    /// # Safety
    /// For `'a`, every element that shape and strides reach must be readable memory of `dtype`
    /// on `device`, initialised, and written by nobody.
    pub unsafe fn from_raw(
        ptr: *const c_void,
        dtype: DType,
        device: Device,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self> {
        let layout = Layout::new(dtype, device, shape, strides)?;
        Ok(TensorView { ptr: ptr.cast(), layout, memory: PhantomData })
    }

    /// The address of element 0.
    pub fn as_ptr(&self) -> *const c_void {
        self.ptr.cast()
    }

    /// The address of the element at `index`, one number per dimension.
    #[inline]
    pub(crate) fn element_ptr(&self, index: &[usize]) -> *const u8 {
        self.ptr.wrapping_offset(self.layout.byte_offset(index))
    }

    /// The element at `index` as `f64`. The view must be in host memory.
    ///
    /// # Panics
    /// If `index` has the wrong number of dimensions or lies outside, or if the view is not in
    /// host memory.
    pub fn get_f64(&self, index: &[usize]) -> f64 {
        assert_eq!(self.device(), Device::Cpu, "only host memory can be read here");
        assert_eq!(index.len(), self.shape().len(), "one index per dimension");
        assert!(index.iter().zip(self.shape()).all(|(i, n)| i < n), "{index:?} is outside");
        let ptr = self.element_ptr(index);
        // SAFETY: the index is inside the shape, whose every element the constructors vouch for.
        unsafe { read_f64(ptr, self.dtype()) }
    }

    /// All elements as `f64` in row-major order. The view must be in host memory.
    ///
    /// # Panics
    /// If the view is not in host memory.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.numel());
        for_each_index(self.shape(), |index| values.push(self.get_f64(index)));
        values
    }
}

impl fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layout.fmt(f)
    }
}

/// A tensor somebody else owns and lends for writing.
pub struct TensorViewMut<'a> {
    ptr: *mut u8,
    layout: Layout,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: an exclusive borrow of plain numbers, as `&'a mut [T]` is.
unsafe impl Send for TensorViewMut<'_> {}
// SAFETY: as above; sharing gives no way to write without `unsafe`.
unsafe impl Sync for TensorViewMut<'_> {}

impl<'a> TensorViewMut<'a> {
    layout_getters!();

    /// A row-major view of a whole slice.
    ///
    /// # Errors
    /// As [`TensorView::from_slice`].
    pub fn from_slice<T: Element>(data: &'a mut [T], shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(T::DTYPE, Device::Cpu, shape)?;
        if layout.numel() != data.len() {
            return Err(Error::shape("tensor", format!("of {} elements", data.len()), shape));
        }
        Ok(TensorViewMut { ptr: data.as_mut_ptr().cast(), layout, memory: PhantomData })
    }

    /// A view into a slice with any strides, in elements; element 0 is `data[offset]`.
    ///
    /// # Errors
    /// As [`TensorView::strided`].
    pub fn strided<T: Element>(
        data: &'a mut [T],
        offset: usize,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self> {
        let layout = Layout::new(T::DTYPE, Device::Cpu, shape, strides)?;
        layout.check_inside(data.len(), offset)?;
        let ptr = data.as_mut_ptr().wrapping_add(offset).cast();
        Ok(TensorViewMut { ptr, layout, memory: PhantomData })
    }

    /// A view of memory given by address. `ptr` is the address of element 0.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Value`] if shape and strides do not fit together.
    ///
    /// # Safety
    /// For `'a`, every element that shape and strides reach must be memory of `dtype` on
    /// `device` that this view alone reads and writes.
    pub unsafe fn from_raw(
        ptr: *mut c_void,
        dtype: DType,
        device: Device,
        shape: &[usize],
        strides: &[isize],
    ) -> Result<Self> {
        let layout = Layout::new(dtype, device, shape, strides)?;
        Ok(TensorViewMut { ptr: ptr.cast(), layout, memory: PhantomData })
    }

    /// The address of element 0.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.ptr.cast()
    }

    /// The address of the element at `index`, one number per dimension.
    #[inline]
    pub(crate) fn element_ptr(&self, index: &[usize]) -> *mut u8 {
        self.ptr.wrapping_offset(self.layout.byte_offset(index))
    }

    /// The same tensor for reading.
    pub fn as_view(&self) -> TensorView<'_> {
        TensorView { ptr: self.ptr, layout: self.layout, memory: PhantomData }
    }

    /// A shorter loan of the same tensor.
    pub fn reborrow(&mut self) -> TensorViewMut<'_> {
        TensorViewMut { ptr: self.ptr, layout: self.layout, memory: PhantomData }
    }
}

impl fmt::Debug for TensorViewMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layout.fmt(f)
    }
}

/// Reads one element of any type as `f64`.
///
/// # Safety
/// `ptr` must be valid for reading one initialised element of `dtype`; it need not be aligned.
pub(crate) unsafe fn read_f64(ptr: *const u8, dtype: DType) -> f64 {
    // SAFETY: the caller's promise. A bool is read as a byte: foreign memory may hold any.
    unsafe {
        match dtype {
            DType::F32 => ptr.cast::<f32>().read_unaligned().to_f64(),
            DType::F16 => ptr.cast::<half::f16>().read_unaligned().to_f64(),
            DType::BF16 => ptr.cast::<half::bf16>().read_unaligned().to_f64(),
            DType::F64 => ptr.cast::<f64>().read_unaligned(),
            DType::I32 => ptr.cast::<i32>().read_unaligned().to_f64(),
            DType::I64 => ptr.cast::<i64>().read_unaligned().to_f64(),
            DType::Bool => (ptr.read() != 0).to_f64(),
        }
    }
}

/// Calls `f` with every index of `shape` in row-major order.
pub(crate) fn for_each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = [0usize; MAX_RANK];
    let index = &mut index[..shape.len()];
    loop {
        f(index);
        let mut d = shape.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_that_leaves_its_slice_is_refused() {
        let data = [0f32; 10];
        assert!(TensorView::strided(&data, 0, &[2, 5], &[5, 1]).is_ok());
        assert!(TensorView::strided(&data, 1, &[2, 5], &[5, 1]).is_err());
        assert!(TensorView::strided(&data, 4, &[5], &[-1]).is_ok());
        assert!(TensorView::strided(&data, 3, &[5], &[-1]).is_err());
        assert!(TensorView::strided(&data, 11, &[0, 5], &[5, 1]).is_ok());
        assert!(TensorView::from_slice(&data, &[3, 3]).is_err());
    }

    #[test]
    fn sizes_and_strides_that_overflow_are_refused() {
        let data = [0f32; 4];
        let huge = usize::MAX / 2;
        assert!(TensorView::strided(&data, 0, &[huge, huge], &[0, 0]).is_err());
        assert!(TensorView::strided(&data, 0, &[3, 3], &[isize::MAX, isize::MAX]).is_err());
        assert!(TensorView::from_slice(&data, &[huge, huge, 0, huge]).is_err());
        assert!(TensorView::from_slice(&data, &[1, 1, 1, 2, 2]).is_err());
        assert!(TensorView::strided(&data, 0, &[4], &[1, 1]).is_err());
    }

    #[test]
    fn the_stride_of_a_dimension_of_size_one_is_never_read() {
        let data = [1f32, 2.0];
        let view = TensorView::strided(&data, 0, &[1, 2], &[isize::MAX, 1]).unwrap();
        assert_eq!(view.to_f64_vec(), [1.0, 2.0]);
    }

    #[test]
    fn reading_follows_the_strides() {
        let data: Vec<f32> = (0..6).map(|x| x as f32).collect();
        let view = TensorView::strided(&data, 5, &[2, 3], &[-3, -1]).unwrap();
        assert_eq!(view.to_f64_vec(), [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
    }
}
