//! The plans of the small kernels around the backward pass.

use jhalak_problem::{Backward, Error, OutOrDelta, Problem, Result, TensorView};

use super::limits::Limits;
use super::place::{Place, SCORES};
use super::tensors::Tensors;
use super::values::{Counts, Value, Values};
use crate::kernels::passes::{Delta, DeltaClass, DsinksClass, FinishDbiasClass, FinishDqClass};
use crate::kernels::{Access, Element, Lengths, Parameter, Tensor};

/// A launch of one of the small kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct PassPlan<C> {
    /// The kernel.
    pub class: C,
    /// Blocks along x and y.
    pub grid: [u32; 2],
    /// The arguments, in the order of the class's parameters.
    pub arguments: Vec<Value>,
}

/// Memory on the device that the kernels of a backward call share. All of it is floats in row-major
/// order; nobody has to fill it, but for zeros in the sums of dbias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackwardWorkspace {
    /// The address of delta': [B, Hq, Sq], or [Hq, total_q] of packed sequences.
    pub delta: u64,
    /// The sums of dq, where the backward pass adds to them.
    pub dq_sum: Option<DqSum>,
    /// The address of the sums of dbias, of the bias's shape, where the backward pass adds to them.
    /// They must be 0 before.
    pub dbias_sum: Option<u64>,
    /// The address of the turns of blocks, where bits must be the same every time: so many as
    /// [`BackwardPlan::turns`](super::BackwardPlan::turns) says, 32 bits each, 0 before.
    pub turns: Option<u64>,
}

/// The sums of dq: [B, Hq, Sq, columns], or [Hq, total_q, columns] of packed sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DqSum {
    /// The address, a multiple of 16.
    pub address: u64,
    /// D and what it is padded with, a multiple of 4.
    pub columns: u32,
}

impl PassPlan<DeltaClass> {
    /// Plans delta', and zeros in the sums of dq; `None` if there are no rows.
    ///
    /// # Errors
    /// An [`Error`] that names what the device or the kernels cannot do.
    pub fn delta(
        call: &Backward<'_>,
        limits: Limits,
        workspace: &BackwardWorkspace,
    ) -> Result<Option<Self>> {
        let problem = call.problem();
        let element = limits.check(problem)?;
        let tensors = tensors(call, workspace);
        let of = |view: TensorView<'_>| Element::of(view.dtype()).unwrap_or(element);
        let inputs = call.inputs();
        let delta = match inputs.out {
            OutOrDelta::Delta(_) => Delta::Given,
            OutOrDelta::Out(out) => Delta::Out {
                out: of(out),
                dout: of(inputs.dout),
                head_dim_v: problem.head_dim_v() as u32,
                access: access(&tensors, &[Tensor::Out, Tensor::Dout]),
                sinks: problem.tensors().sinks.map(of),
            },
        };
        let class = DeltaClass {
            target: limits.target,
            delta,
            dlse: inputs.dlse.is_some(),
            lengths: lengths(problem),
            dq_sum: workspace.dq_sum.map(|sum| sum.columns),
        };
        let grid = RowGrid::of_problem(problem, class.tile_rows())?;
        Ok(grid.map(|grid| PassPlan {
            class,
            grid: grid.blocks,
            arguments: arguments(problem, tensors, grid.row_tiles, class.parameters()),
        }))
    }
}

impl PassPlan<FinishDqClass> {
    /// Plans dq from its sums; `None` if it is not asked for, or there are no rows.
    ///
    /// # Errors
    /// An [`Error`] that names what the device or the kernels cannot do.
    pub fn finish_dq(
        call: &Backward<'_>,
        limits: Limits,
        workspace: &BackwardWorkspace,
    ) -> Result<Option<Self>> {
        let problem = call.problem();
        let element = limits.check(problem)?;
        let Some(dq) = &call.targets().dq else { return Ok(None) };
        let tensors = tensors(call, workspace);
        let class = FinishDqClass {
            target: limits.target,
            element: Element::of(dq.view().dtype()).unwrap_or(element),
            head_dim: problem.head_dim() as u32,
            access: access(&tensors, &[Tensor::Dq]),
            lengths: lengths(problem),
            adds: dq.adds(),
        };
        let grid = RowGrid::of_problem(problem, class.tile_rows())?;
        Ok(grid.map(|grid| PassPlan {
            class,
            grid: grid.blocks,
            arguments: arguments(problem, tensors, grid.row_tiles, class.parameters()),
        }))
    }
}

impl PassPlan<FinishDbiasClass> {
    /// Plans dbias from its sums; `None` if it is not asked for, or the bias is empty.
    ///
    /// # Errors
    /// An [`Error`] that names what the device or the kernels cannot do.
    pub fn finish_dbias(
        call: &Backward<'_>,
        limits: Limits,
        workspace: &BackwardWorkspace,
    ) -> Result<Option<Self>> {
        let problem = call.problem();
        let element = limits.check(problem)?;
        let (Some(dbias), Some(shape)) = (&call.targets().dbias, problem.bias_shape()) else {
            return Ok(None);
        };
        let class = FinishDbiasClass {
            target: limits.target,
            element: Element::of(dbias.view().dtype()).unwrap_or(element),
            adds: dbias.adds(),
        };
        let [sequences, heads, rows, _] = shape;
        let tensors = tensors(call, workspace);
        let grid = RowGrid::new(sequences, rows, heads, FinishDbiasClass::TILE_ROWS)?;
        Ok(grid.map(|grid| PassPlan {
            class,
            grid: grid.blocks,
            arguments: arguments(problem, tensors, grid.row_tiles, class.parameters()),
        }))
    }
}

impl PassPlan<DsinksClass> {
    /// Plans the gradient of the sinks from delta'; `None` if it is not asked for, or there are no
    /// heads.
    ///
    /// # Errors
    /// An [`Error`] that names what the device or the kernels cannot do.
    pub fn dsinks(
        call: &Backward<'_>,
        limits: Limits,
        workspace: &BackwardWorkspace,
    ) -> Result<Option<Self>> {
        let problem = call.problem();
        let element = limits.check(problem)?;
        let (Some(dsinks), Some(sinks)) = (&call.targets().dsinks, problem.tensors().sinks) else {
            return Ok(None);
        };
        if problem.heads_q() == 0 {
            return Ok(None);
        }
        let class = DsinksClass {
            target: limits.target,
            sinks: Element::of(sinks.dtype()).unwrap_or(element),
            dsinks: Element::of(dsinks.view().dtype()).unwrap_or(element),
            adds: dsinks.adds(),
        };
        let tensors = tensors(call, workspace);
        Ok(Some(PassPlan {
            class,
            grid: [problem.heads_q() as u32, 1],
            arguments: arguments(problem, tensors, 1, class.parameters()),
        }))
    }
}

/// The tensors of a backward call.
pub(super) fn tensors(call: &Backward<'_>, workspace: &BackwardWorkspace) -> Tensors {
    let (problem, inputs, targets) = (call.problem(), call.inputs(), call.targets());
    let (out, delta) = match inputs.out {
        OutOrDelta::Out(out) => (Some(out), None),
        OutOrDelta::Delta(delta) => (None, Some(delta)),
    };
    let (storages, rows) = storages_and_rows(problem);
    let shape = [storages, problem.heads_q(), rows];
    let numbers = Place::of_floats(workspace.delta, &shape, &SCORES[..3]);
    let tensors = Tensors::of_problem(problem)
        .with_rows(Tensor::Out, out)
        .with_rows(Tensor::Dout, Some(inputs.dout))
        .with_numbers(Tensor::GivenDelta, delta)
        .with_numbers(Tensor::Lse, Some(inputs.lse))
        .with_numbers(Tensor::Dlse, inputs.dlse)
        .with_rows(Tensor::Dq, targets.dq.as_ref().map(|dq| dq.view()))
        .with_rows(Tensor::Dk, targets.dk.as_ref().map(|dk| dk.view()))
        .with_rows(Tensor::Dv, targets.dv.as_ref().map(|dv| dv.view()))
        .with_scores(Tensor::Dbias, targets.dbias.as_ref().map(|dbias| dbias.view()))
        .with_heads(Tensor::Dsinks, targets.dsinks.as_ref().map(|dsinks| dsinks.view()))
        .with_place(Tensor::Delta, numbers);
    let tensors = match workspace.turns {
        None => tensors,
        Some(address) => tensors.with_place(Tensor::Turns, Place::of_floats(address, &[], SCORES)),
    };
    let tensors = match workspace.dbias_sum.zip(problem.bias_shape()) {
        None => tensors,
        Some((address, shape)) => {
            tensors.with_place(Tensor::DbiasSum, Place::of_floats(address, &shape, SCORES))
        }
    };
    match workspace.dq_sum {
        None => tensors,
        Some(DqSum { address, columns }) => {
            let shape = [storages, problem.heads_q(), rows, columns as usize];
            tensors.with_place(Tensor::DqSum, Place::of_floats(address, &shape, SCORES))
        }
    }
}

fn access(tensors: &Tensors, of: &[Tensor]) -> Access {
    if tensors.take_vectors(of) { Access::Vectors } else { Access::Elements }
}

/// The lengths of queries.
fn lengths(problem: &Problem<'_>) -> Lengths {
    let used_q = problem.tensors().lengths.seqused_q.is_some();
    Lengths { packed: problem.is_packed(), used_q, used_k: false }
}

/// Sequences of q as a dense tensor, and the rows of each; packed ones are one.
fn storages_and_rows(problem: &Problem<'_>) -> (usize, usize) {
    let q = problem.tensors().q;
    if problem.is_packed() { (1, q.shape()[0]) } else { (q.shape()[0], q.shape()[1]) }
}

fn arguments(
    problem: &Problem<'_>,
    tensors: Tensors,
    row_tiles: u32,
    parameters: Vec<Parameter>,
) -> Vec<Value> {
    let values = Values { problem, tensors, counts: Counts { row_tiles, ..Counts::default() } };
    parameters.into_iter().map(|parameter| values.of(parameter)).collect()
}

/// The grid of a kernel that goes over rows.
pub(super) struct RowGrid {
    pub(super) blocks: [u32; 2],
    /// Tiles of a sequence, along the grid.
    pub(super) row_tiles: u32,
}

impl RowGrid {
    /// For sequences of so many rows; a longer one's blocks go on to its other tiles. `None` if
    /// there is nothing.
    ///
    /// # Errors
    /// [`Error::Value`] if there are more sequences than blocks of a grid.
    pub(super) fn new(
        sequences: usize,
        rows: usize,
        heads: usize,
        tile_rows: u32,
    ) -> Result<Option<Self>> {
        if sequences == 0 || heads == 0 {
            return Ok(None);
        }
        let most = i32::MAX as usize / sequences;
        if most == 0 {
            let expected = format!("at most {} on a GPU", i32::MAX);
            let got = sequences.to_string();
            return Err(Error::Value { argument: "the number of sequences", expected, got });
        }
        let row_tiles = rows.div_ceil(tile_rows as usize).clamp(1, most);
        let blocks = [(row_tiles * sequences) as u32, heads as u32];
        Ok(Some(RowGrid { blocks, row_tiles: row_tiles as u32 }))
    }

    fn of_problem(problem: &Problem<'_>, tile_rows: u32) -> Result<Option<Self>> {
        if storages_and_rows(problem).1 == 0 {
            return Ok(None);
        }
        let sequences = problem.batch() + usize::from(problem.is_packed());
        RowGrid::new(sequences, problem.max_seqlens().0, problem.heads_q(), tile_rows)
    }
}
