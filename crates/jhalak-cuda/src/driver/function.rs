//! A kernel of a module, and what it takes.

use std::ffi::CString;

use super::functions::CUfunction;
use super::{Error, Module, Result};

/// A kernel that can be launched. Keeps its module loaded.
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    raw: CUfunction,
}

/// What the compiled kernel takes of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread at launch.
    pub registers: u32,
    /// Bytes of static shared memory of a block.
    pub shared_bytes: u32,
    /// Bytes of local memory of a thread: its stack and what was spilled.
    pub local_bytes: u32,
    /// The most threads that a block can have.
    pub max_threads: u32,
    /// The most bytes of dynamic shared memory that a launch may ask for.
    pub max_dynamic_shared_bytes: u32,
}

// CUfunction_attribute
const MAX_THREADS_PER_BLOCK: i32 = 0;
const SHARED_SIZE_BYTES: i32 = 1;
const LOCAL_SIZE_BYTES: i32 = 3;
const NUM_REGS: i32 = 4;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;

impl Function {
    pub(crate) fn new(module: Module, name: &str) -> Result<Self> {
        let name =
            CString::new(name).map_err(|_| Error::ZeroByte { argument: "a kernel's name" })?;
        let context = module.context();
        let mut raw = 0;
        let current = context.enter()?;
        let functions = context.functions();
        // SAFETY: writes the handle; the name ends in zero.
        unsafe { functions.cuModuleGetFunction(&raw mut raw, module.raw(), name.as_ptr())? };
        drop(current);
        Ok(Function { module, raw })
    }

    /// The module it is in.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Asks the driver for everything in [`Resources`].
    pub fn resources(&self) -> Result<Resources> {
        let _current = self.module.context().enter()?;
        Ok(Resources {
            registers: self.attribute(NUM_REGS)?,
            shared_bytes: self.attribute(SHARED_SIZE_BYTES)?,
            local_bytes: self.attribute(LOCAL_SIZE_BYTES)?,
            max_threads: self.attribute(MAX_THREADS_PER_BLOCK)?,
            max_dynamic_shared_bytes: self.attribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)?,
        })
    }

    /// Allows launches with this much dynamic shared memory. Needed once for more than 48 KiB.
    ///
    /// # Errors
    /// [`Error::Call`] with `CUDA_ERROR_INVALID_VALUE` if the device has less.
    pub fn allow_shared_memory(&self, bytes: u32) -> Result<()> {
        let context = self.module.context();
        let _current = context.enter()?;
        let (attribute, bytes) = (MAX_DYNAMIC_SHARED_SIZE_BYTES, i32::try_from(bytes));
        let bytes = bytes.unwrap_or(i32::MAX);
        // SAFETY: the function is loaded in the current context.
        unsafe { context.functions().cuFuncSetAttribute(self.raw, attribute, bytes) }
    }

    /// How many blocks of this many threads and bytes of dynamic shared memory a multiprocessor
    /// runs at once.
    pub fn blocks_per_multiprocessor(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        let context = self.module.context();
        let _current = context.enter()?;
        let mut blocks = 0;
        // SAFETY: writes one number; the function is loaded in the current context.
        unsafe {
            context.functions().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.raw,
                i32::try_from(threads).unwrap_or(i32::MAX),
                shared_bytes as usize,
            )?;
        }
        Ok(blocks.unsigned_abs())
    }

    fn attribute(&self, attribute: i32) -> Result<u32> {
        let mut value = 0;
        let functions = self.module.context().functions();
        // SAFETY: writes one number; the caller has made the function's context current.
        unsafe { functions.cuFuncGetAttribute(&raw mut value, attribute, self.raw)? };
        Ok(value.unsigned_abs())
    }

    pub(crate) fn raw(&self) -> CUfunction {
        self.raw
    }
}
