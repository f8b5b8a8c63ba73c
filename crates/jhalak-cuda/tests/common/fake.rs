//! The fake driver, compiled and loaded. See `tests/fake_driver/lib.rs`.

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use jhalak_cuda::driver::{Context, Driver, Result};
use libloading::Library;

/// A driver of one test.
pub struct Fake {
    path: PathBuf,
    library: Library,
}

impl Fake {
    /// A driver with everything.
    pub fn new() -> Self {
        static COMPILED: OnceLock<PathBuf> = OnceLock::new();
        Self::load(COMPILED.get_or_init(|| compile("fake_driver", &[])))
    }

    /// A driver that lacks `cuTensorMapEncodeTiled`, `cuMemAllocAsync` and `cuGetErrorString`.
    pub fn lean() -> Self {
        static COMPILED: OnceLock<PathBuf> = OnceLock::new();
        Self::load(COMPILED.get_or_init(|| compile("lean_driver", &["--cfg", "lean"])))
    }

    /// A copy is another library to the loader, with its own calls and numbers.
    fn load(compiled: &Path) -> Self {
        static COPIES: AtomicU32 = AtomicU32::new(0);
        let (process, copy) = (std::process::id(), COPIES.fetch_add(1, Ordering::Relaxed));
        let path = compiled.with_extension(format!("{process}.{copy}"));
        std::fs::copy(compiled, &path).unwrap();
        // SAFETY: our own library, which does nothing when it is loaded.
        let library = unsafe { Library::new(&path) }.unwrap();
        Fake { path, library }
    }

    /// Opens it as jhalak would the real one.
    pub fn open(&self) -> Result<Driver> {
        // SAFETY: it has the functions of a driver, with their types.
        unsafe { Driver::open(&self.path) }
    }

    /// Its first device's context; the calls on the way there are dropped.
    pub fn context(&self) -> Context {
        let context = self.open().unwrap().device(0).unwrap().primary_context().unwrap();
        self.calls();
        context
    }

    /// Sets the result of a function, or what it answers.
    pub fn set(&self, name: &str, value: i64) {
        let name = CString::new(name).unwrap();
        // SAFETY: the type is the function's; the name ends in zero.
        unsafe {
            let set =
                self.library.get::<unsafe extern "C" fn(*const c_char, i64)>("fake_set_number");
            set.unwrap()(name.as_ptr(), value);
        }
    }

    /// Sets a log, or the sizes of a kernel's arguments.
    pub fn set_text(&self, name: &str, text: &str) {
        let (name, text) = (CString::new(name).unwrap(), CString::new(text).unwrap());
        type SetText = unsafe extern "C" fn(*const c_char, *const c_char);
        // SAFETY: the type is the function's; both texts end in zero.
        unsafe {
            let set = self.library.get::<SetText>("fake_set_text").unwrap();
            set(name.as_ptr(), text.as_ptr());
        }
    }

    /// The calls since the last time. Looking at the current context is not counted.
    pub fn calls(&self) -> Vec<String> {
        // SAFETY: the type is the function's, and it returns a text that ends in zero.
        let text = unsafe {
            let take = self.library.get::<extern "C" fn() -> *const c_char>("fake_take_calls");
            CStr::from_ptr(take.unwrap()())
        };
        text.to_str().unwrap().lines().map(str::to_owned).collect()
    }

    /// As [`Fake::calls`], without the pushing and popping of contexts around them.
    pub fn work(&self) -> Vec<String> {
        self.calls().into_iter().filter(|call| !call.starts_with("cuCtx")).collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Compiles the library with the compiler of the tests, into their own folder. Several processes may
/// do so at once: it appears under its name only when it is complete.
fn compile(name: &str, flags: &[&str]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let part = path.with_extension(format!("part{}", std::process::id()));
    let output = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=fake_driver"])
        .args(["--check-cfg=cfg(lean)", "-o"])
        .arg(&part)
        .args(flags)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_driver/lib.rs"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(part, &path).unwrap();
    path
}
