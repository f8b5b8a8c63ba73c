//! How long calls take: on the GPU, on the host, and the first time.

use std::error::Error;
use std::time::Instant;

use jhalak_cuda::driver::{Arguments, Buffer, Function, Launch, Stream};
use jhalak_cuda::plan::Limits;
use jhalak_cuda::{Engine, Result};
use jhalak_problem::{
    Backward, BackwardInputs, Forward, Gradient, GradientTargets, OutOrDelta, Problem,
};
use jhalak_ptx::{ModuleBuilder, Target};
use serde_json::{Value, json};

use crate::request::Request;
use crate::setup::{Gradients, Tensors};

/// Larger than any cache: written before each call that is timed, so that it begins cold.
const FLUSH_BYTES: usize = 256 << 20;
/// Calls of a batch that times the host.
const HOST_CALLS: u32 = 200;

pub struct Worker {
    engine: Engine,
    stream: Stream,
    flush: Buffer,
    empty: Function,
}

impl Worker {
    pub fn new() -> Result<Self> {
        let engine = Engine::new(0)?;
        let context = engine.context();
        let (stream, flush) = (context.stream()?, context.allocate(FLUSH_BYTES)?);
        let mut module = ModuleBuilder::new(Target::Sm75);
        module.kernel("empty", |k| k.ret());
        let module = module.build().expect("a kernel that does nothing");
        let empty = context.load_module(&module.text(), 4)?.function("empty")?;
        Ok(Worker { engine, stream, flush, empty })
    }

    pub fn answer(&mut self, request: &Request) -> std::result::Result<Value, Box<dyn Error>> {
        let limits = match (request.turing, request.portable) {
            (true, _) => Limits::of(Target::Sm75),
            (_, true) => self.engine.limits().portable(),
            _ => self.engine.limits(),
        };
        let engine = self.engine.clone().with_limits(limits);
        let tensors = Tensors::new(&engine, request)?;
        let attention = request.attention();
        let views = (tensors.q.view(), tensors.k.view(), tensors.v.view());
        let problem = Problem::new(&attention, views.0, views.1, views.2)?;
        let call = Forward::new(&problem, tensors.out.view_mut(), tensors.lse.view_mut())?;
        let workspace =
            engine.context().allocate(engine.forward_workspace_bytes(&problem)?.max(1))?;
        // SAFETY: the tensors live until the stream is synchronised, in `measured`.
        let forward = || unsafe { engine.forward(&self.stream, &call, workspace.address()) };
        if !request.backward {
            let mut answer = self.measured(request, forward)?;
            answer["path"] = engine.path(&call)?.map(|path| path.to_string()).into();
            return Ok(answer);
        }
        forward()?;
        let workspace = Engine::backward_workspace_bytes(&problem, false);
        let gradients = Gradients::new(&engine, request, workspace)?;
        let inputs = BackwardInputs {
            dout: gradients.dout.view(),
            out: OutOrDelta::Out(tensors.out.view()),
            lse: tensors.lse.view(),
            dlse: None,
        };
        let mut targets = GradientTargets::default();
        targets.dq = Some(Gradient::Write(gradients.dq.view_mut()));
        targets.dk = Some(Gradient::Write(gradients.dk.view_mut()));
        targets.dv = Some(Gradient::Write(gradients.dv.view_mut()));
        let call = Backward::new(&problem, inputs, targets)?;
        let workspace = gradients.workspace.address();
        // SAFETY: as above; the workspace is this call's.
        self.measured(request, || unsafe { engine.backward(&self.stream, &call, workspace) })
    }

    fn measured(
        &self,
        request: &Request,
        run: impl Fn() -> Result<()>,
    ) -> std::result::Result<Value, Box<dyn Error>> {
        let began = Instant::now();
        run()?;
        self.stream.synchronize()?;
        let first = began.elapsed().as_secs_f64();
        match request.what.as_str() {
            "cold" => Ok(json!({ "s": first })),
            "host" => self.host(run),
            _ => self.device(request, run),
        }
    }

    /// The median time on the GPU of a call that finds nothing in the cache.
    fn device(
        &self,
        request: &Request,
        run: impl Fn() -> Result<()>,
    ) -> std::result::Result<Value, Box<dyn Error>> {
        for _ in 0..3 {
            run()?;
        }
        self.stream.synchronize()?;
        let (began, context) = (Instant::now(), self.engine.context());
        let mut times = Vec::new();
        while times.len() < 5 || began.elapsed().as_secs_f64() * 1e3 < request.ms {
            let (before, after) = (context.event()?, context.event()?);
            // SAFETY: the memory is this worker's.
            unsafe { self.stream.fill_words(self.flush.address(), 0, FLUSH_BYTES / 4)? };
            before.record(&self.stream)?;
            run()?;
            after.record(&self.stream)?;
            after.synchronize()?;
            times.push(before.milliseconds_until(&after)?);
        }
        times.sort_by(f32::total_cmp);
        Ok(json!({ "ms": times[times.len() / 2], "calls": times.len() }))
    }

    /// The host's time for a call whose kernel is there, and for a launch that does nothing.
    fn host(&self, run: impl Fn() -> Result<()>) -> std::result::Result<Value, Box<dyn Error>> {
        let launch = Launch::new([1, 1, 1], [32, 1, 1]);
        let empty = || -> Result<()> {
            // SAFETY: the kernel has no parameters and touches nothing.
            unsafe { self.empty.launch(&self.stream, &launch, &Arguments::new())? };
            Ok(())
        };
        let mut best = [f64::INFINITY; 2];
        for _ in 0..20 {
            best[0] = best[0].min(self.per_call(&run)?);
            best[1] = best[1].min(self.per_call(&empty)?);
        }
        Ok(json!({ "call_us": best[0], "empty_us": best[1] }))
    }

    fn per_call(&self, run: &impl Fn() -> Result<()>) -> Result<f64> {
        self.stream.synchronize()?;
        let began = Instant::now();
        for _ in 0..HOST_CALLS {
            run()?;
        }
        let time = began.elapsed().as_secs_f64();
        self.stream.synchronize()?;
        Ok(time * 1e6 / f64::from(HOST_CALLS))
    }
}
