//! Every refusal: what is wrong is named, and nothing panics.

use half::{bf16, f16};
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Device, Error, Forward, Gradient, GradientTargets,
    Merge, OutOrDelta, Problem, Tensor, TensorView, TensorViewMut,
};
use proptest::prelude::*;

const Q: &[usize] = &[2, 3, 4, 8];
const K: &[usize] = &[2, 5, 2, 8];
const V: &[usize] = &[2, 5, 2, 6];

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(DType::F32, shape).unwrap()
}

fn refusal(attention: &Attention<'_>, q: &Tensor, k: &Tensor, v: &Tensor) -> String {
    Problem::new(attention, q.view(), k.view(), v.view()).unwrap_err().to_string()
}

/// The refusal of plain attention on zeros of these shapes.
fn shapes(q: &[usize], k: &[usize], v: &[usize]) -> String {
    refusal(&Attention::new(), &zeros(q), &zeros(k), &zeros(v))
}

/// The refusal of these options on tensors that fit.
fn options(attention: Attention<'_>) -> String {
    refusal(&attention, &zeros(Q), &zeros(K), &zeros(V))
}

/// The message names the argument, what it must be and what it was.
#[track_caller]
fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "\"{message}\" does not say \"{word}\"");
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    says(&shapes(&[3, 4, 8], K, V), &["q must", "[B, Sq, Hq, D]", "[3, 4, 8]"]);
    says(&shapes(Q, &[5, 2, 8], V), &["k must", "[B, Sk, Hk, D]", "[5, 2, 8]"]);
    says(&shapes(Q, K, &[2, 5]), &["v must", "[B, Sk, Hk, Dv]", "[2, 5]"]);
    says(&shapes(Q, &[2, 5, 2, 7], V), &["k must", "D = 8", "[2, 5, 2, 7]"]);
    says(&shapes(Q, &[3, 5, 2, 8], &[3, 5, 2, 6]), &["k must", "B = 2", "[3, 5, 2, 8]"]);
    says(&shapes(Q, K, &[2, 6, 2, 6]), &["v must", "[2, 5, 2]", "[2, 6, 2, 6]"]);
    says(&shapes(Q, K, &[2, 5, 1, 6]), &["v must", "[2, 5, 1, 6]"]);
    says(&shapes(&[2, 3, 4, 0], &[2, 5, 2, 0], V), &["q must", "at least 1"]);
    says(&shapes(Q, K, &[2, 5, 2, 0]), &["v must", "at least 1"]);
}

/// Case 105.
#[test]
fn query_heads_must_be_a_multiple_of_key_heads() {
    for (heads_q, heads_k) in [(33, 2), (3, 2), (2, 4), (1, 0)] {
        let message = shapes(&[1, 3, heads_q, 8], &[1, 5, heads_k, 8], &[1, 5, heads_k, 8]);
        says(&message, &["query heads", "multiple", &heads_q.to_string()]);
    }
}

#[test]
fn dtypes_that_do_not_fit_are_named() {
    let half = |shape| Tensor::zeros(DType::F16, shape).unwrap();
    let plain = Attention::new();
    says(&refusal(&plain, &zeros(Q), &half(K), &zeros(V)), &["k must", "f32", "f16"]);
    says(&refusal(&plain, &zeros(Q), &zeros(K), &half(V)), &["v must", "f32", "f16"]);
    let ints = Tensor::zeros(DType::I32, Q).unwrap();
    says(&refusal(&plain, &ints, &zeros(K), &zeros(V)), &["q must", "bf16", "i32"]);
    says(&options(plain.clone().out_dtype(DType::F16)), &["out_dtype", "f32", "f16"]);
    let bias = half(&[1, 1, 1, 1]);
    says(&options(plain.clone().bias(bias.view())), &["bias", "f32", "f16"]);
    let mask = zeros(&[1, 1, 1, 1]);
    says(&options(plain.mask(mask.view())), &["mask", "bool", "f32"]);
}

#[test]
fn numbers_out_of_range_are_named() {
    let a = Attention::new;
    says(&options(a().scale(f64::NAN)), &["scale", "finite", "NaN"]);
    says(&options(a().scale(1e300)), &["scale", "finite"]);
    says(&options(a().softcap(-1.0)), &["softcap", "at least 0", "-1"]);
    says(&options(a().softcap(f64::INFINITY)), &["softcap", "finite", "inf"]);
    says(&options(a().window(-2, 0)), &["window", "-1 for unbounded", "-2"]);
    says(&options(a().window(0, i64::MIN)), &["window"]);
    for p in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        says(&options(a().dropout(p, 0, 0)), &["dropout p", "from 0 to 1"]);
    }
    says(&options(a().q_start(i64::MAX)), &["q_start"]);
    says(&options(a().k_start(i64::MIN)), &["k_start"]);
}

/// Cases 65 and 64.
#[test]
fn score_shaped_tensors_must_have_the_scores_shape_or_1() {
    let wide = Tensor::zeros(DType::Bool, &[1, 1, 3, 6]).unwrap();
    says(&options(Attention::new().mask(wide.view())), &["mask", "[2, 4, 3, 5]", "[1, 1, 3, 6]"]);
    let flat = zeros(&[3, 5]);
    says(&options(Attention::new().bias(flat.view())), &["bias", "[2, 4, 3, 5]", "[3, 5]"]);
    let slopes = zeros(&[3]);
    says(&options(Attention::new().alibi_slopes(slopes.view())), &["alibi_slopes", "[4]", "[3]"]);
    says(&options(Attention::new().sinks(slopes.view())), &["sinks", "[4]", "[3]"]);
}

/// Case 50.
#[test]
fn malformed_sequence_offsets_are_named() {
    let (q, k) = (zeros(&[7, 2, 4]), zeros(&[9, 2, 4]));
    let problem = |cu_q: Tensor, cu_k: Tensor| {
        let attention = Attention::new().cu_seqlens(cu_q.view(), cu_k.view());
        Problem::new(&attention, q.view(), k.view(), k.view()).map(|p| p.batch())
    };
    let i32s = |x: &[i32]| Tensor::from_vec(x.to_vec(), &[x.len()]).unwrap();
    let i64s = |x: &[i64]| Tensor::from_vec(x.to_vec(), &[x.len()]).unwrap();
    let refused = |q, k| problem(q, k).unwrap_err().to_string();
    assert_eq!(problem(i32s(&[0, 3, 7]), i64s(&[0, 0, 9])), Ok(2));
    assert_eq!(problem(i32s(&[0, 3, 3]), i32s(&[0, 0, 0])), Ok(2));
    assert_eq!(problem(i32s(&[0]), i32s(&[0])), Ok(0));
    says(&refused(i32s(&[1, 7]), i32s(&[0, 9])), &["cu_seqlens_q", "0 in its first place", "1"]);
    says(&refused(i32s(&[0, 5, 3]), i32s(&[0, 1, 9])), &["cu_seqlens_q", "never decreases", "3"]);
    says(&refused(i32s(&[0, 7]), i32s(&[0, 10])), &["cu_seqlens_k", "at most 9", "10"]);
    says(&refused(i32s(&[0, -1]), i32s(&[0, 9])), &["cu_seqlens_q", "never decreases"]);
    says(&refused(i64s(&[0, i64::MAX]), i32s(&[0, 9])), &["cu_seqlens_q", "at most 7"]);
    says(&refused(i32s(&[0, 3, 7]), i32s(&[0, 9])), &["cu_seqlens_k", "[3]"]);
    says(&refused(zeros(&[3]), i32s(&[0, 0, 9])), &["cu_seqlens_q", "i32 or i64", "f32"]);
    says(&refused(i32s(&[]), i32s(&[0])), &["cu_seqlens_q", "[B + 1]"]);
    // Dense tensors with offsets, and lengths longer than their sequences.
    let (cu_q, cu_k) = (i32s(&[0, 3]), i32s(&[0, 5]));
    says(
        &options(Attention::new().cu_seqlens(cu_q.view(), cu_k.view())),
        &["q must", "[total_q, Hq, D]"],
    );
    let used = i32s(&[1, 6]);
    says(&options(Attention::new().seqused_k(used.view())), &["seqused_k", "from 0 to 5", "6"]);
    let used = i32s(&[-1, 0]);
    says(&options(Attention::new().seqused_q(used.view())), &["seqused_q", "from 0 to 3", "-1"]);
    says(&options(Attention::new().seqused_q(zeros(&[2]).view())), &["seqused_q", "i32 or i64"]);
    let used = i32s(&[1]);
    says(&options(Attention::new().seqused_q(used.view())), &["seqused_q", "[2]", "[1]"]);
}

#[test]
fn tensors_of_other_devices_are_named() {
    let (q, k, v) = (zeros(Q), zeros(K), zeros(V));
    // SAFETY: never read: the device is refused.
    let there = unsafe {
        TensorView::from_raw(k.view().as_ptr(), DType::F32, Device::Cuda(1), K, k.view().strides())
    };
    let error = Problem::new(&Attention::new(), q.view(), there.unwrap(), v.view()).unwrap_err();
    says(&error.to_string(), &["k must", "cpu", "cuda:1"]);
}

/// Cases 53, 54, 46 and 47: nothing to do is no error.
#[test]
fn sizes_of_zero_are_legal() {
    for (b, q, k, heads_q, heads_k) in [
        (0, 3, 5, 2, 1),
        (2, 0, 5, 2, 1),
        (2, 3, 0, 2, 1),
        (2, 3, 5, 0, 0),
        (7, 9, 7, 0, 0),
        (1, 3, 5, 0, 2),
    ] {
        let (q, k) = (zeros(&[b, q, heads_q, 7]), zeros(&[b, k, heads_k, 7]));
        let attention = Attention::new();
        let problem = Problem::new(&attention, q.view(), k.view(), k.view()).unwrap();
        assert_eq!(problem.out_shape(), q.shape());
    }
}

#[test]
fn outputs_that_do_not_fit_or_overlap_are_named() {
    let (q, k, v) = (zeros(Q), zeros(K), zeros(V));
    let attention = Attention::new();
    let problem = Problem::new(&attention, q.view(), k.view(), v.view()).unwrap();
    let refused = |out: TensorViewMut<'_>, lse: TensorViewMut<'_>| {
        Forward::new(&problem, out, lse).unwrap_err().to_string()
    };
    let (mut out, mut lse) = (zeros(&[2, 3, 4, 6]), zeros(&[2, 4, 3]));
    assert!(Forward::new(&problem, out.view_mut(), lse.view_mut()).is_ok());
    let mut wrong = zeros(&[2, 3, 4, 8]);
    says(&refused(wrong.view_mut(), lse.view_mut()), &["out must", "[2, 3, 4, 6]", "[2, 3, 4, 8]"]);
    let mut padded = zeros(&[2, 4, 128]);
    says(&refused(out.view_mut(), padded.view_mut()), &["lse must", "[2, 4, 3]", "[2, 4, 128]"]);
    let mut half = Tensor::zeros(DType::BF16, &[2, 3, 4, 6]).unwrap();
    says(&refused(half.view_mut(), lse.view_mut()), &["out must", "f32", "bf16"]);
    let mut memory = vec![0f32; 200];
    let shared = TensorViewMut::strided(&mut memory, 0, &[2, 3, 4, 6], &[72, 24, 0, 1]).unwrap();
    says(&refused(shared, lse.view_mut()), &["out must not overlap itself"]);
    let shared = TensorViewMut::strided(&mut memory, 0, &[2, 4, 3], &[4, 1, 0]).unwrap();
    says(&refused(out.view_mut(), shared), &["lse must not overlap itself"]);
    // Over an input, and over each other.
    let shape = [2, 3, 4, 6];
    let strides = zeros(&shape).view().strides().to_vec();
    let over = |ptr: *const std::ffi::c_void, shape: &[usize], strides: &[isize]| {
        // SAFETY: never written: the overlap is refused.
        unsafe { TensorViewMut::from_raw(ptr.cast_mut(), DType::F32, Device::Cpu, shape, strides) }
            .unwrap()
    };
    says(
        &refused(over(v.view().as_ptr(), &[2, 3, 4, 6], &strides), lse.view_mut()),
        &["out must not overlap v"],
    );
    says(
        &refused(out.view_mut(), over(q.view().as_ptr(), &[2, 4, 3], &[12, 3, 1])),
        &["lse must not overlap q"],
    );
    let lse_over_out = over(out.view().as_ptr(), &[2, 4, 3], &[12, 3, 1]);
    says(&refused(out.view_mut(), lse_over_out), &["lse must not overlap out"]);
}

#[test]
fn gradients_that_do_not_fit_or_overlap_are_named() {
    let (q, k, v) = (zeros(Q), zeros(K), zeros(V));
    let (out, lse) = (zeros(&[2, 3, 4, 6]), zeros(&[2, 4, 3]));
    let attention = Attention::new();
    let problem = Problem::new(&attention, q.view(), k.view(), v.view()).unwrap();
    let saved = BackwardInputs {
        dout: out.view(),
        out: OutOrDelta::Out(out.view()),
        lse: lse.view(),
        dlse: None,
    };
    let refused = |inputs: BackwardInputs<'_>, targets: GradientTargets<'_>| {
        Backward::new(&problem, inputs, targets).unwrap_err().to_string()
    };
    let none = GradientTargets::default;
    says(
        &refused(BackwardInputs { dout: lse.view(), ..saved }, none()),
        &["dout must", "[2, 3, 4, 6]"],
    );
    says(&refused(BackwardInputs { lse: out.view(), ..saved }, none()), &["lse must", "[2, 4, 3]"]);
    let delta = OutOrDelta::Delta(out.view());
    says(&refused(BackwardInputs { out: delta, ..saved }, none()), &["delta must", "[2, 4, 3]"]);
    says(&refused(BackwardInputs { dlse: Some(out.view()), ..saved }, none()), &["dlse must"]);

    let mut small = zeros(&[2, 3, 4, 7]);
    let mut targets = none();
    targets.dq = Some(Gradient::Write(small.view_mut()));
    says(&refused(saved, targets), &["dq must", "[2, 3, 4, 8]", "[2, 3, 4, 7]"]);
    let mut half = Tensor::zeros(DType::F16, K).unwrap();
    let mut targets = none();
    targets.dk = Some(Gradient::Add(half.view_mut()));
    says(&refused(saved, targets), &["dk must", "f32", "f16"]);
    let mut memory = vec![0f32; 200];
    let shared = TensorViewMut::strided(&mut memory, 0, Q, &[96, 32, 0, 1]).unwrap();
    let mut targets = none();
    targets.dq = Some(Gradient::Write(shared));
    says(&refused(saved, targets), &["dq must not overlap itself"]);
    for (name, input, shape) in
        [("dv", v.view(), V), ("dk", k.view(), K), ("dq", q.view(), Q), ("dv", out.view(), V)]
    {
        let mut targets = none();
        // SAFETY: never written: the overlap is refused.
        let over = unsafe {
            let strides = zeros(shape).view().strides().to_vec();
            let ptr = input.as_ptr().cast_mut();
            TensorViewMut::from_raw(ptr, DType::F32, Device::Cpu, shape, &strides)
        };
        let target = match name {
            "dq" => &mut targets.dq,
            "dk" => &mut targets.dk,
            _ => &mut targets.dv,
        };
        *target = Some(Gradient::Write(over.unwrap()));
        says(&refused(saved, targets), &[&format!("{name} must not overlap ")]);
    }
    let mut bias = zeros(&[1, 1, 1, 1]);
    let mut targets = none();
    targets.dbias = Some(Gradient::Write(bias.view_mut()));
    says(&refused(saved, targets), &["dbias needs the tensor"]);
    let mut sinks = zeros(&[4]);
    let mut targets = none();
    targets.dsinks = Some(Gradient::Write(sinks.view_mut()));
    says(&refused(saved, targets), &["dsinks needs the tensor"]);
}

/// dq, dk and dv inside one buffer interleave without overlapping.
#[test]
fn gradients_packed_into_one_buffer_are_accepted_and_shifted_ones_refused() {
    let x = zeros(&[2, 5, 2, 4]);
    let (out, lse) = (zeros(&[2, 5, 2, 4]), zeros(&[2, 2, 5]));
    let attention = Attention::new();
    let problem = Problem::new(&attention, x.view(), x.view(), x.view()).unwrap();
    let inputs = BackwardInputs {
        dout: out.view(),
        out: OutOrDelta::Out(out.view()),
        lse: lse.view(),
        dlse: None,
    };
    let mut memory = vec![0f32; 2 * 5 * 3 * 2 * 4 + 8];
    let base = memory.as_mut_ptr();
    let part = |offset: usize| {
        let strides = [120, 24, 4, 1];
        // SAFETY: inside the buffer; the parts do not overlap, or are refused before any use.
        let view = unsafe {
            let ptr = base.add(offset).cast();
            TensorViewMut::from_raw(ptr, DType::F32, Device::Cpu, &[2, 5, 2, 4], &strides)
        };
        Some(Gradient::Write(view.unwrap()))
    };
    let mut targets = GradientTargets::default();
    (targets.dq, targets.dk, targets.dv) = (part(0), part(8), part(16));
    assert!(Backward::new(&problem, inputs, targets).is_ok());
    let mut targets = GradientTargets::default();
    (targets.dq, targets.dk, targets.dv) = (part(0), part(7), part(16));
    let error = Backward::new(&problem, inputs, targets).unwrap_err();
    assert_eq!(error, Error::Overlap { argument: "dk", other: "dq" });
}

#[test]
fn merges_that_do_not_fit_are_named() {
    let (out, lse) = (zeros(&[2, 3, 4, 6]), zeros(&[2, 4, 3]));
    let mut target = (zeros(&[2, 3, 4, 6]), zeros(&[2, 4, 3]));
    let mut refused = |parts: &[(TensorView<'_>, TensorView<'_>)]| {
        Merge::new(parts, target.0.view_mut(), target.1.view_mut()).unwrap_err().to_string()
    };
    says(&refused(&[]), &["parts", "at least one"]);
    let other = zeros(&[2, 3, 4, 5]);
    says(&refused(&[(other.view(), lse.view())]), &["a part's out", "[2, 3, 4, 6]"]);
    says(&refused(&[(out.view(), other.view())]), &["a part's lse", "[2, 4, 3]"]);
    let half = Tensor::zeros(DType::F16, &[2, 4, 3]).unwrap();
    says(&refused(&[(out.view(), half.view())]), &["a part's lse", "f32", "f16"]);
    let elsewhere = |view: TensorView<'_>| {
        // SAFETY: never read: the device is refused.
        unsafe {
            let (shape, strides) = (view.shape(), view.strides());
            TensorView::from_raw(view.as_ptr(), DType::F32, Device::Cuda(1), shape, strides)
        }
        .unwrap()
    };
    let parts = [(out.view(), lse.view()), (elsewhere(out.view()), lse.view())];
    says(&refused(&parts), &["a part's out", "cpu", "cuda:1"]);
    let parts = [(out.view(), elsewhere(lse.view()))];
    says(&refused(&parts), &["a part's lse", "cpu", "cuda:1"]);
}

#[test]
fn a_merge_is_on_the_device_of_its_tensors() {
    let (out, lse) = (zeros(&[2, 3, 4, 6]), zeros(&[2, 4, 3]));
    let device = Device::Cuda(2);
    let input = |tensor: &Tensor| {
        let view = tensor.view();
        let (shape, strides) = (view.shape().to_vec(), view.strides().to_vec());
        // SAFETY: never read.
        unsafe { TensorView::from_raw(view.as_ptr(), DType::F32, device, &shape, &strides) }
            .unwrap()
    };
    let (mut target_out, mut target_lse) = (zeros(&[2, 3, 4, 6]), zeros(&[2, 4, 3]));
    let output = |tensor: &mut Tensor| {
        let mut view = tensor.view_mut();
        let (shape, strides) = (view.shape().to_vec(), view.strides().to_vec());
        // SAFETY: never written.
        unsafe { TensorViewMut::from_raw(view.as_mut_ptr(), DType::F32, device, &shape, &strides) }
            .unwrap()
    };
    let parts = [(input(&out), input(&lse))];
    let merge = Merge::new(&parts, output(&mut target_out), output(&mut target_lse)).unwrap();
    assert_eq!(merge.device(), device);
}

fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..4usize, 1 => 0..2000usize, 1 => any::<usize>()]
}

fn any_view(data: &'static [f32]) -> impl Strategy<Value = Option<TensorView<'static>>> {
    let stride = prop_oneof![6 => -3..9isize, 1 => any::<isize>()];
    let dims = prop::collection::vec((any_size(), stride), 0..6);
    (dims, 0..40usize, 0..4usize).prop_map(move |(dims, offset, kind)| {
        let (shape, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
        let bools: &[bool] = &[true; 64];
        let ints: &[i32] = &[1; 64];
        match kind {
            0 => TensorView::strided(bools, offset, &shape, &strides),
            1 => TensorView::strided(ints, offset, &shape, &strides),
            _ => TensorView::strided(data, offset, &shape, &strides),
        }
        .ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Any views and any options: an answer or an error, never a panic.
    #[test]
    fn no_arguments_panic(
        views in prop::collection::vec(any_view(&[0.5; 4096]), 10),
        numbers in any::<[i64; 4]>(),
        floats in any::<[f64; 3]>(),
        flags in any::<[bool; 10]>(),
    ) {
        let [Some(q), Some(k), Some(v)] = [views[0], views[1], views[2]] else { return Ok(()) };
        let mut a = Attention::new();
        if flags[0] { a = a.causal(); }
        if flags[1] { a = a.window(numbers[0], numbers[1]); }
        if flags[2] { a = a.q_start(numbers[2]).k_start(numbers[3]); }
        if flags[3] { a = a.scale(floats[0]).softcap(floats[1]); }
        if flags[4] { a = a.dropout(floats[2], 1, 2); }
        if let (true, Some(x)) = (flags[5], views[3]) { a = a.bias(x); }
        if let (true, Some(x)) = (flags[6], views[4]) { a = a.mask(x); }
        if let (true, Some(x)) = (flags[7], views[5]) { a = a.sinks(x).alibi_slopes(x); }
        if let (true, Some(x), Some(y)) = (flags[8], views[6], views[7]) { a = a.cu_seqlens(x, y); }
        if let (true, Some(x)) = (flags[9], views[8]) { a = a.seqused_q(x).seqused_k(x); }
        if let Ok(problem) = Problem::new(&a, q, k, v) {
            let _ = (problem.out_shape(), problem.lse_shape(), problem.max_seqlens());
        }
    }
}

#[test]
fn typed_slices_of_every_float_are_accepted() {
    fn check<T: jhalak_problem::Element>(x: T) {
        let data = [x; 16];
        let view = TensorView::from_slice(&data, &[1, 2, 2, 4]).unwrap();
        let attention = Attention::new();
        let problem = Problem::new(&attention, view, view, view).unwrap();
        assert_eq!(problem.dtype(), T::DTYPE);
    }
    check(1f32);
    check(1f64);
    check(f16::ONE);
    check(bf16::ONE);
}
