//! The modules of the GPU tests assemble, so that a GPU run is not lost to a slip of the pen.

use jhalak_gate::Gate;

#[test]
fn the_modules_of_the_gpu_tests_assemble_for_their_targets() {
    let gate = Gate::new().unwrap();
    let basics = include_str!("modules/basics.ptx");
    for target in ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"] {
        let module = gate.assemble(basics, target).unwrap();
        assert_eq!(module.kernels.len(), 4);
        module.assert_no_advisory();
    }
    let hopper = gate.assemble(include_str!("modules/hopper.ptx"), "sm_90").unwrap();
    hopper.assert_no_advisory();
    let sass = hopper.sass().unwrap();
    assert_eq!(sass.kernel("copy_box").count("UTMALDG"), 1);
}
