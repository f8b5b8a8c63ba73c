//! Many seeds of one test, on all cores.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a seed failed.
enum Failure<E> {
    Error(E),
    Panic(Box<dyn Any + Send>),
}

/// Runs a test for each seed, on all cores.
///
/// # Errors
///
/// What the first seed that failed (in time) returned, with the seed.
///
/// # Panics
///
/// If a seed's test panics, with its message and the seed.
pub fn run_seeds<E: Send>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Result<(), E> + Sync,
) -> Result<(), (u64, E)> {
    let next = AtomicU64::new(seeds.start);
    let failure = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let failed = match catch_unwind(AssertUnwindSafe(|| run(seed))) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => Failure::Error(error),
                Err(panic) => Failure::Panic(panic),
            };
            next.store(seeds.end, Ordering::Relaxed);
            if let Ok(mut failure) = failure.lock() {
                failure.get_or_insert((seed, failed));
            }
            return;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    match failure.into_inner() {
        Ok(Some((seed, Failure::Error(error)))) => Err((seed, error)),
        Ok(Some((seed, Failure::Panic(panic)))) => match message(&*panic) {
            Some(message) => panic_any(format!("seed {seed}: {message}")),
            None => resume_unwind(panic),
        },
        _ => Ok(()),
    }
}

/// What a panic said, if it said it in words.
fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied())
}
