//! NVIDIA's assembler on the programs: no advisory, no spills, and the instructions that were meant.

use jhalak_gate::Gate;
use jhalak_programs::{matmul_wgmma, vector_add};
use jhalak_ptx::Target;

#[test]
fn vectors_are_added_without_spills_on_every_target() {
    let gate = Gate::new().unwrap();
    for target in Target::ALL {
        let text = vector_add::module(target).unwrap().text();
        let module = gate.assemble(&text, target.name()).unwrap();
        module.assert_no_advisory();
        module.kernel("vector_add").assert_no_spills();
    }
}

#[test]
fn the_matrix_product_is_a_pipeline_of_warpgroup_products() {
    let text = matmul_wgmma::module().unwrap().text();
    let module = Gate::new().unwrap().assemble(&text, "sm_90a").unwrap();
    module.assert_no_advisory();
    let kernel = module.kernel("matmul");
    kernel.assert_no_spills();
    // 65536 registers among 384 threads, by eights.
    assert_eq!(kernel.registers, 168, "{kernel}");
    let sass = module.sass().unwrap();
    let matmul = sass.kernel("matmul");
    assert_eq!(matmul.count("HGMMA"), 4);
    assert_eq!(matmul.count("UTMALDG"), 2);
    assert_eq!(matmul.count("LDL") + matmul.count("STL"), 0);
}
