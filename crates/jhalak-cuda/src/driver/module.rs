//! PTX, compiled by the driver.

use std::ffi::CString;
use std::sync::Arc;

use super::functions::CUmodule;
use super::{Context, Error, Function, Result};

/// A compiled module on one device, unloaded when the last clone and its last function are dropped.
#[derive(Clone, Debug)]
pub struct Module {
    loaded: Arc<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    context: Context,
    raw: CUmodule,
    log: String,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: loaded once, and nothing refers to it any more. A failure means that the
            // context is gone, and the module with it.
            let _ = unsafe { self.context.functions().cuModuleUnload(self.raw) };
        }
    }
}

/// Bytes for each of the compiler's logs.
const LOG_BYTES: usize = 64 << 10;

// CUjit_option
const INFO_LOG_BUFFER: i32 = 3;
const INFO_LOG_BUFFER_SIZE_BYTES: i32 = 4;
const ERROR_LOG_BUFFER: i32 = 5;
const ERROR_LOG_BUFFER_SIZE_BYTES: i32 = 6;
const OPTIMIZATION_LEVEL: i32 = 7;
const LOG_VERBOSE: i32 = 12;

impl Context {
    /// Compiles PTX text for this device, which takes 0.1 to 1 s for an attention kernel. The driver
    /// keeps the result on disk, so that the next process has it at once, and without a log.
    /// `optimization_level` is 0 to 4; 4 is the compiler's usual one.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's log; [`Error::Serialised`] when the log has an
    /// advisory that the kernel was slowed down.
    pub fn load_module(&self, ptx: &str, optimization_level: u32) -> Result<Module> {
        let image = CString::new(ptx).map_err(|_| Error::ZeroByte { argument: "PTX" })?;
        let (mut info, mut errors) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
        let options = [
            (INFO_LOG_BUFFER, info.as_mut_ptr().expose_provenance()),
            (INFO_LOG_BUFFER_SIZE_BYTES, LOG_BYTES),
            (ERROR_LOG_BUFFER, errors.as_mut_ptr().expose_provenance()),
            (ERROR_LOG_BUFFER_SIZE_BYTES, LOG_BYTES),
            (OPTIMIZATION_LEVEL, optimization_level as usize),
            (LOG_VERBOSE, 1),
        ];
        let (names, mut values) = (options.map(|option| option.0), options.map(|option| option.1));
        let mut raw = 0;
        let _current = self.enter()?;
        // SAFETY: the text ends in zero, and the logs have the sizes that are given, which the
        // driver replaces by what it used. It keeps none of the pointers.
        let result = unsafe {
            self.functions().cuModuleLoadDataEx(
                &raw mut raw,
                image.as_ptr(),
                options.len() as u32,
                names.as_ptr(),
                values.as_mut_ptr(),
            )
        };
        match (result, text(&errors)) {
            (Ok(()), _) => {}
            (Err(Error::Call { name, .. }), log) if !log.is_empty() => {
                return Err(Error::Compile { name, log });
            }
            (Err(error), _) => return Err(error),
        }
        let loaded = Loaded { context: self.clone(), raw, log: text(&info) };
        match advisories(&loaded.log) {
            Some(advisory) => Err(Error::Serialised { advisory }),
            None => Ok(Module { loaded: Arc::new(loaded) }),
        }
    }
}

impl Module {
    /// The kernel with this name.
    ///
    /// # Errors
    /// [`Error::Call`] with `CUDA_ERROR_NOT_FOUND`.
    pub fn function(&self, name: &str) -> Result<Function> {
        Function::new(self.clone(), name)
    }

    /// What the compiler said, registers and all; empty where the driver had the result on disk.
    pub fn log(&self) -> &str {
        &self.loaded.log
    }

    /// The context it was loaded in.
    pub fn context(&self) -> &Context {
        &self.loaded.context
    }

    pub(crate) fn raw(&self) -> CUmodule {
        self.loaded.raw
    }
}

/// A log up to the zero that ends it.
fn text(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim_end().to_owned()
}

/// The lines of a log about a tensor-core pipeline that was serialised (C7510 to C7519), or about
/// `setmaxnreg` being ignored (C7508).
fn advisories(log: &str) -> Option<String> {
    let about = |line: &&str| line.contains("C75") || line.contains("serialized");
    let lines: Vec<_> = log.lines().filter(about).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
