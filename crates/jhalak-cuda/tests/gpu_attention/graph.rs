//! Calls that are captured into a graph, and replayed on other numbers.

use jhalak_cuda::Engine;
use jhalak_cuda::driver::Buffer;
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Device, Forward, Gradient, GradientTargets,
    OutOrDelta, Problem, TensorView, TensorViewMut,
};
use jhalak_ptx::Target;

use crate::run::engine;

const SHAPE: [usize; 4] = [2, 300, 2, 64];
const ELEMENTS: usize = 2 * 300 * 2 * 64;
const STRIDES: [isize; 4] = [300 * 2 * 64, 2 * 64, 64, 1];

/// The memory of a call: q, k, v, out, dout, dq, dk, dv, then lse.
struct Memory(Vec<Buffer>);

impl Memory {
    fn new(engine: &Engine) -> Self {
        let floats = 4 * 2 * 2 * 300;
        let bytes = [2 * ELEMENTS; 8].into_iter().chain([floats]);
        Memory(bytes.map(|bytes| engine.context().allocate(bytes).unwrap()).collect())
    }

    fn view(&self, n: usize) -> TensorView<'_> {
        let at = std::ptr::without_provenance(self.0[n].address() as usize);
        let (device, dtype) = (Device::Cuda(0), DType::F16);
        // SAFETY: the memory is there, and as large.
        unsafe { TensorView::from_raw(at, dtype, device, &SHAPE, &STRIDES) }.unwrap()
    }

    fn view_mut(&self, n: usize) -> TensorViewMut<'_> {
        let at = std::ptr::without_provenance_mut(self.0[n].address() as usize);
        let (device, dtype) = (Device::Cuda(0), DType::F16);
        // SAFETY: as above; only kernels of one stream write it.
        unsafe { TensorViewMut::from_raw(at, dtype, device, &SHAPE, &STRIDES) }.unwrap()
    }

    fn lse(&self) -> TensorViewMut<'_> {
        let at = std::ptr::without_provenance_mut(self.0[8].address() as usize);
        let (shape, strides) = ([2, 2, 300], [600, 300, 1]);
        // SAFETY: as above.
        unsafe { TensorViewMut::from_raw(at, DType::F32, Device::Cuda(0), &shape, &strides) }
            .unwrap()
    }

    /// Gives all inputs new numbers.
    fn fill(&self, engine: &Engine, seed: u32) {
        for (n, buffer) in self.0.iter().enumerate().take(8) {
            let value = |i: usize| {
                let x = (i as u32).wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(97 + n as u32);
                half::f16::from_f32((x >> 16) as f32 / 65536.0 - 0.5).to_le_bytes()
            };
            let bytes: Vec<u8> = (0..ELEMENTS).flat_map(value).collect();
            // SAFETY: the memory is as large as what is copied.
            unsafe { engine.context().copy_to_device(buffer.address(), &bytes).unwrap() };
        }
    }

    /// out, dq, dk and dv.
    fn results(&self, engine: &Engine) -> Vec<Vec<u8>> {
        let read = |n: usize| {
            let mut bytes = vec![0; 2 * ELEMENTS];
            // SAFETY: the memory is as large as what is copied.
            unsafe { engine.context().copy_to_host(&mut bytes, self.0[n].address()).unwrap() };
            bytes
        };
        [3, 5, 6, 7].map(read).into()
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_captured_call_is_replayed_on_other_numbers() {
    let engine = engine(Target::Sm80);
    let stream = engine.context().stream().unwrap();
    let memory = Memory::new(&engine);
    let attention = Attention::new().causal().deterministic();
    let (q, k, v) = (memory.view(0), memory.view(1), memory.view(2));
    let problem = Problem::new(&attention, q, k, v).unwrap();
    let bytes = Engine::backward_workspace_bytes(&problem, false);
    let workspace = engine.context().allocate(bytes).unwrap();
    let forward = Forward::new(&problem, memory.view_mut(3), memory.lse()).unwrap();
    let inputs = BackwardInputs {
        dout: memory.view(4),
        out: OutOrDelta::Out(memory.view(3)),
        lse: forward.lse_view(),
        dlse: None,
    };
    let mut targets = GradientTargets::default();
    targets.dq = Some(Gradient::Write(memory.view_mut(5)));
    targets.dk = Some(Gradient::Write(memory.view_mut(6)));
    targets.dv = Some(Gradient::Write(memory.view_mut(7)));
    let backward = Backward::new(&problem, inputs, targets).unwrap();
    let work = || -> jhalak_cuda::Result<()> {
        // SAFETY: the memory lives until the stream has done the work.
        unsafe {
            engine.forward(&stream, &forward, 0)?;
            engine.backward(&stream, &backward, workspace.address())
        }
    };
    // Kernels are compiled before the capture.
    memory.fill(&engine, 1);
    work().unwrap();
    stream.synchronize().unwrap();
    let mut failed = None;
    let graph = stream.capture(|| {
        failed = work().err();
        Ok(())
    });
    assert!(failed.is_none(), "{failed:?}");
    let mut graph = graph.unwrap().instantiate().unwrap();
    for seed in 2..5 {
        memory.fill(&engine, seed);
        work().unwrap();
        stream.synchronize().unwrap();
        let expected = memory.results(&engine);
        memory.fill(&engine, seed);
        // SAFETY: as above.
        unsafe { graph.launch(&stream).unwrap() };
        stream.synchronize().unwrap();
        assert!(memory.results(&engine) == expected, "seed {seed}");
    }
}
