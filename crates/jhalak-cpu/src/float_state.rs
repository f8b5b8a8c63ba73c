//! [`FloatState`]: every task computes under the default floating-point state.
//!
//! A caller may have told its thread to flush subnormal numbers to zero. The pool's threads do
//! not know of it, so results would depend on which thread ran a task. Each task therefore sets
//! the default state, and leaves the thread's own state as it was found.

/// Restores the thread's own state when dropped.
pub(crate) struct FloatState {
    #[cfg(target_arch = "x86_64")]
    found: u32,
}

#[cfg(target_arch = "x86_64")]
mod mxcsr {
    use std::arch::asm;

    /// All exceptions masked, round to nearest, subnormals kept: what Rust assumes.
    pub(super) const DEFAULT: u32 = 0x1F80;
    /// The six sticky exception flags, which are no part of the mode.
    pub(super) const FLAGS: u32 = 0x3F;

    pub(super) fn read() -> u32 {
        let mut state = 0u32;
        // SAFETY: stores the 4-byte MXCSR register; every x86-64 CPU has it.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack, preserves_flags)) };
        state
    }

    pub(super) fn write(state: u32) {
        // SAFETY: loads either the default or a state that was read from the register before,
        // so no reserved bit is set.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack, preserves_flags))
        };
    }
}

impl FloatState {
    /// Sets the default state for this thread until the value is dropped.
    pub(crate) fn default_for_this_task() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let found = mxcsr::read();
            if found & !mxcsr::FLAGS != mxcsr::DEFAULT {
                mxcsr::write(mxcsr::DEFAULT);
            }
            FloatState { found }
        }
        #[cfg(not(target_arch = "x86_64"))]
        FloatState {}
    }
}

impl Drop for FloatState {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if self.found & !mxcsr::FLAGS != mxcsr::DEFAULT {
            mxcsr::write(self.found);
        }
    }
}
