//! Boxes of tensors: what is outside, strides between elements, and sums.

use half::bf16;
use jhalak_ptx::emulator::{Argument, Launch, Memory};
use jhalak_ptx::{
    AsyncMemory, B32, KernelBuilder, OutOfBounds, Region, Swizzle, TensorElement, TensorMapSpec,
};

use crate::module;

const TILE_BYTES: u32 = 1024;

/// One warp loads a box, and stores or adds it elsewhere.
fn copy(
    k: &mut KernelBuilder,
    from: [i32; 2],
    to: [i32; 2],
    write: fn(&mut KernelBuilder, jhalak_ptx::B64, &[jhalak_ptx::Source<B32>], Region),
) {
    let tile = k.static_shared("tile", TILE_BYTES, 1024);
    let barrier = k.static_shared("barrier", 8, 8);
    let [source, target] = ["source", "target"].map(|name| k.param_tensor_map(name));
    let [source, target] = [source, target].map(|map| k.tensor_map_address(map));
    let chosen = k.elect();
    k.if_(chosen, |k| {
        k.mbarrier_init(barrier, 1);
        k.fence_mbarrier_init();
        k.mbarrier_arrive_expect_tx(barrier, TILE_BYTES);
        k.tensor_load(tile, source, &from.map(Into::into), barrier, None);
        k.mbarrier_wait(barrier, 0);
        write(k, target, &to.map(Into::into), tile);
        k.bulk_commit_group();
        k.bulk_wait_group(0);
    });
}

fn run(
    [source, target]: [&TensorMapSpec; 2],
    from: [i32; 2],
    to: [i32; 2],
    write: fn(&mut KernelBuilder, jhalak_ptx::B64, &[jhalak_ptx::Source<B32>], Region),
    [values, old]: [&[bf16]; 2],
) -> Vec<f32> {
    let module = module(|k| copy(k, from, to, write));
    let mut results = Vec::new();
    for seed in 0..20 {
        let mut memory = Memory::new();
        let (from, to) = (memory.alloc(values), memory.alloc(old));
        let tensor = |spec: &TensorMapSpec, base| Argument::Tensor { spec: spec.clone(), base };
        let launch = Launch::new(&module, "kernel").seed(seed);
        let launch = launch.arg(tensor(source, from)).arg(tensor(target, to));
        launch.run(&mut memory).unwrap_or_else(|report| panic!("{report}"));
        let result: Vec<bf16> = memory.read(to, old.len()).unwrap();
        results.push(result.iter().map(|x| x.to_f32()).collect::<Vec<f32>>());
    }
    assert!(results.iter().all(|result| format!("{result:?}") == format!("{:?}", results[0])));
    results.swap_remove(0)
}

fn matrix(rows: u64, columns: u64) -> TensorMapSpec {
    TensorMapSpec::matrix(TensorElement::Bf16, [rows, columns], [16, 32], Swizzle::Bytes64)
}

fn numbers(count: usize) -> Vec<bf16> {
    (0..count).map(|i| bf16::from_f32((i % 200) as f32)).collect()
}

#[test]
fn a_box_over_the_edge_brings_zeros_and_leaves_the_rest_alone() {
    // Source 20 × 40, box at row 12, column 16: 8 rows and 24 columns are inside.
    let source = matrix(20, 40);
    let target = matrix(16, 32);
    let values = numbers(20 * 40);
    let old = vec![bf16::from_f32(-1.0); 16 * 32];
    let store: fn(&mut KernelBuilder, _, &[_], _) =
        |k, map, at, tile| k.tensor_store(map, at, tile, None);
    let result = run([&source, &target], [16, 12], [0, 0], store, [&values, &old]);
    for row in 0..16 {
        for column in 0..32 {
            let inside = row < 8 && column < 24;
            let index = (12 + row) * 40 + 16 + column;
            let expected = if inside { (index % 200) as f32 } else { 0.0 };
            assert_eq!(result[32 * row + column], expected, "{row}, {column}");
        }
    }
    // And out again at row 10, column -8: 6 rows, 24 columns arrive.
    let result = run([&source, &target], [16, 12], [-8, 10], store, [&values, &old]);
    for (index, value) in result.iter().enumerate() {
        let (row, column) = (index / 32, index % 32);
        let expected = match (row, column) {
            (10.., ..16) => ((12 + row - 10) * 40 + 16 + column + 8) % 200,
            (10.., ..24) => 0,
            _ => usize::MAX,
        };
        let expected = if expected == usize::MAX { -1.0 } else { expected as f32 };
        assert_eq!(*value, expected, "{row}, {column}");
    }
}

#[test]
fn outside_can_be_nan() {
    let mut source = matrix(20, 40);
    source.fill = OutOfBounds::Nan;
    let old = vec![bf16::ZERO; 16 * 32];
    let store: fn(&mut KernelBuilder, _, &[_], _) =
        |k, map, at, tile| k.tensor_store(map, at, tile, None);
    let values = numbers(20 * 40);
    let result = run([&source, &matrix(16, 32)], [0, 19], [0, 0], store, [&values, &old]);
    assert!(result[..32].iter().all(|x| !x.is_nan()));
    assert!(result[32..].iter().all(|x| x.is_nan()));
}

#[test]
fn a_reduction_adds_each_element() {
    let spec = matrix(16, 32);
    let (values, old) = (numbers(512), vec![bf16::from_f32(0.5); 512]);
    let add: fn(&mut KernelBuilder, _, &[_], _) = |k, map, at, tile| {
        k.fence_proxy_async(AsyncMemory::All);
        k.tensor_reduce_add(map, at, tile, None);
    };
    let result = run([&spec, &spec], [0, 0], [0, 0], add, [&values, &old]);
    for (index, sum) in result.iter().enumerate() {
        assert_eq!(*sum, bf16::from_f32((index % 200) as f32 + 0.5).to_f32());
    }
}
