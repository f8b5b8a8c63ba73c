//! The programs in the emulator: right, and without a report, whatever the seed.

use std::time::Instant;

use jhalak_programs::{Argument, Launch, Program, Use, gallery};
use jhalak_ptx::Target;
use jhalak_ptx::emulator::{self, Memory, run_seeds};

/// Runs and judges a program.
fn run(program: &Program, seed: u64) -> Result<(), String> {
    let Launch { buffers, arguments, .. } = &program.launch;
    let inputs = program.inputs(seed);
    let mut numbers = inputs.iter();
    let mut memory = Memory::new();
    let mut addresses = Vec::new();
    for buffer in buffers {
        let bytes = buffer.len * buffer.element.bytes() as usize;
        addresses.push(match buffer.usage {
            Use::Input => memory.alloc(&buffer.element.encode(numbers.next().unwrap())),
            Use::Output => memory.alloc_uninitialised(bytes),
            Use::Accumulator => memory.alloc(&vec![0u8; bytes]),
        });
    }
    let launch = emulator::Launch::new(&program.module, program.launch.kernel)
        .grid(program.launch.grid, 1, 1)
        .block(program.launch.block)
        .dynamic_shared(program.launch.shared_bytes)
        .seed(seed);
    let launch = arguments.iter().fold(launch, |launch, argument| match argument {
        Argument::U32(value) => launch.arg(*value),
        Argument::Address(buffer) => launch.arg(addresses[*buffer]),
        Argument::TensorMap(buffer, spec) => {
            launch.arg(emulator::Argument::Tensor { spec: spec.clone(), base: addresses[*buffer] })
        }
    });
    launch.run(&mut memory).map_err(|report| report.to_string())?;
    let (place, output) = program.output();
    let bytes: Vec<u8> = memory
        .read(addresses[place], output.len * output.element.bytes() as usize)
        .map_err(|report| report.to_string())?;
    program.judge(&inputs, &output.element.decode(&bytes))
}

#[test]
fn every_program_is_right_and_without_a_report_over_100_seeds() {
    let start = Instant::now();
    let programs = gallery(Target::Sm90a, 2).unwrap();
    let lines: usize =
        programs.iter().map(|(_, program)| program.module.text().lines().count()).sum();
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    println!("all programs, {lines} lines of PTX, written in {milliseconds:.1} ms");
    for (name, program) in programs {
        let start = Instant::now();
        if let Err((seed, error)) = run_seeds(0..100, |seed| run(&program, seed)) {
            panic!("{name}, seed {seed}: {error}");
        }
        println!("{name}: {:.1} ms a seed", start.elapsed().as_secs_f64() * 10.0);
    }
}
