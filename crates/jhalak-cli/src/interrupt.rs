//! Ctrl-C: no half-written file and no child process stays behind; exit code 130.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, exit};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// What has to go when the user interrupts. The handler takes the lock and keeps it, so that
/// nothing new can begin.
static UNFINISHED: Mutex<Unfinished> = Mutex::new(Unfinished { file: None, child: None });

struct Unfinished {
    file: Option<PathBuf>,
    child: Option<Child>,
}

fn unfinished() -> MutexGuard<'static, Unfinished> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on Ctrl-C cleans up.
pub(crate) fn catch() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        let mut unfinished = unfinished();
        if let Some(path) = unfinished.file.take() {
            let _ = fs::remove_file(path);
        }
        if let Some(mut child) = unfinished.child.take() {
            let _ = child.kill();
        }
        exit(130);
    })
    .map_err(|error| Failure::Input(format!("cannot listen for Ctrl-C: {error}")))
}

/// Makes a temporary file and hands it to `write`, which gives it its final name. The file is gone
/// if that fails or is interrupted.
pub(crate) fn with_temporary_file(
    create: impl FnOnce() -> io::Result<NamedTempFile>,
    write: impl FnOnce(NamedTempFile) -> io::Result<()>,
) -> io::Result<()> {
    let file = {
        let mut unfinished = unfinished();
        let file = create()?;
        unfinished.file = Some(file.path().to_path_buf());
        file
    };
    let result = write(file);
    unfinished().file = None;
    result
}

/// Waits for a child, from which `read` takes what it has to say; it dies with an interrupt.
pub(crate) fn with_child<T>(
    spawn: impl FnOnce() -> io::Result<Child>,
    read: impl FnOnce(Option<std::process::ChildStdout>) -> T,
) -> io::Result<(T, std::process::ExitStatus)> {
    let stdout = {
        let mut unfinished = unfinished();
        let child = unfinished.child.insert(spawn()?);
        child.stdout.take()
    };
    let said = read(stdout);
    // Its stdout is closed, so it is about to end: waiting without the lock is not needed.
    let mut unfinished = unfinished();
    let mut child = unfinished.child.take().expect("put there above, taken by the handler only");
    Ok((said, child.wait()?))
}
