//! Extra memory: what a call adds to the process's peak, beyond inputs and outputs.
//!
//! Alone in its binary, and one test, so that nothing else moves the peak. Work space depends on
//! the lengths, not on what is visible, so a sliding window stands for the full call and makes
//! 65,536 positions quick.

#![cfg(target_os = "linux")]

mod common;

use common::strided::noise;
use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::{
    Attention, Backward, BackwardInputs, Forward, Gradient, GradientTargets, OutOrDelta, Problem,
    Tensor, TensorViewMut,
};

/// The largest resident size since the last reset, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// How much `body` adds to what is resident, at most.
fn growth(body: impl FnOnce()) -> usize {
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak is reset");
    let before = resident();
    body();
    peak().saturating_sub(before)
}

fn tensor(seed: u64, shape: &[usize]) -> Tensor {
    let mut t = Tensor::zeros(jhalak_problem::DType::F32, shape).unwrap();
    for (n, x) in t.as_mut_slice::<f32>().unwrap().iter_mut().enumerate() {
        *x = noise(seed, &[n % 1009]) as f32;
    }
    t
}

/// Every page is written, so that it is resident before the call.
fn output(shape: &[usize]) -> Tensor {
    let mut t = Tensor::zeros(jhalak_problem::DType::F32, shape).unwrap();
    t.as_mut_slice::<f32>().unwrap().fill(1.0);
    t
}

const MIB: usize = 1 << 20;

fn check(seqlen: usize, heads: usize, attention: &Attention<'_>) {
    let shape = [1, seqlen, heads, 64];
    let [q, k, v, dout] = [1, 2, 3, 4].map(|seed| tensor(seed, &shape));
    let [mut out, mut dq, mut dk, mut dv] = [(); 4].map(|()| output(&shape));
    let mut lse = output(&[1, heads, seqlen]);
    let problem = Problem::new(attention, q.view(), k.view(), v.view()).unwrap();
    let engine = Engine::with_isa(IsaKind::selected().unwrap()).unwrap().threads(2).unwrap();

    let call = Forward::new(&problem, out.view_mut(), lse.view_mut()).unwrap();
    let forward = growth(|| engine.forward(&call).unwrap());
    assert!(forward < 64 * MIB, "forward took {} MiB", forward / MIB);
    assert!(forward > MIB, "the measurement sees nothing: {forward} bytes");

    let inputs = BackwardInputs {
        dout: dout.view(),
        out: OutOrDelta::Out(out.view()),
        lse: lse.view(),
        dlse: None,
    };
    let write = |view| Some(Gradient::Write(view));
    let mut targets = GradientTargets::default();
    let views: [TensorViewMut<'_>; 3] = [dq.view_mut(), dk.view_mut(), dv.view_mut()];
    [targets.dq, targets.dk, targets.dv] = views.map(write);
    let call = Backward::new(&problem, inputs, targets).unwrap();
    let backward = growth(|| engine.backward(&call).unwrap());
    assert!(backward < 160 * MIB, "backward took {} MiB", backward / MIB);
    assert!(backward > MIB, "the measurement sees nothing: {backward} bytes");
    println!("S = {seqlen}: forward {} MiB, backward {} MiB", forward / MIB, backward / MIB);
}

#[test]
fn work_space_stays_small_for_long_sequences() {
    check(65_536, 4, &Attention::new().window(128, 128));
    check(8_192, 1, &Attention::new());
}
