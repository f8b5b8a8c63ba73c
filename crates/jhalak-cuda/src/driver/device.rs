//! One GPU and what it has.

use std::ffi::CStr;

use super::functions::CUdevice;
use super::{Context, Driver, Result};

/// A GPU that the driver sees. A plain value.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    driver: Driver,
    ordinal: u32,
    raw: CUdevice,
}

/// What decides how work is cut for a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// `NVIDIA H200`, say.
    pub name: String,
    /// Major and minor: (9, 0) for Hopper.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may have, once its function asks for them.
    pub shared_memory_per_block: u32,
    /// Bytes of L2 cache.
    pub l2_cache: u32,
    /// The highest clock of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// Bytes of device memory.
    pub memory: u64,
}

// CUdevice_attribute
const CLOCK_RATE: i32 = 13;
const MULTIPROCESSOR_COUNT: i32 = 16;
const L2_CACHE_SIZE: i32 = 38;
const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
const COMPUTE_CAPABILITY_MINOR: i32 = 76;
const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: i32 = 97;

impl Device {
    pub(crate) fn new(driver: Driver, ordinal: u32) -> Result<Self> {
        let mut raw = 0;
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        // SAFETY: writes one number.
        unsafe { driver.functions().cuDeviceGet(&raw mut raw, number)? };
        Ok(Device { driver, ordinal, raw })
    }

    /// The driver that sees this device.
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Its number, counted from 0.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// The context that this process shares with PyTorch and the CUDA runtime; made if need be.
    ///
    /// # Errors
    /// [`Forked`](super::Error::Forked); [`Call`](super::Error::Call), for a GPU in use by somebody
    /// else or without memory.
    pub fn primary_context(&self) -> Result<Context> {
        Context::retain(*self)
    }

    /// Asks the driver for everything in [`Properties`].
    pub fn properties(&self) -> Result<Properties> {
        let capability = [COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR];
        Ok(Properties {
            name: self.name()?,
            compute_capability: (self.attribute(capability[0])?, self.attribute(capability[1])?),
            multiprocessors: self.attribute(MULTIPROCESSOR_COUNT)?,
            shared_memory_per_block: self.attribute(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            l2_cache: self.attribute(L2_CACHE_SIZE)?,
            clock_khz: self.attribute(CLOCK_RATE)?,
            memory: self.memory()?,
        })
    }

    fn name(&self) -> Result<String> {
        let mut name = [0u8; 256];
        let functions = self.driver.functions();
        // SAFETY: writes at most 256 bytes, with a zero at the end.
        unsafe { functions.cuDeviceGetName(name.as_mut_ptr().cast(), 256, self.raw)? };
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    fn memory(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: writes one number.
        unsafe { self.driver.functions().cuDeviceTotalMem_v2(&raw mut bytes, self.raw)? };
        Ok(bytes as u64)
    }

    fn attribute(&self, attribute: i32) -> Result<u32> {
        let mut value = 0;
        let functions = self.driver.functions();
        // SAFETY: writes one number.
        unsafe { functions.cuDeviceGetAttribute(&raw mut value, attribute, self.raw)? };
        Ok(value.unsigned_abs())
    }

    pub(crate) fn raw(&self) -> CUdevice {
        self.raw
    }
}
