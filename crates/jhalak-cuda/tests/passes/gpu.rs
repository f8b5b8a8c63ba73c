//! The emulated device, and tensors in its memory.

use half::{bf16, f16};
use jhalak_cuda::plan::Value;
use jhalak_problem::{DType, Device, TensorView, TensorViewMut};
use jhalak_ptx::Module;
use jhalak_ptx::emulator::{Argument, Launch, Memory};

use crate::numbers::rounded;

/// What lies around the elements of a tensor, and must stay.
const POISON: f64 = 77.0;

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// Row-major, without gaps.
    Plain,
    /// Rows are contiguous, with gaps of 8 elements between them.
    Gaps,
    /// Every other element, backwards, with odd gaps.
    Backwards,
    /// Columns lie apart, one whole tensor after the other.
    ColumnsFirst,
    /// The second dimension has stride 0: all its elements are the same.
    Broadcast,
}

impl Layout {
    /// Strides in elements.
    fn strides(self, shape: &[usize]) -> Vec<isize> {
        let mut strides = vec![0; shape.len()];
        let (first, gap) = match self {
            Layout::Gaps => (1, 8),
            Layout::Backwards => (2, 3),
            _ => (1, 0),
        };
        let mut order: Vec<usize> = (0..shape.len()).rev().collect();
        if self == Layout::ColumnsFirst {
            order.rotate_left(1);
        }
        let mut next = first;
        for d in order {
            if self == Layout::Broadcast && d == 1 {
                continue;
            }
            strides[d] = if self == Layout::Backwards { -next } else { next };
            next = next * shape[d].max(1) as isize + gap;
        }
        strides
    }
}

/// A tensor in the device's memory.
#[derive(Clone)]
pub struct Held {
    pub dtype: DType,
    pub shape: Vec<usize>,
    strides: Vec<isize>,
    /// The address of element 0.
    address: u64,
    /// The whole allocation.
    base: u64,
    len: usize,
}

impl Held {
    pub fn view(&self) -> TensorView<'_> {
        let (ptr, device) = (std::ptr::without_provenance(self.address as usize), Device::Cuda(0));
        // SAFETY: nothing of this process reads what lies on another device.
        unsafe { TensorView::from_raw(ptr, self.dtype, device, &self.shape, &self.strides) }
            .unwrap()
    }

    pub fn view_mut(&self) -> TensorViewMut<'_> {
        let ptr = std::ptr::without_provenance_mut(self.address as usize);
        let device = Device::Cuda(0);
        // SAFETY: nothing of this process writes what lies on another device.
        unsafe { TensorViewMut::from_raw(ptr, self.dtype, device, &self.shape, &self.strides) }
            .unwrap()
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    /// Every index, in row-major order.
    pub fn indices(&self) -> Vec<Vec<usize>> {
        let mut list = vec![Vec::new()];
        for &size in &self.shape {
            list = list
                .iter()
                .flat_map(|index| (0..size).map(move |i| [index.as_slice(), &[i]].concat()))
                .collect();
        }
        list
    }

    fn place(&self, index: &[usize]) -> u64 {
        let offset: isize = index.iter().zip(&self.strides).map(|(&i, s)| i as isize * s).sum();
        self.address.wrapping_add_signed((offset * self.dtype.size() as isize) as i64)
    }
}

/// The device.
#[derive(Default)]
pub struct Gpu {
    memory: Memory,
}

impl Gpu {
    /// A tensor that nobody has written.
    pub fn empty(&mut self, dtype: DType, shape: &[usize], layout: Layout) -> Held {
        let strides = layout.strides(shape);
        let reach = |sign: isize| -> isize {
            let ends = strides.iter().zip(shape).map(|(&s, &n)| s * sign * (n.max(1) as isize - 1));
            ends.filter(|&end| end > 0).sum()
        };
        let (below, above) = (reach(-1), reach(1));
        let len = (below + above + 1) as usize;
        let base = self.memory.alloc_uninitialised(len * dtype.size());
        let address = base + below as u64 * dtype.size() as u64;
        Held { dtype, shape: shape.to_vec(), strides, address, base, len }
    }

    /// A tensor of these values; where there is none, nobody has written.
    pub fn tensor(
        &mut self,
        dtype: DType,
        shape: &[usize],
        layout: Layout,
        value: impl Fn(&[usize]) -> Option<f64>,
    ) -> Held {
        let held = self.empty(dtype, shape, layout);
        for index in held.indices() {
            if let Some(value) = value(&index) {
                self.write(dtype, held.place(&index), value);
            }
        }
        held
    }

    /// A tensor to be written, with poison in it and around it.
    pub fn output(&mut self, dtype: DType, shape: &[usize], layout: Layout) -> Held {
        let held = self.empty(dtype, shape, layout);
        for n in 0..held.len {
            self.write(dtype, held.base + (n * dtype.size()) as u64, POISON);
        }
        held
    }

    /// A list of lengths.
    pub fn list(&mut self, values: &[i32]) -> Held {
        self.tensor(DType::I32, &[values.len()], Layout::Plain, |i| Some(values[i[0]].into()))
    }

    fn write(&mut self, dtype: DType, place: u64, value: f64) {
        match dtype {
            DType::F32 => self.memory.write(place, &[value as f32]),
            DType::F16 => self.memory.write(place, &[f16::from_f64(value)]),
            DType::BF16 => self.memory.write(place, &[bf16::from_f64(value)]),
            DType::I32 => self.memory.write(place, &[value as i32]),
            other => panic!("no tensor of {other} is needed"),
        }
        .unwrap();
    }

    fn read(&self, dtype: DType, place: u64) -> f64 {
        match dtype {
            DType::F32 => self.memory.read::<f32>(place, 1).unwrap()[0].into(),
            DType::F16 => self.memory.read::<f16>(place, 1).unwrap()[0].into(),
            DType::BF16 => self.memory.read::<bf16>(place, 1).unwrap()[0].into(),
            other => panic!("no tensor of {other} is read"),
        }
    }

    /// One element.
    pub fn get(&self, held: &Held, index: &[usize]) -> f64 {
        self.read(held.dtype, held.place(index))
    }

    /// Copies a tensor to element `n` of the first dimension of another, where it is written.
    pub fn copy(&mut self, from: &Held, to: &Held, n: usize) {
        for index in from.indices() {
            let value = self.memory.read::<f32>(from.place(&index), 1);
            if let Ok(value) = value {
                self.memory.write(to.place(&[&[n], index.as_slice()].concat()), &value).unwrap();
            }
        }
    }

    /// Panics unless what lies between the elements of an output is still there.
    pub fn assert_surroundings(&self, held: &Held) {
        let own: std::collections::HashSet<u64> =
            held.indices().iter().map(|index| held.place(index)).collect();
        for n in 0..held.len {
            let place = held.base + (n * held.dtype.size()) as u64;
            let value = self.read(held.dtype, place);
            assert!(own.contains(&place) || value == rounded(held.dtype, POISON), "{value}");
        }
    }

    /// Runs a kernel.
    #[track_caller]
    pub fn run(
        &mut self,
        module: &Module,
        kernel: &str,
        grid: [u32; 2],
        threads: u32,
        arguments: &[Value],
        seed: u64,
    ) {
        let launch = Launch::new(module, kernel).grid(grid[0], grid[1], 1).block(threads);
        let launch = arguments.iter().fold(launch.seed(seed), |launch, value| {
            launch.arg(match *value {
                Value::U32(value) => Argument::U32(value),
                Value::U64(value) => Argument::U64(value),
                Value::F32(value) => Argument::F32(value),
                Value::Map(_) => unreachable!("passes have no tensor maps"),
            })
        });
        launch.run(&mut self.memory).unwrap_or_else(|report| panic!("{report}"));
    }
}
