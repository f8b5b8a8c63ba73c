//! [`Strided`]: tensors in every memory layout, with poison between their elements.

use std::ffi::c_void;

use half::{bf16, f16};
use jhalak_problem::{DType, Device, TensorView, TensorViewMut};

use crate::bytes::Bytes;

/// How a tensor lies in memory.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Which dimension varies fastest, and so on: entry n is the rotation applied at step n.
    pub rotate: usize,
    /// Dimensions that run backwards, one bit each.
    pub reversed: u8,
    /// Dimensions with stride 0, one bit each; for inputs only.
    pub broadcast: u8,
    /// Elements between one element and the next, less one.
    pub gap: usize,
    /// Elements before the first.
    pub lead: usize,
}

#[derive(Clone, Debug)]
enum Data {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
}

/// A tensor with its memory.
#[derive(Clone, Debug)]
pub struct Strided {
    data: Data,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

macro_rules! with_data {
    ($data:expr, $vec:ident => $body:expr) => {
        match $data {
            Data::F32($vec) => $body,
            Data::F16($vec) => $body,
            Data::BF16($vec) => $body,
            Data::F64($vec) => $body,
            Data::Bool($vec) => $body,
        }
    };
}

/// What lies between elements, and in outputs before they are written: an arbitrary NaN.
const POISON: f64 = f64::NAN;

impl Strided {
    /// A tensor whose element at an index is `value` of the index.
    pub fn new(
        dtype: DType,
        shape: &[usize],
        layout: &Layout,
        mut value: impl FnMut(&[usize]) -> f64,
    ) -> Self {
        let rank = shape.len();
        let mut strides = vec![0isize; rank];
        let (mut offset, mut step) = (layout.lead, layout.gap as isize + 1);
        for n in 0..rank {
            let d = (rank - 1 - n + layout.rotate) % rank;
            if layout.broadcast >> d & 1 == 1 {
                continue;
            }
            strides[d] = step;
            if layout.reversed >> d & 1 == 1 && shape[d] > 0 {
                offset += (shape[d] - 1) * step as usize;
                strides[d] = -step;
            }
            step *= shape[d].max(1) as isize;
        }
        let len = layout.lead + step as usize + 1;
        let data = match dtype {
            DType::F32 => Data::F32(vec![POISON as f32; len]),
            DType::F16 => Data::F16(vec![f16::from_f64(POISON); len]),
            DType::BF16 => Data::BF16(vec![bf16::from_f64(POISON); len]),
            DType::F64 => Data::F64(vec![POISON; len]),
            DType::Bool => Data::Bool(vec![true; len]),
            other => panic!("no test tensors of {other}"),
        };
        let mut tensor = Strided { data, offset, shape: shape.to_vec(), strides };
        for_each_index(shape, |index| {
            let at = tensor.position(index);
            // Broadcast dimensions share one element: that of index 0.
            let lone: Vec<usize> = index
                .iter()
                .enumerate()
                .map(|(d, &i)| if layout.broadcast >> d & 1 == 1 { 0 } else { i })
                .collect();
            tensor.set(at, value(&lone));
        });
        tensor
    }

    /// An output: every element is poison.
    pub fn poisoned(dtype: DType, shape: &[usize], layout: &Layout) -> Self {
        let layout = Layout { broadcast: 0, ..layout.clone() };
        Strided::new(dtype, shape, &layout, |_| POISON)
    }

    fn position(&self, index: &[usize]) -> usize {
        let steps = index.iter().zip(&self.strides).map(|(&i, &s)| i as isize * s);
        (self.offset as isize + steps.sum::<isize>()) as usize
    }

    fn set(&mut self, at: usize, value: f64) {
        match &mut self.data {
            Data::F32(v) => v[at] = value as f32,
            Data::F16(v) => v[at] = f16::from_f64(value),
            Data::BF16(v) => v[at] = bf16::from_f64(value),
            Data::F64(v) => v[at] = value,
            Data::Bool(v) => v[at] = value != 0.0,
        }
    }

    /// The same tensor, each element made anew from its index and value.
    pub fn replaced(mut self, mut value: impl FnMut(&[usize], f64) -> f64) -> Self {
        let old = self.values();
        let mut n = 0;
        for_each_index(&self.shape.clone(), |index| {
            let at = self.position(index);
            self.set(at, value(index, old[n]));
            n += 1;
        });
        self
    }

    /// The tensor for reading.
    pub fn view(&self) -> TensorView<'_> {
        with_data!(&self.data, v => TensorView::strided(v, self.offset, &self.shape, &self.strides))
            .expect("a test's own layout")
    }

    /// The tensor for writing.
    pub fn view_mut(&mut self) -> TensorViewMut<'_> {
        let (offset, shape, strides) = (self.offset, &self.shape, &self.strides);
        with_data!(&mut self.data, v => TensorViewMut::strided(v, offset, shape, strides))
            .expect("a test's own layout")
    }

    /// All of its memory, with what lies between the elements.
    pub fn bytes(&self) -> Vec<u8> {
        with_data!(&self.data, v => v.iter().flat_map(|x| x.to_bytes()).collect())
    }

    /// Replaces all of its memory.
    ///
    /// # Panics
    /// If there are more or fewer bytes.
    pub fn set_bytes(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes().len());
        with_data!(&mut self.data, v => {
            let size = bytes.len() / v.len();
            for (x, bytes) in v.iter_mut().zip(bytes.chunks(size)) {
                *x = Bytes::from_bytes(bytes);
            }
        });
    }

    /// Where it lies once its bytes have been copied to `address` of a device.
    ///
    /// # Safety
    /// As [`TensorView::from_raw`], if anybody reads it.
    pub unsafe fn view_at(&self, address: u64, device: Device) -> TensorView<'_> {
        let (ptr, view) = (self.first_at(address), self.view());
        // SAFETY: as the caller's.
        unsafe { TensorView::from_raw(ptr, view.dtype(), device, view.shape(), view.strides()) }
            .expect("a test's own layout")
    }

    /// As [`view_at`](Self::view_at), for writing.
    ///
    /// # Safety
    /// As [`TensorViewMut::from_raw`], if anybody writes it.
    pub unsafe fn view_mut_at(&self, address: u64, device: Device) -> TensorViewMut<'_> {
        let (ptr, view) = (self.first_at(address), self.view());
        // SAFETY: as the caller's.
        unsafe { TensorViewMut::from_raw(ptr, view.dtype(), device, view.shape(), view.strides()) }
            .expect("a test's own layout")
    }

    fn first_at(&self, address: u64) -> *mut c_void {
        let first = self.offset * self.view().dtype().size();
        std::ptr::without_provenance_mut(address as usize + first)
    }

    /// All elements in row-major order.
    pub fn values(&self) -> Vec<f64> {
        self.view().to_f64_vec()
    }

    /// Whether the memory between the elements is as it was.
    pub fn gaps_are_untouched(&self) -> bool {
        let mut rest = self.clone();
        for_each_index(&self.shape, |index| {
            let at = rest.position(index);
            rest.set(at, POISON);
        });
        match &rest.data {
            Data::F32(v) => v.iter().all(|x| x.is_nan()),
            Data::F16(v) => v.iter().all(|x| x.is_nan()),
            Data::BF16(v) => v.iter().all(|x| x.is_nan()),
            Data::F64(v) => v.iter().all(|x| x.is_nan()),
            Data::Bool(_) => true,
        }
    }

    /// The bits of every element, in row-major order.
    pub fn bits(&self) -> Vec<u64> {
        self.values().into_iter().map(f64::to_bits).collect()
    }
}

/// Calls `f` with every index of a shape in row-major order.
pub fn for_each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let count: usize = shape.iter().product();
    let mut index = vec![0; shape.len()];
    for n in 0..count {
        let mut rest = n;
        for d in (0..shape.len()).rev() {
            index[d] = rest % shape[d];
            rest /= shape[d];
        }
        f(&index);
    }
}

/// A number that looks random: near unit-normal, the same for the same seed and index.
pub fn noise(seed: u64, index: &[usize]) -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF0;
    for &i in index {
        state = (state ^ i as u64).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state ^= state >> 29;
    }
    let mut sum = 0.0;
    for _ in 0..4 {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        sum += ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
    }
    sum * 3f64.sqrt()
}
