//! Loading PTX: the compiler's logs, its advisories, kernels and what they take.

use crate::common::fake::Fake;
use jhalak_cuda::driver::{Error, Resources};

#[test]
fn a_module_is_loaded_and_unloaded_with_its_last_user() {
    let fake = Fake::new();
    let context = fake.context();
    fake.set_text("info_log", "ptxas info    : Used 168 registers\n");
    let module = context.load_module("// ptx", 3).unwrap();
    assert_eq!(module.log(), "ptxas info    : Used 168 registers");
    let function = module.function("forward").unwrap();
    drop(module);
    let expected = [
        r#"cuModuleLoadDataEx(image="// ptx" level=3)"#,
        r#"cuModuleGetFunction(module=16 name="forward")"#,
    ];
    assert_eq!(fake.work(), expected);
    drop(function);
    assert_eq!(fake.work(), ["cuModuleUnload(module=16)"]);
}

#[test]
fn a_module_that_does_not_compile_is_an_error_with_the_compilers_log() {
    let fake = Fake::new();
    let context = fake.context();
    let log = "ptxas application ptx input, line 17; error   : Not a name of any known instruction";
    fake.set_text("error_log", log);
    fake.set("cuModuleLoadDataEx", 218);
    let error = context.load_module("addd", 4).unwrap_err();
    let name = "CUDA_ERROR_INVALID_PTX".to_owned();
    assert_eq!(error, Error::Compile { name, log: log.into() });
    assert!(error.to_string().contains("line 17; error"), "{error}");
    assert_eq!(fake.work(), [r#"cuModuleLoadDataEx(image="addd" level=4)"#]);
}

#[test]
fn a_failure_without_a_log_is_the_drivers_error() {
    let fake = Fake::new();
    let context = fake.context();
    fake.set("cuModuleLoadDataEx", 2);
    let error = context.load_module("", 4).unwrap_err();
    assert!(
        matches!(error, Error::Call { function: "cuModuleLoadDataEx", code: 2, .. }),
        "{error}"
    );
}

#[test]
fn a_serialised_module_is_refused_with_the_compilers_words_and_unloaded() {
    let advisory = "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions \
                    are serialized due to non wgmma instructions in the function 'forward'";
    for (line, refused) in [
        (advisory, true),
        ("info: (C7508) Potential Performance Loss: 'setmaxnreg' ignored", true),
        ("info: something serialized", true),
        ("ptxas info    : Used 168 registers, used 2 barriers", false),
    ] {
        let fake = Fake::new();
        let context = fake.context();
        fake.set_text("info_log", &format!("ptxas info    : 0 bytes gmem\n{line}\nmore\n"));
        let loaded = context.load_module("", 4);
        if refused {
            assert_eq!(loaded.unwrap_err(), Error::Serialised { advisory: line.into() });
            assert_eq!(fake.work()[1..], ["cuModuleUnload(module=16)"]);
        } else {
            loaded.unwrap();
        }
    }
}

#[test]
fn a_log_longer_than_its_buffer_is_cut() {
    let fake = Fake::new();
    let context = fake.context();
    fake.set_text("info_log", &"x".repeat(1 << 20));
    let module = context.load_module("", 4).unwrap();
    assert_eq!(module.log().len(), 64 << 10);
}

#[test]
fn texts_with_a_zero_byte_are_refused() {
    let fake = Fake::new();
    let context = fake.context();
    let error = context.load_module("a\0b", 4).unwrap_err();
    assert_eq!(error.to_string(), "PTX must not contain a zero byte");
    let module = context.load_module("", 4).unwrap();
    let error = module.function("a\0b").unwrap_err();
    assert_eq!(error.to_string(), "a kernel's name must not contain a zero byte");
}

#[test]
fn a_kernel_that_is_not_there_is_an_error() {
    let fake = Fake::new();
    let module = fake.context().load_module("", 4).unwrap();
    fake.set("cuModuleGetFunction", 500);
    let error = module.function("backward").unwrap_err();
    assert_eq!(error.to_string(), "cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND (in words)");
}

#[test]
fn a_kernels_resources_are_read_and_its_shared_memory_raised() {
    let fake = Fake::new();
    let module = fake.context().load_module("", 4).unwrap();
    let function = module.function("forward").unwrap();
    let expected = Resources {
        registers: 14,
        shared_bytes: 11,
        local_bytes: 13,
        max_threads: 10,
        max_dynamic_shared_bytes: 18,
    };
    assert_eq!(function.resources().unwrap(), expected);
    fake.calls();
    function.allow_shared_memory(227 << 10).unwrap();
    assert_eq!(function.blocks_per_multiprocessor(384, 1024).unwrap(), 3);
    let expected = [
        "cuFuncSetAttribute(function=32 attribute=8 value=232448)",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor(function=32 threads=384 bytes=1024)",
    ];
    assert_eq!(fake.work(), expected);
}
