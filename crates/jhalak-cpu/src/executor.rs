//! [`Executor`]: the threads that a call runs on.

use std::sync::{Arc, Mutex, PoisonError};

use jhalak_problem::{Error, Result};
use rayon::ThreadPool;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use crate::float_state::FloatState;

/// Below this many floating-point operations, waking a pool costs more than it saves.
const SERIAL_FLOPS: f64 = 3e6;

/// Enough tasks that the last ones to end leave little undone.
pub(crate) const TASKS_PER_THREAD: usize = 16;

/// Where tasks run.
#[derive(Clone, Debug)]
pub(crate) enum Executor {
    /// The caller's rayon pool if it is in one, else the process's own.
    Shared,
    /// A pool of a chosen size; `None` is the calling thread alone.
    Own(Option<Arc<ThreadPool>>),
}

/// The process's pool, with the process that made it.
static SHARED: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

impl Executor {
    pub(crate) fn with_threads(threads: usize) -> Result<Self> {
        match threads {
            0 => Err(Error::Environment("the number of threads must be at least 1".into())),
            1 => Ok(Executor::Own(None)),
            n => Ok(Executor::Own(Some(Arc::new(start_pool(n)?)))),
        }
    }

    /// Starts a call of about `flops` operations: enters the pool once and hands `body` a
    /// [`Team`]. What is computed between tasks has the default floating-point state too.
    pub(crate) fn enter<R: Send>(
        &self,
        flops: f64,
        body: impl FnOnce(Team) -> Result<R> + Send,
    ) -> Result<R> {
        let body = |team| {
            let _state = FloatState::default_for_this_task();
            body(team)
        };
        let alone = Team { threads: 1 };
        if flops < SERIAL_FLOPS {
            return body(alone);
        }
        match self {
            Executor::Own(None) => body(alone),
            Executor::Own(Some(pool)) => pool.install(|| body(Team::of_this_pool())),
            Executor::Shared if rayon::current_thread_index().is_some() => {
                body(Team::of_this_pool())
            }
            Executor::Shared => shared_pool()?.install(|| body(Team::of_this_pool())),
        }
    }
}

/// The threads of the pool that a call has entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Team {
    threads: usize,
}

impl Team {
    fn of_this_pool() -> Self {
        Team { threads: rayon::current_num_threads() }
    }

    /// How many tasks can run at once.
    pub(crate) fn threads(self) -> usize {
        self.threads
    }

    /// How many rows, in tasks of `block`, keep all threads busy.
    pub(crate) fn rows_for_all(self, block: usize) -> usize {
        if self.threads == 1 { 1 } else { self.threads * TASKS_PER_THREAD * block }
    }

    /// Runs `task` for 0..count, in any order, each under the default floating-point state.
    pub(crate) fn run(self, count: usize, task: impl Fn(usize) + Sync) {
        let task = |n| {
            let _state = FloatState::default_for_this_task();
            task(n);
        };
        if self.threads == 1 || count == 1 {
            (0..count).for_each(task);
        } else {
            (0..count).into_par_iter().with_max_len(1).for_each(task);
        }
    }
}

/// A forked child inherits the pool's memory but none of its threads, so it starts its own.
fn shared_pool() -> Result<Arc<ThreadPool>> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    match &*shared {
        Some((owner, pool)) if *owner == process => Ok(pool.clone()),
        _ => {
            let pool = Arc::new(start_pool(0)?);
            if let Some(inherited) = shared.replace((process, pool.clone())) {
                // Dropping it would wait for threads that do not exist here.
                std::mem::forget(inherited);
            }
            Ok(pool)
        }
    }
}

fn start_pool(threads: usize) -> Result<ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|n| format!("jhalak-{n}"))
        .build()
        .map_err(|e| Error::Environment(format!("the thread pool did not start: {e}")))
}
