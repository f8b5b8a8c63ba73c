//! The driver's compiler: its log, its refusals, its advisories.

use std::time::Instant;

use jhalak_cuda::driver::Error;

use crate::shared::{BASICS, fresh, gpu};

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_module_is_compiled_and_comes_with_a_log() {
    let context = gpu();
    let ptx = fresh(BASICS);
    for round in ["first", "second"] {
        let start = Instant::now();
        let module = context.load_module(&ptx, 4).unwrap();
        println!("{round} time: {:?}, log:\n{}", start.elapsed(), module.log());
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_module_that_does_not_compile_is_an_error_with_the_line() {
    let context = gpu();
    let wrong = BASICS.replace("add.f32 %x, %x, %y;", "addd.f32 %x, %x, %y;");
    let line = 1 + wrong.lines().position(|line| line.contains("addd")).unwrap();
    let error = context.load_module(&wrong, 4).unwrap_err();
    println!("{error}");
    let Error::Compile { name, log } = error else { panic!("{error}") };
    assert!(name.contains("PTX"), "{name}");
    assert!(log.contains(&format!("line {line}")) && log.contains("addd"), "{log}");
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_kernel_that_is_not_in_the_module_is_an_error() {
    let module = gpu().load_module(BASICS, 4).unwrap();
    let error = module.function("vector_subtract").unwrap_err();
    assert!(error.to_string().contains("CUDA_ERROR_NOT_FOUND"), "{error}");
}

#[test]
#[ignore = "needs an NVIDIA GPU: make test-gpu"]
fn a_serialised_pipeline_is_refused_with_the_compilers_words() {
    let context = gpu();
    let capability = context.device().properties().unwrap().compute_capability;
    let ptx = fresh(include_str!("../../../jhalak-gate/tests/modules/serialised.ptx"));
    let error = context.load_module(&ptx, 4).unwrap_err();
    println!("{error}");
    if capability != (9, 0) {
        println!(
            "NOT TESTED: the module is for compute capability 9.0, this GPU has {capability:?}"
        );
        assert!(matches!(error, Error::Call { .. } | Error::Compile { .. }), "{error}");
        return;
    }
    let Error::Serialised { advisory } = error else { panic!("{error}") };
    assert!(advisory.contains("C7514") && advisory.contains("serialized"), "{advisory}");
    println!("from the driver's cache: {:?}", context.load_module(&ptx, 4).map(|_| "accepted"));
}
