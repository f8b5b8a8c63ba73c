//! The gate lets good modules through and sees what is wrong with the others.

use std::fmt::Write;

use jhalak_gate::{Error, Gate};

const TWO_KERNELS: &str = include_str!("modules/two_kernels.ptx");
const SERIALISED: &str = include_str!("modules/serialised.ptx");

/// Loads `values` numbers before it stores the first, with `registers` to hold them.
fn crowded(values: usize, registers: usize) -> String {
    let mut ptx = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry crowded(.param .u64 x)\n\
         .maxnreg {registers}\n{{\n.reg .b64 %x;\n.reg .f32 %f<{values}>;\nld.param.u64 %x, [x];\n"
    );
    for i in 0..values {
        writeln!(ptx, "ld.volatile.global.f32 %f{i}, [%x+{}];", 4 * i).unwrap();
    }
    for i in (0..values).rev() {
        writeln!(ptx, "st.volatile.global.f32 [%x+{}], %f{i};", 4 * i).unwrap();
    }
    ptx + "ret;\n}\n"
}

#[test]
fn a_good_module_passes_and_its_figures_are_read() {
    let module = Gate::new().unwrap().assemble(TWO_KERNELS, "sm_80").unwrap();
    let doubled = module.kernel("doubled");
    assert!((4..=32).contains(&doubled.registers), "{doubled}");
    assert_eq!((doubled.shared, doubled.barriers, doubled.stack), (512, 1, 0));
    doubled.assert_no_spills();
    let nothing = module.kernel("nothing");
    assert_eq!((nothing.shared, nothing.barriers), (0, 0));
    assert_eq!(module.kernels.len(), 2);
    module.assert_no_advisory();
}

#[test]
fn the_newer_assembler_is_reported_beside_the_one_that_decides() {
    let (gate, newer) = (Gate::new().unwrap(), Gate::newer().unwrap());
    let report = |gate: &Gate| gate.assemble(TWO_KERNELS, "sm_80").unwrap().to_string();
    assert!(report(&gate).starts_with("ptxas 13.0.88 for sm_80:\n  "), "{}", report(&gate));
    assert!(report(&newer).starts_with("ptxas 13.5.37 for sm_80:\n  "), "{}", report(&newer));
    assert!(report(&newer).contains("doubled: "), "{}", report(&newer));
}

#[test]
fn spills_are_counted() {
    let gate = Gate::new().unwrap();
    let module = gate.assemble(&crowded(64, 32), "sm_80").unwrap();
    let kernel = module.kernel("crowded");
    assert!(kernel.spill_stores >= 4 * 32 && kernel.spill_loads >= 4 * 32, "{kernel}");
    assert!(kernel.stack >= kernel.spill_stores, "{kernel}");
    let opcodes = module.sass().unwrap();
    let opcodes = opcodes.kernel("crowded");
    assert_eq!(4 * opcodes.count("STL"), kernel.spill_stores as usize);
    assert_eq!(4 * opcodes.count("LDL"), kernel.spill_loads as usize);

    let roomy = gate.assemble(&crowded(64, 128), "sm_80").unwrap();
    roomy.kernel("crowded").assert_no_spills();
    assert_eq!(roomy.sass().unwrap().kernel("crowded").count("LDL"), 0);
}

#[test]
#[should_panic(expected = "bytes of spill stores")]
fn a_kernel_that_spills_fails_the_assertion() {
    let module = Gate::new().unwrap().assemble(&crowded(64, 32), "sm_80").unwrap();
    module.kernel("crowded").assert_no_spills();
}

#[test]
fn a_serialised_pipeline_is_flagged() {
    for gate in [Gate::new().unwrap(), Gate::newer().unwrap()] {
        let module = gate.assemble(SERIALISED, "sm_90a").unwrap();
        assert!(module.advisories().any(|line| line.contains("(C7514)")), "{:?}", module.warnings);
        let sass = module.sass().unwrap();
        assert!(sass.kernel("serialised").count("HGMMA") > 0);
    }
}

#[test]
#[should_panic(expected = "(C7514) Potential Performance Loss")]
fn a_serialised_pipeline_fails_the_assertion() {
    Gate::new().unwrap().assemble(SERIALISED, "sm_90a").unwrap().assert_no_advisory();
}

#[test]
fn setmaxnreg_without_a_bound_on_threads_is_flagged() {
    let ptx = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\
               setmaxnreg.inc.sync.aligned.u32 232;\nret;\n}\n";
    let module = Gate::new().unwrap().assemble(ptx, "sm_90a").unwrap();
    assert!(module.advisories().any(|line| line.contains("(C7508)")), "{:?}", module.warnings);
}

#[test]
fn an_error_quotes_the_line_it_speaks_of() {
    let wrong = TWO_KERNELS.replace("add.f32 %a, %a, %b;", "addd.f32 %a, %a, %b;");
    let error = Gate::new().unwrap().assemble(&wrong, "sm_80").unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("ptxas 13.0.88 refuses the module for sm_80:\n"), "{text}");
    assert!(text.contains("module.ptx, line 21; error   : Not a name of any known"), "{text}");
    assert!(text.contains("\n    addd.f32 %a, %a, %b;"), "{text}");
}

#[test]
fn a_target_older_than_the_module_is_refused() {
    let error = Gate::new().unwrap().assemble(SERIALISED, "sm_80").unwrap_err();
    assert!(error.to_string().contains(".target"), "{error}");
}

#[test]
fn machine_code_is_counted_kernel_by_kernel() {
    let sass = Gate::new().unwrap().assemble(TWO_KERNELS, "sm_80").unwrap().sass().unwrap();
    let doubled = sass.kernel("doubled");
    let counts = ["LDG", "LDG.E", "STS", "BAR.SYNC", "LDS", "FADD", "STG", "HGMMA", "LD"];
    assert_eq!(counts.map(|opcode| doubled.count(opcode)), [1, 1, 1, 1, 1, 1, 1, 0, 0]);
    let position = |opcode| doubled.iter().position(|name| name.starts_with(opcode));
    assert!(position("STS") < position("BAR") && position("BAR") < position("LDS"));
    assert_eq!(sass.kernel("nothing").count("FADD"), 0);
    assert_eq!(sass.kernel("nothing").count("EXIT"), 1);
}

#[test]
#[should_panic(expected = r#"the module has no kernel tripled, but ["doubled", "nothing"]"#)]
fn asking_for_another_kernel_names_those_there_are() {
    let sass = Gate::new().unwrap().assemble(TWO_KERNELS, "sm_80").unwrap().sass().unwrap();
    sass.kernel("tripled");
}
