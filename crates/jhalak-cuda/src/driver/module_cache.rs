//! Modules that are compiled once and used by all threads.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Context, Result};

/// Compiled kernels by device and by `K`, the class of kernel that tells what they are. `V` is what
/// a launch needs: a [`Function`](super::Function), or several.
///
/// A kernel that is missing is compiled by the first thread that asks for it. Others that ask for
/// the same one wait; those that ask for another one do not. A failure is not kept: the next thread
/// tries again.
///
/// A cache does not survive a fork, as CUDA does not. In the child [`get_or_load`] fails before it
/// waits for anything.
///
/// [`get_or_load`]: ModuleCache::get_or_load
#[derive(Debug)]
pub struct ModuleCache<K, V> {
    /// One slot for each kernel that was ever asked for. The outer lock is never held for long, an
    /// inner one while its kernel is compiled.
    slots: Mutex<HashMap<(u32, K), Slot<V>>>,
}

type Slot<V> = Arc<Mutex<Option<Arc<V>>>>;

impl<K: Hash + Eq, V> ModuleCache<K, V> {
    /// Nothing compiled yet.
    #[allow(clippy::new_without_default)] // one way to begin is enough
    pub fn new() -> Self {
        ModuleCache { slots: Mutex::default() }
    }

    /// The kernel `key` on the context's device, compiled by `load` if it is not there yet. The
    /// context is current while `load` runs. `load` must not ask the cache for the same key.
    ///
    /// # Errors
    /// Those of `load`, and [`Forked`](super::Error::Forked).
    pub fn get_or_load(
        &self,
        context: &Context,
        key: K,
        load: impl FnOnce(&Context) -> Result<V>,
    ) -> Result<Arc<V>> {
        let _current = context.enter()?;
        let ordinal = context.device().ordinal();
        let slot = Arc::clone(lock(&self.slots).entry((ordinal, key)).or_default());
        let mut kernel = lock(&slot);
        if let Some(kernel) = &*kernel {
            return Ok(Arc::clone(kernel));
        }
        Ok(Arc::clone(kernel.insert(Arc::new(load(context)?))))
    }

    /// How many kernels have been compiled; those under way are waited for.
    pub fn len(&self) -> usize {
        let slots: Vec<_> = lock(&self.slots).values().cloned().collect();
        slots.iter().filter(|slot| lock(slot).is_some()).count()
    }

    /// Whether none has been compiled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all kernels. Those in use live until their users drop them. Needed after the device
    /// was reset, which only a `cudaDeviceReset` of the caller does.
    pub fn clear(&self) {
        let slots = std::mem::take(&mut *lock(&self.slots));
        drop(slots); // unloads modules, without the lock
    }
}

/// A slot is as good as before when `load` panics, so a poisoned lock is taken as it is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
