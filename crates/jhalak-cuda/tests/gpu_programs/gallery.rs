//! Every program of the gallery that this GPU can run: right, to the last bit where
//! arithmetic is exact, as in the emulator.

use jhalak_programs::gallery;
use jhalak_ptx::Target;

use crate::device::OnDevice;
use crate::shared::gpu;

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn every_program_is_right_for_every_target_that_this_gpu_can_run() {
    let context = gpu();
    let stream = context.stream().unwrap();
    let properties = context.device().properties().unwrap();
    let capability = properties.compute_capability;
    let runs = |target: Target| match target {
        Target::Sm90a => capability == (9, 0),
        Target::Sm89 => capability >= (8, 9),
        Target::Sm80 => capability >= (8, 0),
        Target::Sm75 => true,
    };
    for target in Target::ALL {
        if !runs(target) {
            println!("NOT TESTED: {target} is not for compute capability {capability:?}");
            continue;
        }
        for (name, program) in gallery(target, properties.multiprocessors).unwrap() {
            for seed in 0..3 {
                let inputs = program.inputs(seed);
                let placed = OnDevice::new(&context, &program, &inputs);
                placed.run(&stream);
                let found = placed.output(&stream);
                if let Err(error) = program.judge(&inputs, &found) {
                    panic!("{name} on {target}, seed {seed}: {error}");
                }
            }
            println!("{name} on {target}: right");
        }
    }
}
