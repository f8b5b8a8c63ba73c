//! Finding the driver: none, one that is too old, one that is broken, and one that works.

use std::path::Path;

use crate::common::fake::Fake;
use jhalak_cuda::driver::{Driver, Error};

#[test]
fn a_machine_without_a_driver_gets_an_error_that_says_so() {
    // SAFETY: there is nothing to load.
    let error = unsafe { Driver::open(Path::new("/nowhere/libcuda.so.1")) }.unwrap_err();
    assert!(
        matches!(&error, Error::NoDriver { library, .. } if library == "/nowhere/libcuda.so.1")
    );
    let text = error.to_string();
    let start = "no NVIDIA driver: /nowhere/libcuda.so.1 could not be loaded (";
    assert!(text.starts_with(start), "{text}");
    if cfg!(target_os = "linux") {
        assert!(text.ends_with("No such file or directory)"), "{text}");
    }
}

#[test]
fn the_systems_driver_is_there_or_its_absence_is_an_error() {
    match Driver::get() {
        Ok(driver) => assert!(driver.version() >= 12000),
        Err(error @ Error::NoDriver { .. }) => {
            let text = error.to_string();
            assert!(text.contains("libcuda.so.1") || text.contains("nvcuda.dll"), "{text}");
        }
        Err(error) => assert!(matches!(error, Error::OldDriver { .. } | Error::Call { .. })),
    }
    assert_eq!(Driver::get().err(), Driver::get().err());
}

#[test]
fn a_file_that_is_no_library_is_no_driver() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    // SAFETY: it has no code to run.
    let error = unsafe { Driver::open(&path) }.unwrap_err();
    assert!(matches!(error, Error::NoDriver { .. }), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_library_without_cudas_functions_is_told_by_the_first_one_missing() {
    // SAFETY: the C library's mathematics, which does nothing when it is loaded.
    let error = unsafe { Driver::open(Path::new("libm.so.6")) }.unwrap_err();
    assert_eq!(error, Error::MissingFunction { function: "cuDriverGetVersion" });
}

#[test]
fn an_old_driver_is_refused_before_it_is_initialised() {
    let fake = Fake::new();
    fake.set("version", 11080);
    let error = fake.open().unwrap_err();
    assert_eq!(error, Error::OldDriver { version: 11080 });
    assert_eq!(
        error.to_string(),
        "the NVIDIA driver is too old: it supports CUDA 11.8, jhalak needs CUDA 12.0 (driver 525 or \
         newer)"
    );
    assert_eq!(fake.calls(), ["cuDriverGetVersion()"]);
    fake.set("version", 12000);
    assert_eq!(fake.open().unwrap().version(), 12000);
}

#[test]
fn a_driver_without_a_gpu_says_so_in_the_drivers_words() {
    let fake = Fake::new();
    fake.set("cuInit", 100);
    let error = fake.open().unwrap_err();
    let (name, message) = ("CUDA_ERROR_NO_DEVICE".to_owned(), "in words".to_owned());
    assert_eq!(error, Error::Call { function: "cuInit", code: 100, name, message });
    assert_eq!(error.to_string(), "cuInit failed: CUDA_ERROR_NO_DEVICE (in words)");
}

#[test]
fn a_code_that_the_driver_cannot_name_is_given_as_a_number() {
    for (fake, code) in [(Fake::new(), 999), (Fake::lean(), 7)] {
        fake.set("cuInit", code);
        let text = fake.open().unwrap_err().to_string();
        assert_eq!(text, format!("cuInit failed: CUDA error {code} (no description)"));
    }
}

#[test]
fn devices_are_counted_and_described() {
    let fake = Fake::new();
    let driver = fake.open().unwrap();
    assert_eq!(driver.device_count().unwrap(), 2);
    let device = driver.device(1).unwrap();
    assert_eq!(device.ordinal(), 1);
    let properties = device.properties().unwrap();
    assert_eq!(properties.name, "Fake GPU");
    assert_eq!(properties.compute_capability, (1075, 1076));
    assert_eq!(properties.multiprocessors, 1016);
    assert_eq!(properties.shared_memory_per_block, 1097);
    assert_eq!(properties.l2_cache, 1038);
    assert_eq!(properties.clock_khz, 1013);
    assert_eq!(properties.memory, 150_000_000_000);
    assert!(fake.calls().contains(&"cuDeviceGetAttribute(attribute=97 device=101)".to_owned()));
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let fake = Fake::new();
    let driver = fake.open().unwrap();
    fake.set("cuDeviceGet", 101);
    let error = driver.device(u32::MAX).unwrap_err();
    assert!(matches!(error, Error::Call { function: "cuDeviceGet", code: 101, .. }), "{error}");
}
