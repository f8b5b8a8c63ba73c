//! Whatever is asked for, a call returns: a result or an error, never a panic.

use jhalak::{
    Attended, Attention, BackwardInputs, DType, FlashAttention, Gradient, GradientTargets,
    OutOrDelta, Tensor, TensorView, merge,
};
use proptest::prelude::*;
use proptest::sample::select;

const DTYPES: [DType; 7] =
    [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::I64, DType::Bool];

/// A tensor's dtype, shape and element pattern, mostly close to what a call can use.
#[derive(Clone, Debug)]
struct Drawn {
    dtype: DType,
    shape: Vec<usize>,
    value: f64,
}

impl Drawn {
    fn tensor(&self) -> Tensor {
        let mut tensor = Tensor::zeros(self.dtype, &self.shape).unwrap();
        if let Some(x) = tensor.as_mut_slice::<f32>() {
            x.iter_mut().enumerate().for_each(|(n, x)| *x = (self.value * (n % 7) as f64) as f32);
        } else if let Some(x) = tensor.as_mut_slice::<i32>() {
            x.iter_mut()
                .enumerate()
                .for_each(|(n, x)| *x = (n as i32).wrapping_add(self.value as i32));
        }
        tensor
    }
}

/// Now and then something other than `usual`.
fn mostly<T: Clone + std::fmt::Debug + 'static>(
    usual: T,
    other: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = T> {
    prop_oneof![24 => Just(usual), 1 => other]
}

fn drawn(dtype: DType, shape: Vec<usize>) -> impl Strategy<Value = Drawn> {
    let shape = mostly(shape, prop::collection::vec(0usize..5, 0..=4));
    let values = vec![1.0, 0.0, -3.0, 1e30, f64::NAN, f64::INFINITY];
    (mostly(dtype, select(&DTYPES)), shape, mostly(0.5, select(values)))
        .prop_map(|(dtype, shape, value)| Drawn { dtype, shape, value })
}

fn extreme_integer() -> impl Strategy<Value = i64> {
    let edges =
        vec![i64::MIN, i64::MIN + 1, -(1 << 61), -2, -1, 0, 1, 1 << 61, i64::MAX - 1, i64::MAX];
    prop_oneof![-4i64..9, select(edges), any::<i64>()]
}

fn extreme_number() -> impl Strategy<Value = f64> {
    prop_oneof![-1.0..2.0f64, any::<f64>()]
}

#[derive(Clone, Debug)]
struct Options {
    causal: bool,
    window: Option<(i64, i64)>,
    scale: Option<f64>,
    softcap: Option<f64>,
    dropout: Option<(f64, u64, u32)>,
    q_start: Option<i64>,
    k_start: Option<i64>,
    out_dtype: Option<DType>,
}

fn rarely<T: Clone + std::fmt::Debug>(
    some: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.25, some)
}

fn options() -> impl Strategy<Value = Options> {
    (
        any::<bool>(),
        rarely((extreme_integer(), extreme_integer())),
        rarely(extreme_number()),
        rarely(extreme_number()),
        rarely((extreme_number(), any::<u64>(), any::<u32>())),
        rarely(extreme_integer()),
        rarely(extreme_integer()),
        rarely(select(&DTYPES)),
    )
        .prop_map(|(causal, window, scale, softcap, dropout, q_start, k_start, out_dtype)| {
            Options { causal, window, scale, softcap, dropout, q_start, k_start, out_dtype }
        })
}

impl Options {
    fn attention(&self) -> Attention<'static> {
        let mut attention = Attention::new();
        if self.causal {
            attention = attention.causal();
        }
        if let Some((left, right)) = self.window {
            attention = attention.window(left, right);
        }
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if let Some(c) = self.softcap {
            attention = attention.softcap(c);
        }
        if let Some((p, seed, offset)) = self.dropout {
            attention = attention.dropout(p, seed, offset);
        }
        if let Some(start) = self.q_start {
            attention = attention.q_start(start);
        }
        if let Some(start) = self.k_start {
            attention = attention.k_start(start);
        }
        if let Some(dtype) = self.out_dtype {
            attention = attention.out_dtype(dtype);
        }
        attention
    }
}

/// Every tensor that a call takes, of sizes that mostly fit together.
fn tensors() -> impl Strategy<Value = ([Drawn; 12], [bool; 6])> {
    let sizes = (0usize..4, 0usize..6, 0usize..6, 0usize..3, 1usize..3, 1usize..5, 1usize..5);
    let float = select(vec![DType::F32, DType::F16, DType::BF16, DType::F64]);
    (sizes, float, any::<bool>()).prop_flat_map(|((b, sq, sk, hk, group, d, dv), dtype, packed)| {
        let hq = hk * group;
        let shaped = |s: usize, h: usize, d: usize| {
            if packed { vec![b * s, h, d] } else { vec![b, s, h, d] }
        };
        let lse = if packed { vec![hq, b * sq] } else { vec![b, hq, sq] };
        let tensors = [
            drawn(dtype, shaped(sq, hq, d)).boxed(),
            drawn(dtype, shaped(sk, hk, d)).boxed(),
            drawn(dtype, shaped(sk, hk, dv)).boxed(),
            drawn(DType::F32, vec![b, 1, sq, sk]).boxed(),
            drawn(DType::Bool, vec![1, hq, sq, sk]).boxed(),
            drawn(DType::F32, vec![hq]).boxed(),
            drawn(DType::F32, vec![hq]).boxed(),
            drawn(DType::I32, vec![b + 1]).boxed(),
            drawn(DType::I32, vec![b + 1]).boxed(),
            drawn(DType::I32, vec![b]).boxed(),
            drawn(dtype, shaped(sq, hq, dv)).boxed(),
            drawn(if dtype == DType::F64 { DType::F64 } else { DType::F32 }, lse).boxed(),
        ];
        let given = prop::array::uniform6(any::<bool>()).prop_map(move |mut given| {
            given[4] = packed;
            given
        });
        (tensors, given)
    })
}

fn with_tensors<'a>(
    mut attention: Attention<'a>,
    tensors: &'a [Tensor; 12],
    given: [bool; 6],
) -> Attention<'a> {
    let [_, _, _, bias, mask, slopes, sinks, cu_q, cu_k, used, _, _] = tensors.each_ref();
    if given[0] {
        attention = attention.bias(bias.view());
    }
    if given[1] {
        attention = attention.mask(mask.view());
    }
    if given[2] {
        attention = attention.alibi_slopes(slopes.view());
    }
    if given[3] {
        attention = attention.sinks(sinks.view());
    }
    if given[4] {
        attention = attention.cu_seqlens(cu_q.view(), cu_k.view());
    }
    if given[5] {
        attention = attention.seqused_k(used.view()).seqused_q(used.view());
    }
    attention
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_call_panics((drawn, given) in tensors(), options in options(), swap in any::<bool>()) {
        let tensors = drawn.each_ref().map(Drawn::tensor);
        let [q, k, v, .., dout, lse] = tensors.each_ref();
        let attention = with_tensors(options.attention(), &tensors, given);
        let result = attention.forward(q, k, v);
        let _ = attention.dropout_mask(q, k, v);
        let mut out = dout.clone();
        let mut written_lse = lse.clone();
        let into = attention.forward_into(q, k, v, &mut out, &mut written_lse);
        prop_assert!(result.is_ok() || into.is_err());
        let saved = result.unwrap_or_else(|_| Attended::new(dout.clone(), lse.clone()));
        let _ = attention.backward(q, k, v, &saved, dout);
        let delta_or_out =
            if swap { OutOrDelta::Delta(lse.view()) } else { OutOrDelta::Out(dout.view()) };
        let inputs = BackwardInputs {
            dout: dout.view(),
            out: delta_or_out,
            lse: saved.lse.view(),
            dlse: swap.then(|| lse.view()),
        };
        let mut targets = GradientTargets::default();
        let (mut dq, mut dbias) = (q.clone(), tensors[3].clone());
        targets.dq = Some(Gradient::Write(dq.view_mut()));
        targets.dbias = Some(Gradient::Add(dbias.view_mut()));
        let _ = attention.backward_into(q, k, v, inputs, targets);
        let _ = merge([&saved, &Attended::new(dout.clone(), lse.clone())]);
    }

    /// Strides and offsets at the ends of their types, on the views and through a call.
    #[test]
    fn no_view_panics(
        shape in prop::collection::vec(prop_oneof![0usize..5, any::<usize>()], 0..6),
        strides in prop::collection::vec(prop_oneof![-4isize..5, any::<isize>()], 0..6),
        offset in prop_oneof![0usize..80, any::<usize>()],
    ) {
        let data = [0.5f32; 64];
        let mut memory = data;
        let mut lse = [0f32; 64];
        if let Ok(view) = TensorView::strided(&data, offset, &shape, &strides) {
            prop_assume!(view.numel() < 1 << 20);
            let _ = Attention::new().forward(view, view, view);
            let out = jhalak::TensorViewMut::strided(&mut memory, offset, &shape, &strides);
            let lse = jhalak::TensorViewMut::strided(&mut lse, offset, &shape, &strides);
            if let (Ok(out), Ok(lse)) = (out, lse) {
                let _ = Attention::new().forward_into(view, view, view, out, lse);
            }
        }
    }
}
