//! NVIDIA's assembler on the programs: no advisory, no spills, and the instructions that were meant.

use jhalak_gate::Gate;
use jhalak_programs::gallery;
use jhalak_ptx::Target;

/// The instructions of SASS that a program lives by, and how often they stand in its code. A loop's
/// body counts once; the compiler may unroll it.
fn expected(name: &str) -> &'static [(&'static str, usize)] {
    match name {
        "vector_add" => &[("LDG", 4), ("STG", 2)],
        // Five rounds each for the row's maximum and its sum.
        "row_softmax" => &[("SHFL", 10), ("STG", 1)],
        "matmul_mma" => &[("HMMA", 64), ("LDSM", 24), ("LDGSTS", 24), ("LDGDEPBAR", 3)],
        // The first stage of a tile stands apart from the others.
        "matmul_wgmma_k_major" | "matmul_wgmma_mn_major" => {
            &[("HGMMA", 8), ("LDSM", 0), ("STSM", 16), ("UTMALDG", 2), ("UTMASTG", 4)]
        }
        "matmul_wgmma_registers" => {
            &[("HGMMA", 8), ("LDSM", 8), ("STSM", 16), ("UTMALDG", 2), ("UTMASTG", 4)]
        }
        "matmul_fp8" => &[("QGMMA", 8), ("LDSM", 0), ("STSM", 16), ("UTMALDG", 2), ("UTMASTG", 4)],
        "column_sums" => &[("UBLKRED", 1), ("STG", 0), ("RED", 0)],
        _ => panic!("{name} is not known here"),
    }
}

#[test]
fn every_program_assembles_as_it_was_meant() {
    let gate = Gate::new().unwrap();
    for target in Target::ALL {
        for (name, program) in gallery(target, 132).unwrap() {
            let module = gate.assemble(&program.module.text(), target.name()).unwrap();
            module.assert_no_advisory();
            let kernel = module.kernel(program.launch.kernel);
            kernel.assert_no_spills();
            if name.starts_with("matmul_wgmma") || name == "matmul_fp8" {
                // 65536 registers among 384 threads, by eights.
                assert_eq!(kernel.registers, 168, "{name}");
            }
            let sass = module.sass().unwrap();
            let opcodes = sass.kernel(program.launch.kernel);
            for (opcode, count) in expected(name) {
                assert_eq!(opcodes.count(opcode), *count, "{name} on {target}: {opcode}");
            }
            assert_eq!(opcodes.count("LDL") + opcodes.count("STL"), 0, "{name} on {target}");
        }
    }
}
