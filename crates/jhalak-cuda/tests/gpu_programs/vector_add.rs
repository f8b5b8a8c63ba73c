//! Vectors are added, by the module of every target that this GPU can run.

use jhalak_cuda::driver::{Arguments, Launch};
use jhalak_programs::vector_add;
use jhalak_ptx::Target;

use crate::shared::{download, gpu, upload};

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn vectors_of_any_length_are_added_and_nothing_beyond_is_touched() {
    let context = gpu();
    let stream = context.stream().unwrap();
    let capability = context.device().properties().unwrap().compute_capability;
    let runs = |target: Target| match target {
        Target::Sm90a => capability == (9, 0),
        Target::Sm89 => capability >= (8, 9),
        Target::Sm80 => capability >= (8, 0),
        Target::Sm75 => true,
    };
    for target in Target::ALL.into_iter().filter(|&target| runs(target)) {
        let module = context.load_module(&vector_add::module(target).unwrap().text(), 4).unwrap();
        let function = module.function("vector_add").unwrap();
        for count in [1usize, 31, 256, 100_003] {
            let numbers = |factor: usize| -> Vec<u32> {
                (0..count).map(|i| ((i * factor % 1013) as f32 / 8.0).to_bits()).collect()
            };
            let (a, b) = (numbers(7), numbers(11));
            let (at_a, at_b) = (upload(&context, &a), upload(&context, &b));
            let sum = upload(&context, &vec![u32::MAX; count + 5]);
            let mut arguments = Arguments::new();
            arguments.pointer(at_a.address()).pointer(at_b.address()).pointer(sum.address());
            arguments.u32(count as u32);
            let launch = Launch::new([7, 1, 1], [vector_add::THREADS, 1, 1]);
            // SAFETY: the arguments are the kernel's, and the vectors hold `count` floats.
            unsafe { function.launch(&stream, &launch, &arguments).unwrap() };
            let found = download(&stream, &sum);
            for i in 0..count {
                let expected = f32::from_bits(a[i]) + f32::from_bits(b[i]);
                assert_eq!(f32::from_bits(found[i]), expected, "{target} {count} {i}");
            }
            assert_eq!(found[count..], [u32::MAX; 5], "{target} {count}");
        }
    }
}
