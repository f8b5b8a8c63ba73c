//! The public calls agree with each other.

mod common;

use common::{difference, tensor};
use jhalak::{
    Attended, Attention, BackwardInputs, DType, Engine, Error, FlashAttention, Gradient,
    GradientTargets, IsaKind, OutOrDelta, Tensor, TensorView, merge,
};

fn inputs() -> [Tensor; 3] {
    [tensor(1, &[2, 7, 4, 16]), tensor(2, &[2, 9, 2, 16]), tensor(3, &[2, 9, 2, 12])]
}

#[test]
fn owned_results_equal_those_written_into_the_callers_memory() {
    let [q, k, v] = inputs();
    let attention = Attention::new().causal().window(5, 0).softcap(3.0);
    let owned = attention.forward(&q, &k, &v).unwrap();
    let mut out = Tensor::zeros(DType::F32, &[2, 7, 4, 12]).unwrap();
    let mut lse = Tensor::zeros(DType::F32, &[2, 4, 7]).unwrap();
    attention.forward_into(&q, &k, &v, &mut out, &mut lse).unwrap();
    assert_eq!(owned, Attended::new(out, lse));
}

#[test]
fn views_and_tensors_are_the_same_to_a_call() {
    let [q, k, v] = inputs();
    let attention = Attention::new();
    let views = [q.view(), k.view(), v.view()];
    let [q_view, k_view, _] = views.each_ref();
    let by_view = attention.forward(q_view, k_view, views[2]).unwrap();
    assert_eq!(by_view, attention.forward(&q, &k, &v).unwrap());
}

#[test]
fn every_engine_gives_the_same_result_up_to_rounding() {
    let [q, k, v] = inputs();
    let attention = Attention::new().causal();
    let expected = attention.forward(&q, &k, &v).unwrap();
    for isa in IsaKind::available() {
        let engine = Engine::with_isa(isa).unwrap();
        let on_all = attention.on(&engine).forward(&q, &k, &v).unwrap();
        assert!(difference(&on_all.out, &expected.out) < 1e-6, "{isa}");
        let engine = engine.threads(1).unwrap();
        assert_eq!(attention.on(&engine).forward(&q, &k, &v).unwrap(), on_all, "{isa}");
    }
}

#[test]
fn keys_and_queries_cut_into_blocks_give_the_whole() {
    let x = tensor(4, &[1, 24, 2, 8]);
    let values = x.as_slice::<f32>().unwrap();
    let rows = |from: usize, to: usize| {
        TensorView::from_slice(&values[from * 16..to * 16], &[1, to - from, 2, 8]).unwrap()
    };
    let options = [
        Attention::new().causal(),
        Attention::new().window(6, 2),
        Attention::new().causal().dropout(0.3, 99, 5),
    ];
    for attention in options {
        let attention = attention.out_dtype(DType::F32);
        let whole = attention.clone().q_start(0).forward(&x, &x, &x).unwrap();
        let mut merged_rows = Vec::new();
        for (from, to) in [(0, 10), (10, 11), (11, 24)] {
            let parts: Vec<Attended> = [(0, 8), (8, 19), (19, 24)]
                .into_iter()
                .map(|(first, end)| {
                    let block = attention.clone().q_start(from as i64).k_start(first as i64);
                    block.forward(rows(from, to), rows(first, end), rows(first, end)).unwrap()
                })
                .collect();
            let merged = merge(&parts).unwrap();
            merged_rows.extend_from_slice(merged.out.as_slice::<f32>().unwrap());
        }
        let merged = Tensor::from_vec(merged_rows, &[1, 24, 2, 8]).unwrap();
        assert!(difference(&merged, &whole.out) < 2e-6, "{attention:?}");
    }
}

#[test]
fn merging_nothing_is_refused_and_one_part_is_itself() {
    assert!(matches!(merge([]), Err(Error::Value { argument: "parts", .. })));
    let [q, k, v] = inputs();
    let part = Attention::new().forward(&q, &k, &v).unwrap();
    let merged = merge([&part]).unwrap();
    assert!(difference(&merged.out, &part.out) < 1e-6);
    assert!(difference(&merged.lse, &part.lse) < 1e-6);
}

#[test]
fn the_dropout_mask_is_what_the_forward_drops() {
    let (seqlen, heads) = (5, 2);
    let q = Tensor::zeros(DType::F32, &[2, seqlen, heads, 8]).unwrap();
    // Value rows are unit vectors, so out holds the weights: ⅕ · 1/(1 − p), or 0.
    let mut v = Tensor::zeros(DType::F32, &[2, seqlen, heads, seqlen]).unwrap();
    for (n, x) in v.as_mut_slice::<f32>().unwrap().iter_mut().enumerate() {
        let (j, d) = (n / (heads * seqlen) % seqlen, n % seqlen);
        *x = f32::from(u8::from(j == d));
    }
    let attention = Attention::new().dropout(0.5, 7, 1);
    let weights = attention.forward(&q, &q, &v).unwrap().out.to_f64_vec();
    let mask = attention.dropout_mask(&q, &q, &v).unwrap();
    assert_eq!(mask.shape(), [2, heads, seqlen, seqlen]);
    let mask = mask.as_slice::<bool>().unwrap();
    for (n, &kept) in mask.iter().enumerate() {
        let [j, i, h, b] = [n, n / seqlen, n / (seqlen * seqlen), n / (seqlen * seqlen * heads)];
        let (j, i, h) = (j % seqlen, i % seqlen, h % heads);
        let weight = weights[((b * seqlen + i) * heads + h) * seqlen + j];
        assert!((weight - if kept { 0.4 } else { 0.0 }).abs() < 1e-6, "{b} {h} {i} {j}");
    }
    assert!(mask.contains(&true) && mask.contains(&false));
    let all = Attention::new().dropout_mask(&q, &q, &v).unwrap();
    assert!(all.as_slice::<bool>().unwrap().iter().all(|&kept| kept));
}

#[test]
fn the_dropout_mask_of_packed_sequences_is_false_outside_them() {
    let x = tensor(5, &[5, 1, 4]);
    let starts = [0i32, 2, 5];
    let starts = TensorView::from_slice(&starts, &[3]).unwrap();
    let attention = Attention::new().cu_seqlens(starts, starts).dropout(0.1, 3, 0);
    let mask = attention.dropout_mask(&x, &x, &x).unwrap();
    assert_eq!(mask.shape(), [2, 1, 3, 3]);
    let mask = mask.as_slice::<bool>().unwrap();
    assert!([2, 5, 6, 7, 8].iter().all(|&n| !mask[n]));
}

#[test]
fn all_gradients_equal_those_asked_for_one_by_one() {
    let [q, k, v] = inputs();
    let dout = tensor(6, &[2, 7, 4, 12]);
    let (bias, sinks) = (tensor(7, &[1, 4, 1, 9]), tensor(8, &[4]));
    let attention = Attention::new().causal().bias(bias.view()).sinks(sinks.view());
    let saved = attention.forward(&q, &k, &v).unwrap();
    let all = attention.backward(&q, &k, &v, &saved, &dout).unwrap();
    let inputs = BackwardInputs {
        dout: dout.view(),
        out: OutOrDelta::Out(saved.out.view()),
        lse: saved.lse.view(),
        dlse: None,
    };
    type Place = for<'t, 'a> fn(&'t mut GradientTargets<'a>) -> &'t mut Option<Gradient<'a>>;
    let places: [(Place, &Tensor); 5] = [
        (|t| &mut t.dq, &all.dq),
        (|t| &mut t.dk, &all.dk),
        (|t| &mut t.dv, &all.dv),
        (|t| &mut t.dbias, all.dbias.as_ref().unwrap()),
        (|t| &mut t.dsinks, all.dsinks.as_ref().unwrap()),
    ];
    for (place, expected) in places {
        let mut gradient = Tensor::zeros(DType::F32, expected.shape()).unwrap();
        let mut targets = GradientTargets::default();
        *place(&mut targets) = Some(Gradient::Write(gradient.view_mut()));
        attention.backward_into(&q, &k, &v, inputs, targets).unwrap();
        assert!(difference(&gradient, expected) < 1e-6);
        let mut targets = GradientTargets::default();
        *place(&mut targets) = Some(Gradient::Add(gradient.view_mut()));
        attention.backward_into(&q, &k, &v, inputs, targets).unwrap();
        for (twice, once) in gradient.to_f64_vec().into_iter().zip(expected.to_f64_vec()) {
            assert!((twice - 2.0 * once).abs() < 1e-5);
        }
    }
}

#[test]
fn a_refused_call_names_the_argument_and_writes_nothing() {
    let [q, k, v] = inputs();
    let mut out = Tensor::from_vec(vec![7f32; 2 * 7 * 4 * 12], &[2, 7, 4, 12]).unwrap();
    let mut lse = Tensor::from_vec(vec![7f32; 2 * 4 * 8], &[2, 4, 8]).unwrap();
    let error = Attention::new().forward_into(&q, &k, &v, &mut out, &mut lse).unwrap_err();
    assert_eq!(error.to_string(), "lse must have shape [2, 4, 7], but has [2, 4, 8]");
    assert!(out.to_f64_vec().iter().chain(&lse.to_f64_vec()).all(|&x| x == 7.0));
}

#[test]
fn a_tensor_of_a_gpu_in_a_plain_call_is_an_error_that_names_the_way() {
    let at = std::ptr::without_provenance(1 << 20);
    let strides = [16, 8, 8, 1];
    // SAFETY: the call is refused before anybody reads.
    let q = unsafe {
        TensorView::from_raw(at, DType::F16, jhalak::Device::Cuda(1), &[1, 2, 1, 8], &strides)
    }
    .unwrap();
    let error = Attention::new().forward(q, q, q).unwrap_err().to_string();
    assert_eq!(
        error,
        "q must be on cpu in this call (`on_gpu` is for a GPU's tensors), but is on cuda:1"
    );
}
