//! Tensor maps: the box that arrives in shared memory is the one that was described.

use jhalak_cuda::driver::{Arguments, Launch, Swizzle, TensorMapType, TiledTensor};

use crate::shared::{download, gpu, hopper, upload};

const COLUMNS: usize = 96;
const ROWS: usize = 40;

/// The word at a place of the tensor; zero outside.
fn word(column: i32, row: i32) -> u32 {
    let inside = (0..COLUMNS as i32).contains(&column) && (0..ROWS as i32).contains(&row);
    if inside { (1 + row as u32) << 16 | column as u32 } else { 0 }
}

/// Where the 16-byte piece at this byte of the box lies: the address bits above the piece that the
/// swizzle mixes in (PTX ISA, tensor swizzling modes).
fn swizzled(byte: usize, swizzle: Swizzle) -> usize {
    let mask = swizzle.width().map_or(0, |width| width as usize / 16 - 1);
    byte ^ ((byte >> 7) & mask) << 4
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_box_arrives_swizzled_and_zero_outside_the_tensor() {
    let context = gpu();
    let Some(function) = hopper(&context, "copy_box") else { return };
    let stream = context.stream().unwrap();
    let tensor: Vec<u32> =
        (0..COLUMNS * ROWS).map(|i| word((i % COLUMNS) as i32, (i / COLUMNS) as i32)).collect();
    let tensor = upload(&context, &tensor);
    // Boxes begin at multiples of 16 bytes; elsewhere the copy is an illegal instruction.
    let places = [(0, 0), (64, 30), (-4, -3), (88, 39), (500, 0)];
    for (swizzle, width) in [
        (Swizzle::None, 64),
        (Swizzle::Bytes32, 8),
        (Swizzle::Bytes64, 16),
        (Swizzle::Bytes128, 32),
    ] {
        let height = 16;
        let map = TiledTensor {
            dtype: TensorMapType::F32,
            address: tensor.address(),
            dims: &[COLUMNS as u64, ROWS as u64],
            strides: &[4 * COLUMNS as u64],
            tile: &[width, height],
            swizzle,
            fill_nan: false,
        };
        let map = map.encode(&context).unwrap();
        for (column, row) in places {
            let out = upload(&context, &vec![0xdead_beef; (width * height) as usize]);
            let mut arguments = Arguments::new();
            arguments.tensor_map(&map).pointer(out.address()).i32(column).i32(row);
            arguments.u32(out.bytes() as u32);
            // SAFETY: the kernel's parameters are these, and out has room for the box.
            let launched =
                unsafe { function.launch(&stream, &Launch::new([1; 3], [128, 1, 1]), &arguments) };
            launched.unwrap();
            if let Err(error) = stream.synchronize() {
                panic!("{swizzle:?} box ({column}, {row}): {error}");
            }
            let found = download(&stream, &out);
            for i in 0..width as usize * height as usize {
                let (x, y) = ((i % width as usize) as i32, (i / width as usize) as i32);
                let at = swizzled(4 * i, swizzle) / 4;
                let expected = word(column + x, row + y);
                assert_eq!(found[at], expected, "{swizzle:?} box ({column}, {row}) at ({x}, {y})");
            }
        }
    }
}
