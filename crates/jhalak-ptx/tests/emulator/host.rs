//! What the host does: memory that is read and written, and seeds on all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jhalak_ptx::emulator::{Fault, Memory, run_seeds};

#[test]
fn memory_can_be_written_between_launches() {
    let mut memory = Memory::new();
    let place = memory.alloc_uninitialised(16);
    assert!(matches!(memory.read::<u32>(place, 1), Err(Fault::Uninitialised { .. })));
    memory.write(place + 4, &[1.5f32, -2.0]).unwrap();
    assert_eq!(memory.read::<f32>(place + 4, 2).unwrap(), [1.5, -2.0]);
    assert!(matches!(memory.read::<u32>(place, 4), Err(Fault::Uninitialised { .. })));
    let outside = memory.write(place + 12, &[1u32, 2]);
    assert!(matches!(outside, Err(Fault::OutOfBounds { .. })));
    assert!(memory.read::<u32>(place + 12, 1).is_err(), "nothing was copied");
}

#[test]
fn a_seed_that_fails_is_named() {
    let result = run_seeds(0..100, |seed| if seed == 7 { Err("seven") } else { Ok(()) });
    assert_eq!(result, Err((7, "seven")));
    let seeds = || {
        run_seeds(0..100, |seed| {
            assert_ne!(seed, 7, "unlucky");
            Ok::<(), ()>(())
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(seeds)).expect_err("it did not panic");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(message.starts_with("seed 7: ") && message.contains("unlucky"), "{message}");
}
