//! A program of the gallery on a device: its buffers, its arguments, its launch.

use jhalak_cuda::driver::{
    Arguments, Buffer, Context, Function, Launch, Stream, Swizzle, TensorMapType, TiledTensor,
};
use jhalak_programs::{Argument, Program, Use};
use jhalak_ptx::{OutOfBounds, TensorElement, TensorMapSpec};

pub struct OnDevice<'a> {
    program: &'a Program,
    function: Function,
    arguments: Arguments,
    launch: Launch,
    buffers: Vec<Buffer>,
}

impl<'a> OnDevice<'a> {
    /// Outputs hold NaN until they are written.
    pub fn new(context: &Context, program: &'a Program, inputs: &[Vec<f64>]) -> Self {
        let plan = &program.launch;
        let module = context.load_module(&program.module.text(), 4).unwrap();
        let function = module.function(plan.kernel).unwrap();
        function.allow_shared_memory(plan.shared_bytes).unwrap();
        let mut numbers = inputs.iter();
        let mut buffers = Vec::new();
        for buffer in &plan.buffers {
            let bytes = match buffer.usage {
                Use::Input => buffer.element.encode(numbers.next().unwrap()),
                Use::Output => vec![0xff; buffer.len * buffer.element.bytes() as usize],
                Use::Accumulator => vec![0; buffer.len * buffer.element.bytes() as usize],
            };
            let on_device = context.allocate(bytes.len()).unwrap();
            // SAFETY: the memory is new and as large as what is copied.
            unsafe { context.copy_to_device(on_device.address(), &bytes).unwrap() };
            buffers.push(on_device);
        }
        let mut arguments = Arguments::new();
        for argument in &plan.arguments {
            match argument {
                Argument::U32(value) => arguments.u32(*value),
                Argument::Address(buffer) => arguments.pointer(buffers[*buffer].address()),
                Argument::TensorMap(buffer, spec) => {
                    arguments.tensor_map(&encode(context, spec, buffers[*buffer].address()))
                }
            };
        }
        let launch =
            Launch::new([plan.grid, 1, 1], [plan.block, 1, 1]).shared_bytes(plan.shared_bytes);
        OnDevice { program, function, arguments, launch, buffers }
    }

    pub fn run(&self, stream: &Stream) {
        // SAFETY: the arguments are the kernel's, and the buffers have the sizes that it wants.
        unsafe { self.function.launch(stream, &self.launch, &self.arguments).unwrap() };
    }

    pub fn output(&self, stream: &Stream) -> Vec<f64> {
        stream.synchronize().unwrap();
        let (place, buffer) = self.program.output();
        let mut bytes = vec![0; self.buffers[place].bytes()];
        // SAFETY: the memory is there, and the stream is done.
        unsafe {
            stream.context().copy_to_host(&mut bytes, self.buffers[place].address()).unwrap();
        }
        buffer.element.decode(&bytes)
    }
}

fn encode(context: &Context, spec: &TensorMapSpec, address: u64) -> jhalak_cuda::driver::TensorMap {
    let tensor = TiledTensor {
        dtype: match spec.element {
            TensorElement::U8 => TensorMapType::U8,
            TensorElement::F16 => TensorMapType::F16,
            TensorElement::Bf16 => TensorMapType::Bf16,
            TensorElement::F32 => TensorMapType::F32,
        },
        address,
        dims: &spec.dims,
        strides: &spec.strides,
        tile: &spec.tile,
        swizzle: match spec.swizzle {
            jhalak_ptx::Swizzle::None => Swizzle::None,
            jhalak_ptx::Swizzle::Bytes32 => Swizzle::Bytes32,
            jhalak_ptx::Swizzle::Bytes64 => Swizzle::Bytes64,
            jhalak_ptx::Swizzle::Bytes128 => Swizzle::Bytes128,
        },
        fill_nan: spec.fill == OutOfBounds::Nan,
    };
    tensor.encode(context).unwrap()
}
