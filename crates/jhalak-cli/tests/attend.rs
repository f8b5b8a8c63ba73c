//! `jhalak attend` on good files and bad ones.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{jhalak, names, numbers, refusal, write_npy, write_safetensors};
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/bert_tiny.safetensors");
const EXPECTED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/bert_tiny_expected.safetensors");

/// A directory with qkv.safetensors, [1, 5, 2, 4] each.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let shape: &[usize] = &[1, 5, 2, 4];
    let tensors = ["q", "k", "v"].map(|name| (name, Dtype::F32, shape, numbers(40)));
    write_safetensors(&directory.path().join("qkv.safetensors"), &tensors);
    directory
}

fn stdout(directory: &Path, arguments: &[&str]) -> String {
    let output = jhalak(directory, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_real_layer_gives_its_exact_answer() {
    let directory = directory();
    let said = stdout(
        directory.path(),
        &["attend", EXAMPLE, "-o", "out.safetensors", "--expect", EXPECTED],
    );
    assert!(said.contains("within the tolerance of 1e-5"), "{said}");
    let bytes = fs::read(directory.path().join("out.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(tensors.tensor("out").unwrap().shape(), [1, 403, 2, 64]);
    assert_eq!(tensors.tensor("lse").unwrap().shape(), [1, 2, 403]);
    // Our own output is a fine thing to compare with, too.
    stdout(
        directory.path(),
        &["attend", EXAMPLE, "--expect", "out.safetensors", "--tolerance", "0"],
    );
}

#[test]
fn another_answer_ends_with_1_and_writes_nothing() {
    let directory = directory();
    let arguments = ["attend", EXAMPLE, "--causal", "-o", "out.safetensors", "--expect", EXPECTED];
    let output = jhalak(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("above the tolerance of 1e-5"), "{stderr}");
    assert_eq!(names(directory.path()).len(), 1);
}

#[test]
fn the_output_is_an_ordinary_file() {
    let directory = directory();
    stdout(directory.path(), &["attend", "qkv.safetensors", "-o", "out.safetensors"]);
    let mode = |name| fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("out.safetensors"), mode("qkv.safetensors"));
    assert_eq!(names(directory.path()).len(), 2);
}

#[test]
fn a_link_stays_a_link_and_a_device_a_device() {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("elsewhere")).unwrap();
    fs::write(at("elsewhere/real.safetensors"), "old").unwrap();
    std::os::unix::fs::symlink("elsewhere/real.safetensors", at("link.safetensors")).unwrap();
    std::os::unix::fs::symlink("/dev/null", at("null.safetensors")).unwrap();
    stdout(directory.path(), &["attend", "qkv.safetensors", "-o", "link.safetensors"]);
    assert!(fs::symlink_metadata(at("link.safetensors")).unwrap().is_symlink());
    assert!(fs::read(at("elsewhere/real.safetensors")).unwrap().len() > 100);
    let arguments = ["attend", "qkv.safetensors", "-o", "null.safetensors"];
    assert!(refusal(directory.path(), &arguments).contains("not an ordinary file"));
}

#[test]
fn every_option_has_a_flag() {
    let directory = directory();
    stdout(
        directory.path(),
        &[
            "attend",
            "qkv.safetensors",
            "-o",
            "out.safetensors",
            "--causal",
            "--window",
            "-1,3",
            "--scale",
            "-0.5",
            "--softcap",
            "20",
            "--dropout",
            "0.25",
            "--seed",
            "7",
            "--offset",
            "3",
            "--q-start",
            "-2",
            "--k-start",
            "1",
            "--out-dtype",
            "f32",
            "--threads",
            "1",
            "--isa",
            "scalar",
        ],
    );
}

#[test]
fn optional_tensors_are_used() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let integers = |x: &[i32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let x: &[usize] = &[1, 3, 1, 4];
    let plain = || ["q", "k", "v"].map(|name| (name, Dtype::F32, x, numbers(12))).to_vec();
    write_safetensors(&at("plain.safetensors"), &plain());
    stdout(directory.path(), &["attend", "plain.safetensors", "-o", "plain_out.safetensors"]);
    let changes: [(&str, Dtype, &[usize], Vec<u8>); 6] = [
        ("bias", Dtype::F32, &[1, 1, 1, 3], numbers(3)),
        ("mask", Dtype::BOOL, &[1, 1, 1, 3], vec![1, 0, 1]),
        ("alibi_slopes", Dtype::F32, &[1], 0.5f32.to_le_bytes().to_vec()),
        ("sinks", Dtype::F32, &[1], 1f32.to_le_bytes().to_vec()),
        ("seqused_q", Dtype::I32, &[1], integers(&[2])),
        ("seqused_k", Dtype::I32, &[1], integers(&[2])),
    ];
    for change in changes {
        let mut tensors = plain();
        tensors.push(change.clone());
        write_safetensors(&at("changed.safetensors"), &tensors);
        let arguments = ["attend", "changed.safetensors", "--expect", "plain_out.safetensors"];
        assert_eq!(jhalak(directory.path(), &arguments).status.code(), Some(1), "{}", change.0);
    }
    let packed: &[usize] = &[3, 1, 4];
    let mut tensors = ["q", "k", "v"].map(|name| (name, Dtype::F32, packed, numbers(12))).to_vec();
    tensors.push(("cu_seqlens_q", Dtype::I32, &[3], integers(&[0, 1, 3])));
    write_safetensors(&at("half_packed.safetensors"), &tensors);
    let sentence =
        refusal(directory.path(), &["attend", "half_packed.safetensors", "-o", "o.safetensors"]);
    assert!(sentence.contains("cu_seqlens_q and cu_seqlens_k"), "{sentence}");
    tensors.push(("cu_seqlens_k", Dtype::I32, &[3], integers(&[0, 1, 3])));
    write_safetensors(&at("packed.safetensors"), &tensors);
    let said = stdout(directory.path(), &["attend", "packed.safetensors", "-o", "o.safetensors"]);
    assert!(said.starts_with("out f32[3, 1, 4], lse f32[1, 3]"), "{said}");
}

#[test]
fn npy_files_give_the_same_as_safetensors() {
    let directory = directory();
    for name in ["q.npy", "k.npy", "v.npy"] {
        write_npy(&directory.path().join(name), "<f4", "(1, 5, 2, 4)", &numbers(40));
    }
    stdout(directory.path(), &["attend", "q.npy", "k.npy", "v.npy", "-o", "out.safetensors"]);
    stdout(
        directory.path(),
        &["attend", "qkv.safetensors", "--expect", "out.safetensors", "--tolerance", "0"],
    );
}

#[test]
fn what_is_wrong_is_said_in_one_sentence() {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    let x: &[usize] = &[1, 5, 2, 4];
    let q = || ("q", Dtype::F32, x, numbers(40));
    write_safetensors(&at("only_q.safetensors"), &[q()]);
    write_safetensors(
        &at("wrong_shape.safetensors"),
        &[q(), ("k", Dtype::F32, &[1, 5, 2, 5], numbers(50)), ("v", Dtype::F32, x, numbers(40))],
    );
    write_safetensors(
        &at("wrong_dtype.safetensors"),
        &[q(), ("k", Dtype::U8, x, vec![0; 40]), ("v", Dtype::F32, x, numbers(40))],
    );
    write_safetensors(
        &at("five.safetensors"),
        &["q", "k", "v"].map(|name| (name, Dtype::F32, &[1, 5, 2, 2, 2][..], numbers(40))),
    );
    write_npy(&at("x.npy"), "<f4", "(1, 5, 2, 4)", &numbers(40));
    write_npy(&at("short.npy"), "<f4", "(1, 5, 2, 4)", &numbers(39));
    write_npy(&at("object.npy"), "|O", "(1, 5, 2, 4)", &numbers(40));
    fs::create_dir(at("folder")).unwrap();
    let output = ["-o", "out.safetensors"];
    let cases: [(&[&str], &str); 16] = [
        (&["missing.safetensors"], "missing.safetensors: cannot be read: No such file"),
        (&["folder"], "folder: cannot be read: Is a directory"),
        (&["only_q.safetensors"], "holds no tensor k; it holds q"),
        (&["wrong_shape.safetensors"], "k must have shape [B, Sk, Hk, D] with D = 4, as q"),
        (&["wrong_dtype.safetensors"], "tensor k has dtype U8, but jhalak reads f32"),
        (&["five.safetensors"], "takes up to 4 dimensions"),
        (&["x.npy"], "three .npy files; here is only one"),
        (&["x.npy", "x.npy"], "one .safetensors file, or three .npy files"),
        (&["x.npy", "x.npy", "qkv.safetensors"], "one .safetensors file, or three .npy files"),
        (&["x.npy", "short.npy", "x.npy"], "short.npy: must hold f32[1, 5, 2, 4]"),
        (&["x.npy", "x.npy", "object.npy"], "NumPy dtype |O, but jhalak reads"),
        (&["qkv.safetensors", "--seed", "1"], "--dropout <P>"),
        (&["qkv.safetensors", "--window", "3"], "a window is two whole numbers"),
        (&["qkv.safetensors", "--window", "-2,0"], "window must be at least 0, or -1"),
        (&["qkv.safetensors", "--dropout", "1.5"], "dropout p must be from 0 to 1, but is 1.5"),
        (&["qkv.safetensors", "--out-dtype", "f16"], "out_dtype must have dtype f32"),
    ];
    for (arguments, expected) in cases {
        let arguments = [&["attend"], arguments, &output].concat();
        let sentence = refusal(directory.path(), &arguments);
        assert!(sentence.contains(expected), "{sentence}");
    }
    let alone: [(&[&str], &str); 6] = [
        (&["attend", "qkv.safetensors"], "--out <FILE>"),
        (&["attend", "qkv.safetensors", "-o", "out.npy"], "must be named .safetensors"),
        (&["attend", "qkv.safetensors", "-o", "qkv.safetensors"], "would replace a file"),
        (&["attend", "qkv.safetensors", "-o", "no/such/out.safetensors"], "cannot be written"),
        (&["attend", "qkv.safetensors", "--expect", "only_q.safetensors"], "holds no tensor out"),
        (&["attend", "qkv.safetensors", "--expect", EXPECTED], "expected out has shape"),
    ];
    for (arguments, expected) in alone {
        let sentence = refusal(directory.path(), arguments);
        assert!(sentence.contains(expected), "{sentence}");
    }
}

#[test]
fn damaged_files_are_refused() {
    let directory = directory();
    let path = directory.path().join("bad.safetensors");
    let good = fs::read(directory.path().join("qkv.safetensors")).unwrap();
    let with_header = |header: &str| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes
    };
    let deep = "[".repeat(100_000);
    let mut damaged = vec![
        Vec::new(),
        good[..7].to_vec(),
        good[..100].to_vec(),
        good[..good.len() - 1].to_vec(),
        u64::MAX.to_le_bytes().to_vec(),
        99_999_999u64.to_le_bytes().to_vec(),
        b"not a tensor in sight, just a sentence".to_vec(),
        with_header("{}"),
        with_header(&deep),
    ];
    for entry in [
        r#"{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}"#,
        r#"{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}"#,
        r#"{"dtype":"F32","shape":[0,0,0,0],"data_offsets":[0,0]}"#,
        r#"{"dtype":"F32","shape":[],"data_offsets":[18446744073709551615,0]}"#,
    ] {
        damaged.push(with_header(&format!(r#"{{"q":{entry},"k":{entry},"v":{entry}}}"#)));
    }
    for bytes in damaged {
        fs::write(&path, &bytes).unwrap();
        refusal(directory.path(), &["attend", "bad.safetensors", "-o", "out.safetensors"]);
    }
    for length in [0, 5, 9, 64, 127] {
        write_npy(&directory.path().join("x.npy"), "<f4", "(1, 5, 2, 4)", &numbers(40));
        let bytes = fs::read(directory.path().join("x.npy")).unwrap();
        fs::write(directory.path().join("x.npy"), &bytes[..length]).unwrap();
        refusal(directory.path(), &["attend", "x.npy", "x.npy", "x.npy", "-o", "o.safetensors"]);
    }
}

#[test]
fn a_sequence_of_length_zero_is_legal() {
    let directory = tempfile::tempdir().unwrap();
    let shape: &[usize] = &[1, 0, 2, 4];
    let tensors = ["q", "k", "v"].map(|name| (name, Dtype::F32, shape, Vec::new()));
    write_safetensors(&directory.path().join("empty.safetensors"), &tensors);
    stdout(directory.path(), &["attend", "empty.safetensors", "-o", "out.safetensors"]);
}

#[test]
fn nobody_reading_stdout_is_no_reason_to_complain() {
    let directory = directory();
    for arguments in
        [&["info"][..], &["--help"], &["attend", "qkv.safetensors", "-o", "o.safetensors"]]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_jhalak"))
            .args(arguments)
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
    }
}
