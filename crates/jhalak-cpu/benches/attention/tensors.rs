//! A case's tensors, and jhalak's calls on them.

use half::{bf16, f16};
use jhalak_cpu::Engine;
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Element, Forward, Gradient, GradientTargets,
    OutOrDelta, Problem, Result, Tensor,
};

use crate::cases::Case;

/// Inputs of a case, and where jhalak's results go; all are [1, S, H, D] but lse.
pub struct Tensors {
    pub case: Case,
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    pub dout: Tensor,
    pub out: Tensor,
    pub lse: Tensor,
    pub dq: Tensor,
    pub dk: Tensor,
    pub dv: Tensor,
}

impl Tensors {
    pub fn new(case: Case) -> Result<Self> {
        let Case { dtype, heads, heads_k, seqlen, head_dim, .. } = case;
        let queries = case.queries();
        let (of_q, of_k) = ([1, queries, heads, head_dim], [1, seqlen, heads_k, head_dim]);
        Ok(Tensors {
            case,
            q: random(dtype, &of_q, 1)?,
            k: random(dtype, &of_k, 2)?,
            v: random(dtype, &of_k, 3)?,
            dout: random(dtype, &of_q, 4)?,
            out: Tensor::zeros(dtype, &of_q)?,
            lse: Tensor::zeros(DType::F32, &[1, heads, queries])?,
            dq: Tensor::zeros(dtype, &of_q)?,
            dk: Tensor::zeros(dtype, &of_k)?,
            dv: Tensor::zeros(dtype, &of_k)?,
        })
    }

    pub fn forward(&mut self, engine: &Engine) -> Result<()> {
        let attention = options(self.case);
        let problem = Problem::new(&attention, self.q.view(), self.k.view(), self.v.view())?;
        engine.forward(&Forward::new(&problem, self.out.view_mut(), self.lse.view_mut())?)
    }

    /// Needs the results of [`forward`](Self::forward).
    pub fn backward(&mut self, engine: &Engine) -> Result<()> {
        let attention = options(self.case);
        let problem = Problem::new(&attention, self.q.view(), self.k.view(), self.v.view())?;
        let inputs = BackwardInputs {
            dout: self.dout.view(),
            out: OutOrDelta::Out(self.out.view()),
            lse: self.lse.view(),
            dlse: None,
        };
        let mut targets = GradientTargets::default();
        targets.dq = Some(Gradient::Write(self.dq.view_mut()));
        targets.dk = Some(Gradient::Write(self.dk.view_mut()));
        targets.dv = Some(Gradient::Write(self.dv.view_mut()));
        engine.backward(&Backward::new(&problem, inputs, targets)?)
    }
}

fn options(case: Case) -> Attention<'static> {
    if case.causal { Attention::new().causal() } else { Attention::new() }
}

/// Uniform numbers with the variance of 1, each a hash of its place: `benchmarks/peers/worker.py`
/// makes the same.
fn random(dtype: DType, shape: &[usize], seed: u32) -> Result<Tensor> {
    fn fill<T: Element>(shape: &[usize], seed: u32) -> Result<Tensor> {
        let numbers = (0..shape.iter().product::<usize>()).map(|place| {
            let mut x = place as u32 ^ seed.wrapping_mul(0x9E37_79B9);
            x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
            x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
            x ^= x >> 16;
            let unit = (x >> 8) as f32 * 2f32.powi(-23) - 1.0;
            T::from_f64(f64::from(unit * 3f32.sqrt()))
        });
        Tensor::from_vec(numbers.collect(), shape)
    }
    match dtype {
        DType::F16 => fill::<f16>(shape, seed),
        DType::BF16 => fill::<bf16>(shape, seed),
        _ => fill::<f32>(shape, seed),
    }
}
