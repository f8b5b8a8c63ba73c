//! A process that has used CUDA forks. Alone in its binary, so that no other test's thread holds a
//! lock at the fork.

#![cfg(unix)]

mod common;

use common::fake::Fake;
use jhalak_cuda::driver::{Error, ModuleCache};

#[test]
fn a_forked_child_is_told_that_cuda_is_lost_to_it() {
    let fake = Fake::new();
    let (context, cache) = (fake.context(), ModuleCache::new());
    let load = |context: &jhalak_cuda::driver::Context| context.load_module("", 4);
    cache.get_or_load(&context, 1, load).unwrap();
    // SAFETY: no other thread of this process holds a lock.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        let device = context.device();
        let told = [
            context.memory().err(),
            device.primary_context().err(),
            cache.get_or_load(&context, 1, load).err(),
        ];
        let all = told.iter().all(|error| *error == Some(Error::Forked));
        // A child that hangs is ended by the alarm, and the parent sees a signal.
        // SAFETY: plain system calls; `_exit` runs no destructors of the parent's state.
        unsafe {
            libc::alarm(60);
            libc::_exit(if all { 0 } else { 1 });
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child just made.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "the child was ended by signal {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "the child was told something else");
    context.memory().unwrap();
}
