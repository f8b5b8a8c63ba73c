//! [`FlashAttention`]: running the options, forward and backward.

use jhalak_cpu::Engine;
use jhalak_problem::{
    Attention, Backward, BackwardInputs, Device, Error, Forward, GradientTargets, OutOrDelta,
    Problem, Result, Tensor,
};

use crate::dropout;
use crate::gpu::OnGpu;
use crate::results::{Attended, Gradients};
use crate::views::{IntoView, IntoViewMut};

/// Runs [`Attention`].
///
/// Shapes: q is [B, Sq, Hq, D], k [B, Sk, Hk, D], v [B, Sk, Hk, Dv], all f32, f16, bf16 or f64.
/// Hq is a multiple of Hk: query head h reads key head h / (Hq / Hk). With
/// [`cu_seqlens`](Attention::cu_seqlens) they are [total_q, Hq, D], [total_k, Hk, D] and
/// [total_k, Hk, Dv]. Everything may have any strides.
///
/// Each call checks its arguments first; a refused call has written nothing. The plain calls run
/// on [`Engine::new`]; [`on`](Self::on) chooses another.
///
/// Implemented for [`Attention`] and [`On`], and for nothing else.
pub trait FlashAttention: sealed::Call {
    /// Computes attention: out [B, Sq, Hq, Dv], in the dtype of q or in
    /// [`out_dtype`](Attention::out_dtype), and lse [B, Hq, Sq], the natural logarithm of each
    /// row's sum of exponentials. Packed: [total_q, Hq, Dv] and [Hq, total_q].
    ///
    /// ```
    /// use jhalak::{Attention, FlashAttention, Tensor};
    ///
    /// let q = Tensor::from_vec(vec![0.5f32; 2 * 3 * 4 * 8], &[2, 3, 4, 8])?;
    /// let kv = Tensor::from_vec(vec![1.5f32; 2 * 5 * 2 * 8], &[2, 5, 2, 8])?;
    /// let attended = Attention::new().forward(&q, &kv, &kv)?;
    /// assert_eq!(attended.out.shape(), [2, 3, 4, 8]);
    /// assert_eq!(attended.lse.shape(), [2, 4, 3]);
    /// # Ok::<(), jhalak::Error>(())
    /// ```
    ///
    /// # Errors
    /// An [`Error`](crate::Error) that names the argument, what it must be, and what it was.
    fn forward<'t>(
        &self,
        q: impl IntoView<'t>,
        k: impl IntoView<'t>,
        v: impl IntoView<'t>,
    ) -> Result<Attended> {
        let problem = Problem::new(self.options(), q.into_view()?, k.into_view()?, v.into_view()?)?;
        check_host(&problem)?;
        let mut out = Tensor::zeros(problem.out_dtype(), &problem.out_shape())?;
        let mut lse = Tensor::zeros(problem.lse_dtype(), &problem.lse_shape())?;
        self.engine()?.forward(&Forward::new(&problem, out.view_mut(), lse.view_mut())?)?;
        Ok(Attended { out, lse })
    }

    /// As [`forward`](Self::forward), into the caller's memory, with any strides. out has the
    /// dtype of q or [`out_dtype`](Attention::out_dtype); lse is f32, f64 for f64 inputs.
    ///
    /// # Errors
    /// As [`forward`](Self::forward); and an output that overlaps itself or another tensor.
    fn forward_into<'t>(
        &self,
        q: impl IntoView<'t>,
        k: impl IntoView<'t>,
        v: impl IntoView<'t>,
        out: impl IntoViewMut<'t>,
        lse: impl IntoViewMut<'t>,
    ) -> Result<()> {
        let problem = Problem::new(self.options(), q.into_view()?, k.into_view()?, v.into_view()?)?;
        check_host(&problem)?;
        let (out, lse) = (out.into_view_mut()?, lse.into_view_mut()?);
        self.engine()?.forward(&Forward::new(&problem, out, lse)?)
    }

    /// Computes all gradients, given that of out: `dout` is shaped as out, f32 or the dtype of q.
    /// `saved` is what [`forward`](Self::forward) returned for the same options and inputs.
    ///
    /// The scores are computed again, tile by tile, so the backward too needs memory only in
    /// proportion to the sequence length.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn backward<'t>(
        &self,
        q: impl IntoView<'t>,
        k: impl IntoView<'t>,
        v: impl IntoView<'t>,
        saved: &Attended,
        dout: impl IntoView<'t>,
    ) -> Result<Gradients> {
        let (q, k, v) = (q.into_view()?, k.into_view()?, v.into_view()?);
        let problem = Problem::new(self.options(), q, k, v)?;
        check_host(&problem)?;
        let inputs = BackwardInputs {
            dout: dout.into_view()?,
            out: OutOrDelta::Out(saved.out.view()),
            lse: saved.lse.view(),
            dlse: None,
        };
        let mut gradients = Gradients::zeros(&problem, [&q, &k, &v])?;
        self.engine()?.backward(&Backward::new(&problem, inputs, gradients.targets())?)?;
        Ok(gradients)
    }

    /// Computes only the gradients that `targets` asks for, into the caller's memory: replacing
    /// what is there, or added to it in f32. `inputs` can give delta in place of out, and the
    /// gradient of lse.
    ///
    /// ```
    /// use jhalak::{
    ///     Attention, BackwardInputs, FlashAttention, Gradient, GradientTargets, OutOrDelta, Tensor,
    /// };
    ///
    /// let q = Tensor::from_vec(vec![0.5f32; 16], &[1, 2, 1, 8])?;
    /// let attention = Attention::new().causal();
    /// let saved = attention.forward(&q, &q, &q)?;
    /// let mut dv_sum = Tensor::from_vec(vec![1.0f32; 16], &[1, 2, 1, 8])?;
    /// let inputs = BackwardInputs {
    ///     dout: q.view(),
    ///     out: OutOrDelta::Out(saved.out.view()),
    ///     lse: saved.lse.view(),
    ///     dlse: None,
    /// };
    /// let mut targets = GradientTargets::default();
    /// targets.dv = Some(Gradient::Add(dv_sum.view_mut()));
    /// attention.backward_into(&q, &q, &q, inputs, targets)?;
    /// // Key 0 gets 1 from query 0 and ½ from query 1, each of dout = ½; 1 was there before.
    /// assert_eq!(dv_sum.to_f64_vec()[0], 1.75);
    /// # Ok::<(), jhalak::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`forward`](Self::forward); a gradient of a tensor that the options lack; an output
    /// that overlaps itself or another tensor.
    fn backward_into<'t>(
        &self,
        q: impl IntoView<'t>,
        k: impl IntoView<'t>,
        v: impl IntoView<'t>,
        inputs: BackwardInputs<'_>,
        targets: GradientTargets<'_>,
    ) -> Result<()> {
        let problem = Problem::new(self.options(), q.into_view()?, k.into_view()?, v.into_view()?)?;
        check_host(&problem)?;
        self.engine()?.backward(&Backward::new(&problem, inputs, targets)?)
    }

    /// The weights that dropout keeps, as bool [B, Hq, Sq, Sk]; packed: [B, Hq, the longest Sq,
    /// the longest Sk], false outside a sequence. All true without dropout.
    ///
    /// The same mask is drawn on every device, however the work is cut. This materialises Sq · Sk
    /// elements: it is for tests and for comparing with other implementations.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn dropout_mask<'t>(
        &self,
        q: impl IntoView<'t>,
        k: impl IntoView<'t>,
        v: impl IntoView<'t>,
    ) -> Result<Tensor> {
        let problem = Problem::new(self.options(), q.into_view()?, k.into_view()?, v.into_view()?)?;
        dropout::mask(&problem)
    }

    /// The same options on this engine: its instruction set, its threads.
    ///
    /// ```
    /// use jhalak::{Attention, Engine, FlashAttention, IsaKind, Tensor};
    ///
    /// let q = Tensor::from_vec(vec![0.5f32; 16], &[1, 2, 1, 8])?;
    /// let engine = Engine::with_isa(IsaKind::Scalar)?.threads(1)?;
    /// let attended = Attention::new().causal().on(&engine).forward(&q, &q, &q)?;
    /// # assert_eq!(attended.out, q);
    /// # Ok::<(), jhalak::Error>(())
    /// ```
    fn on<'s>(&'s self, engine: &'s Engine) -> On<'s> {
        On { options: self.options(), engine }
    }

    /// The same options on an NVIDIA GPU, in the order of this stream.
    ///
    /// ```no_run
    /// use jhalak::cuda::Engine;
    /// use jhalak::{Attention, DType, Device, FlashAttention, TensorView, TensorViewMut};
    ///
    /// let gpu = Engine::new(0)?;
    /// let stream = gpu.context().stream()?;
    /// let x = gpu.context().allocate(2 * 1024 * 8 * 64 * 2)?; // f16 [2, 1024, 8, 64]
    /// let out = gpu.context().allocate(x.bytes())?;
    /// let lse = gpu.context().allocate(2 * 8 * 1024 * 4)?;
    /// let (shape, strides) = ([2, 1024, 8, 64], [1024 * 8 * 64, 8 * 64, 64, 1]);
    /// let at = |address: u64| std::ptr::without_provenance_mut(address as usize);
    /// // SAFETY: the memory is there, and lives until the stream has done the work.
    /// unsafe {
    ///     let x = TensorView::from_raw(at(x.address()), DType::F16, Device::Cuda(0), &shape, &strides)?;
    ///     let out =
    ///         TensorViewMut::from_raw(at(out.address()), DType::F16, Device::Cuda(0), &shape, &strides)?;
    ///     let lse = TensorViewMut::from_raw(
    ///         at(lse.address()),
    ///         DType::F32,
    ///         Device::Cuda(0),
    ///         &[2, 8, 1024],
    ///         &[8 * 1024, 1024, 1],
    ///     )?;
    ///     Attention::new().causal().on_gpu(&gpu, &stream).forward_into(x, x, x, out, lse, 0)?;
    /// }
    /// stream.synchronize()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn on_gpu<'s>(
        &'s self,
        engine: &'s jhalak_cuda::Engine,
        stream: &'s jhalak_cuda::driver::Stream,
    ) -> OnGpu<'s> {
        OnGpu { options: self.options(), engine, stream }
    }
}

/// Plain calls are for tensors in host memory.
fn check_host(problem: &Problem<'_>) -> Result<()> {
    if problem.device() == Device::Cpu {
        return Ok(());
    }
    Err(Error::Device {
        argument: "q",
        expected: "cpu in this call (`on_gpu` is for a GPU's tensors)".to_owned(),
        got: problem.device().to_string(),
    })
}

/// [`Attention`] on an engine of the caller's choice; made by [`FlashAttention::on`].
#[derive(Clone, Copy, Debug)]
pub struct On<'s> {
    options: &'s Attention<'s>,
    engine: &'s Engine,
}

impl FlashAttention for Attention<'_> {}
impl FlashAttention for On<'_> {}

mod sealed {
    use super::{Attention, Engine, On, Result};

    /// What a call needs: its options and where it runs.
    pub trait Call {
        fn options(&self) -> &Attention<'_>;
        fn engine(&self) -> Result<Engine>;
    }

    impl Call for Attention<'_> {
        fn options(&self) -> &Attention<'_> {
            self
        }

        fn engine(&self) -> Result<Engine> {
            Engine::new()
        }
    }

    impl Call for On<'_> {
        fn options(&self) -> &Attention<'_> {
            self.options
        }

        fn engine(&self) -> Result<Engine> {
            Ok(self.engine.clone())
        }
    }
}
