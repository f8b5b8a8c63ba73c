//! Finding the driver, and making sure that it is one jhalak can work with.

use std::error::Error as _;
use std::path::Path;
use std::sync::OnceLock;

use libloading::Library;

use super::functions::Functions;
use super::{Device, Error, Result};

/// CUDA 12.0, which is driver 525 and PTX 8.0: the first with tensor maps and Hopper's `wgmma`.
const OLDEST: u32 = 12000;

/// NVIDIA's driver, loaded and initialised. A plain reference, free to copy; it stays loaded for the
/// life of the process.
#[derive(Clone, Copy)]
pub struct Driver {
    loaded: &'static Loaded,
}

struct Loaded {
    functions: Functions,
    version: u32,
    /// The process that initialised the driver.
    process: u32,
}

impl Driver {
    /// The system's driver. The answer is remembered, also when there is none.
    ///
    /// # Errors
    /// [`Error::NoDriver`] and [`Error::OldDriver`]; [`Error::Call`] when `cuInit` fails, for
    /// example since the machine has a driver but no GPU.
    pub fn get() -> Result<Self> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(|| Self::from_library(SYSTEM_LIBRARY, open_system_library())).clone()
    }

    /// A driver from this path, for tests with a driver that is none.
    ///
    /// # Safety
    /// Loading a library runs its code: it must be NVIDIA's driver or behave like it.
    ///
    /// # Errors
    /// As [`Driver::get`].
    pub unsafe fn open(path: &Path) -> Result<Self> {
        // SAFETY: the caller's promise.
        Self::from_library(&path.display().to_string(), unsafe { Library::new(path) })
    }

    fn from_library(name: &str, library: Result<Library, libloading::Error>) -> Result<Self> {
        let library = library.map_err(|error| {
            // The loader's words are the cause; the error itself says only that it failed.
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Error::NoDriver { library: name.into(), reason }
        })?;
        // The driver starts threads of its own: it must never be unloaded.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: it is the driver, and it stays.
        let functions = unsafe { Functions::load(library) };
        let mut version = 0;
        // SAFETY: writes one number. It may be called before cuInit.
        unsafe { functions.cuDriverGetVersion(&raw mut version)? };
        let version = version.unsigned_abs();
        if version < OLDEST {
            return Err(Error::OldDriver { version });
        }
        // SAFETY: takes no pointers.
        unsafe { functions.cuInit(0)? };
        let loaded = Loaded { functions, version, process: std::process::id() };
        Ok(Driver { loaded: Box::leak(Box::new(loaded)) })
    }

    /// The newest CUDA version that the driver supports: 1000 × major + 10 × minor.
    pub fn version(&self) -> u32 {
        self.loaded.version
    }

    /// How many GPUs this process sees.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: writes one number.
        unsafe { self.functions().cuDeviceGetCount(&raw mut count)? };
        Ok(count.unsigned_abs())
    }

    /// The GPU with this number, counted from 0.
    ///
    /// # Errors
    /// [`Error::Call`] with `CUDA_ERROR_INVALID_DEVICE` if there are fewer.
    pub fn device(&self, ordinal: u32) -> Result<Device> {
        Device::new(*self, ordinal)
    }

    pub(crate) fn functions(&self) -> &'static Functions {
        &self.loaded.functions
    }

    /// Fails in a process that was forked after the driver had been initialised.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.loaded.process == std::process::id() { Ok(()) } else { Err(Error::Forked) }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Driver").field("version", &self.version()).finish()
    }
}

#[cfg(not(windows))]
const SYSTEM_LIBRARY: &str = "libcuda.so.1";

#[cfg(not(windows))]
fn open_system_library() -> Result<Library, libloading::Error> {
    // SAFETY: NVIDIA's driver, where the operating system's loader finds it.
    unsafe { Library::new(SYSTEM_LIBRARY) }
}

#[cfg(windows)]
const SYSTEM_LIBRARY: &str = "nvcuda.dll";

/// From the system's folder only, not from the one the program was started in.
#[cfg(windows)]
fn open_system_library() -> Result<Library, libloading::Error> {
    use libloading::os::windows::{LOAD_LIBRARY_SEARCH_SYSTEM32, Library as WindowsLibrary};
    // SAFETY: NVIDIA's driver, which is installed nowhere else.
    let library =
        unsafe { WindowsLibrary::load_with_flags(SYSTEM_LIBRARY, LOAD_LIBRARY_SEARCH_SYSTEM32)? };
    Ok(library.into())
}
