//! The matrix product by warpgroups: exact on small integers, and how fast it is.

use jhalak_cuda::driver::{
    Arguments, Buffer, Context, Function, Launch, Stream, Swizzle, TensorMapType, TiledTensor,
};
use jhalak_programs::matmul_wgmma as matmul;

use crate::shared::{download, gpu, upload};

/// A small whole number for a place, as the bits of a bf16.
fn number(row: usize, column: usize, seed: usize) -> u16 {
    let mixed = (row * 7919 + column * 104_729 + seed * 31).wrapping_mul(2_654_435_761) >> 13;
    let value = (mixed % 9) as f32 - 4.0;
    (value.to_bits() >> 16) as u16
}

fn value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A bf16 matrix of whole numbers on the device.
fn matrix(context: &Context, rows: usize, columns: usize, seed: usize) -> Buffer {
    let words: Vec<u32> = (0..rows * columns / 2)
        .map(|n| {
            let (row, column) = (2 * n / columns, 2 * n % columns);
            u32::from(number(row, column, seed)) | u32::from(number(row, column + 1, seed)) << 16
        })
        .collect();
    upload(context, &words)
}

struct Product {
    function: Function,
    arguments: Arguments,
    launch: Launch,
    c: Buffer,
    _inputs: [Buffer; 2],
}

impl Product {
    /// C = A·Bᵀ of sizes that are whole tiles, C poisoned with NaN.
    fn new(context: &Context, [m, n, k]: [usize; 3]) -> Self {
        let text = matmul::module().unwrap().text();
        let module = context.load_module(&text, 4).unwrap();
        let function = module.function("matmul").unwrap();
        let shared = matmul::module().unwrap().kernel("matmul").unwrap().dynamic_shared().bytes();
        function.allow_shared_memory(shared).unwrap();
        let inputs = [matrix(context, m, k, 1), matrix(context, n, k, 2)];
        let c = context.allocate(4 * m * n).unwrap();
        let map = |buffer: &Buffer, rows: usize, tile: u32| {
            let tensor = TiledTensor {
                dtype: TensorMapType::Bf16,
                address: buffer.address(),
                dims: &[k as u64, rows as u64],
                strides: &[2 * k as u64],
                tile: &[matmul::DEPTH, tile],
                swizzle: Swizzle::Bytes128,
                fill_nan: false,
            };
            tensor.encode(context).unwrap()
        };
        let mut arguments = Arguments::new();
        arguments.tensor_map(&map(&inputs[0], m, matmul::ROWS));
        arguments.tensor_map(&map(&inputs[1], n, matmul::COLUMNS));
        arguments.pointer(c.address());
        arguments.u32(m as u32 / matmul::ROWS).u32(n as u32 / matmul::COLUMNS);
        arguments.u32(k as u32 / matmul::DEPTH).u32(n as u32);
        let blocks = context.device().properties().unwrap().multiprocessors;
        let launch = Launch::new([blocks, 1, 1], [matmul::THREADS, 1, 1]).shared_bytes(shared);
        Product { function, arguments, launch, c, _inputs: inputs }
    }

    fn run(&self, stream: &Stream) {
        // SAFETY: the arguments are the kernel's; the maps and C have the sizes that they tell.
        unsafe { self.function.launch(stream, &self.launch, &self.arguments).unwrap() };
    }
}

/// Whether this GPU has what the program needs; said where not.
fn hopper(context: &Context) -> bool {
    let capability = context.device().properties().unwrap().compute_capability;
    if capability != (9, 0) {
        println!("NOT TESTED: wgmma needs compute capability 9.0, this GPU has {capability:?}");
    }
    capability == (9, 0)
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn products_of_whole_numbers_are_exact() {
    let context = gpu();
    if !hopper(&context) {
        return;
    }
    let stream = context.stream().unwrap();
    // One tile; a ring that goes around; more tiles than blocks, in groups that are not whole.
    for [m, n, k] in [[128, 256, 64], [256, 512, 1024], [2176, 2560, 192]] {
        let product = Product::new(&context, [m, n, k]);
        // SAFETY: all of C.
        unsafe { stream.fill_words(product.c.address(), u32::MAX, m * n).unwrap() };
        product.run(&stream);
        let found = download(&stream, &product.c);
        // Every element of some rows and columns, and all elements by their sums over rows.
        for row in [0, 1, m / 2 + 3, m - 1] {
            for column in 0..n {
                let expected: f32 =
                    (0..k).map(|i| value(number(row, i, 1)) * value(number(column, i, 2))).sum();
                let at = row * n + column;
                assert_eq!(f32::from_bits(found[at]), expected, "{m} {n} {k}: ({row}, {column})");
            }
        }
        let b_sums: Vec<f64> = (0..k)
            .map(|i| (0..n).map(|column| f64::from(value(number(column, i, 2)))).sum())
            .collect();
        for row in 0..m {
            let all = &found[row * n..(row + 1) * n];
            let sum: f64 = all.iter().map(|&bits| f64::from(f32::from_bits(bits))).sum();
            let expected: f64 =
                (0..k).map(|i| f64::from(value(number(row, i, 1))) * b_sums[i]).sum();
            assert_eq!(sum, expected, "{m} {n} {k}: row {row}");
        }
    }
}

/// Prints a figure; it is compared by whoever runs it beside cuBLAS.
#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_large_product_tells_its_rate() {
    let context = gpu();
    if !hopper(&context) {
        return;
    }
    let stream = context.stream().unwrap();
    let size = 8192;
    let product = Product::new(&context, [size; 3]);
    let mut rates = Vec::new();
    for round in 0..15 {
        let (start, end) = (context.event().unwrap(), context.event().unwrap());
        start.record(&stream).unwrap();
        product.run(&stream);
        end.record(&stream).unwrap();
        end.synchronize().unwrap();
        let seconds = f64::from(start.milliseconds_until(&end).unwrap()) / 1e3;
        if round >= 5 {
            rates.push(2.0 * (size as f64).powi(3) / seconds / 1e12);
        }
    }
    rates.sort_by(f64::total_cmp);
    println!("matmul_wgmma {size}^3 bf16: median {:.0} TFLOP/s", rates[rates.len() / 2]);
    assert!(rates[0] > 0.0);
}
