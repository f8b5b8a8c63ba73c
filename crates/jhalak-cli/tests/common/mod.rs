//! Running the binary, and files to run it on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};

/// The command `jhalak`, free of what the environment says.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jhalak"));
    command.args(arguments).env_remove("JHALAK_ISA");
    command
}

/// Runs `jhalak` in `directory`.
pub(crate) fn jhalak(directory: &Path, arguments: &[&str]) -> Output {
    command(arguments).current_dir(directory).output().unwrap()
}

/// Runs `jhalak` and checks that it refuses: exit code 2, one sentence, nothing on stdout, no new
/// file. Returns the sentence.
pub(crate) fn refusal(directory: &Path, arguments: &[&str]) -> String {
    let before = names(directory);
    let output = jhalak(directory, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert!(stderr.starts_with("jhalak: ") && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(names(directory), before, "{arguments:?} left a file");
    stderr
}

/// Every file of a directory.
pub(crate) fn names(directory: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    names
}

/// Bytes of f32 numbers that differ.
#[allow(dead_code, reason = "not every test makes files")]
pub(crate) fn numbers(n: usize) -> Vec<u8> {
    (0..n).flat_map(|x| ((x as f32 * 0.7).sin()).to_le_bytes()).collect()
}

/// Writes a safetensors file of (name, dtype, shape, bytes).
#[allow(dead_code, reason = "not every test makes files")]
pub(crate) fn write_safetensors(path: &Path, tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        (*name, TensorView::new(*dtype, shape.to_vec(), bytes).unwrap())
    });
    fs::write(path, serialize(views, None).unwrap()).unwrap();
}

/// Writes a .npy file as NumPy does.
#[allow(dead_code, reason = "not every test makes files")]
pub(crate) fn write_npy(path: &Path, descr: &str, shape: &str, data: &[u8]) {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    fs::write(path, bytes).unwrap();
}
