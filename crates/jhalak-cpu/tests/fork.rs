//! Case 138: a process that has used the pool forks, and the child computes. Alone in its binary,
//! so that no other test's thread holds a lock at the fork.

#![cfg(unix)]

mod common;

use common::case::Case;
use common::run::forward;
use common::strided::Layout;
use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::Problem;

#[test]
fn a_forked_child_starts_its_own_pool() {
    let case = Case::dense(1, 400, 400, 4, 64);
    let tensors = case.tensors();
    let attention = case.attention(&tensors);
    let problem =
        Problem::new(&attention, tensors.q.view(), tensors.k.view(), tensors.v.view()).unwrap();
    let engine = Engine::with_isa(IsaKind::selected().unwrap()).unwrap();
    let run = || forward(&engine, &problem, &Layout::default()).out.bits();
    let expected = run();
    // SAFETY: no other thread of this process holds a lock; the pool's are asleep.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // A child that hangs is ended by the alarm, and the parent sees a signal.
        // SAFETY: plain system calls; `_exit` runs no destructors of the parent's state.
        unsafe {
            libc::alarm(60);
            libc::_exit(if run() == expected { 0 } else { 1 });
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child just made.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "the child was ended by signal {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "the child computed something else");
    assert_eq!(run(), expected, "the parent still works");
}
