//! The plan of a forward call.

use jhalak_problem::{Error, Forward, Problem, Result};

use super::hopper;
use super::limits::Limits;
use super::path::Path;
use super::split::SplitWorkspace;
use super::tensors::Tensors;
use super::tile;
use super::values::{Counts, Value, Values};
use crate::kernels::hopper::HopperClass;
use crate::kernels::{
    Access, Bounds, Element, ForwardClass, KernelClass, Lengths, Scores, Tensor, Tile,
};

/// The tensors of rows.
const ROWS: [Tensor; 4] = [Tensor::Q, Tensor::K, Tensor::V, Tensor::Out];

/// A forward call, ready to be launched.
#[derive(Clone, Debug, PartialEq)]
pub struct ForwardPlan {
    /// The kernel.
    pub class: KernelClass,
    /// Which kernels it is one of.
    pub path: Path,
    /// Blocks along x and y.
    pub grid: [u32; 2],
    /// The arguments, in the order of the class's parameters.
    pub arguments: Vec<Value>,
}

impl ForwardPlan {
    /// Plans a call; `None` if there is nothing to compute. With a workspace
    /// the results of parts of the keys go there, for [`PassPlan::combine`](super::PassPlan::combine).
    ///
    /// # Errors
    /// An [`Error`] that names what the device or the kernels cannot do.
    pub fn new(
        call: &Forward<'_>,
        limits: Limits,
        split: Option<&SplitWorkspace>,
    ) -> Result<Option<Self>> {
        let problem = call.problem();
        let element = limits.check(problem)?;
        let tensors = Tensors::of_problem(problem);
        let tensors = match split {
            None => tensors
                .with_rows(Tensor::Out, Some(call.out_view()))
                .with_numbers(Tensor::Lse, Some(call.lse_view())),
            Some(workspace) => workspace.results(tensors, call.out_view().shape()),
        };
        let Some(shape) = Shape::new(problem, limits, element, &tensors, split.is_some())? else {
            return Ok(None);
        };
        let parts = split.map_or(1, |workspace| workspace.parts);
        let counts = Counts { row_tiles: shape.row_tiles, parts, ..Counts::default() };
        let values = Values { problem, tensors, counts };
        let reason = match hopper::class(problem, limits, &values.tensors, &shape.class) {
            Ok(class) => return Self::hopper(values, class, limits).map(Some),
            Err(reason) => reason,
        };
        let Shape { class, blocks, heads, .. } = shape;
        Ok(Some(ForwardPlan {
            class: class.into(),
            path: Path::Portable(reason),
            grid: [blocks, heads * parts],
            arguments: class.parameters().into_iter().map(|p| values.of(p)).collect(),
        }))
    }

    /// Blocks stay and share the units of work.
    fn hopper(mut values: Values<'_>, class: HopperClass, limits: Limits) -> Result<Self> {
        let problem = values.problem;
        let (max_q, _) = problem.max_seqlens();
        let tiles = max_q.div_ceil(class.attention.tile.rows as usize).max(1);
        let units = class.units_of_head(tiles).saturating_mul(problem.heads_q());
        let units = blocks(problem, units)?;
        values.counts.row_tiles = tiles as u32;
        values.counts.hopper = Some((class, units));
        Ok(ForwardPlan {
            class: class.into(),
            path: Path::Hopper,
            grid: [units.min(limits.multiprocessors), 1],
            arguments: class.parameters().into_iter().map(|p| values.of(p)).collect(),
        })
    }
}

/// The class and the grid of a call.
pub(super) struct Shape {
    pub(super) class: ForwardClass,
    row_tiles: u32,
    /// Blocks along x, and heads along y.
    pub(super) blocks: u32,
    pub(super) heads: u32,
}

impl Shape {
    /// `None` if there is nothing to compute.
    pub(super) fn new(
        problem: &Problem<'_>,
        limits: Limits,
        element: Element,
        tensors: &Tensors,
        split: bool,
    ) -> Result<Option<Self>> {
        let (max_q, _) = problem.max_seqlens();
        let rows_q = problem.tensors().q.shape()[if problem.is_packed() { 0 } else { 1 }];
        let sequences = problem.batch() + usize::from(problem.is_packed());
        if rows_q == 0 || problem.heads_q() == 0 || sequences == 0 {
            return Ok(None);
        }
        let class = class(problem, limits, element, tensors.take_vectors(&ROWS), split);
        let rows = if class.grouped { max_q * problem.group() } else { max_q };
        let row_tiles = rows.div_ceil(class.tile.rows as usize).max(1);
        let heads = if class.grouped { problem.heads_k() } else { problem.heads_q() } as u32;
        let blocks = blocks(problem, row_tiles)?;
        Ok(Some(Shape { class, row_tiles: row_tiles as u32, blocks, heads }))
    }
}

fn class(
    problem: &Problem<'_>,
    limits: Limits,
    element: Element,
    vectors: bool,
    split: bool,
) -> ForwardClass {
    let sinks = problem.tensors().sinks;
    let class = ForwardClass {
        target: limits.target,
        element,
        out: if split { Element::F32 } else { Element::of(problem.out_dtype()).unwrap_or(element) },
        head_dim: problem.head_dim() as u32,
        head_dim_v: problem.head_dim_v() as u32,
        access: if vectors { Access::Vectors } else { Access::Elements },
        tile: Tile { rows: 0, keys: 0, warps: 0 },
        grouped: false,
        split,
        lengths: lengths(problem),
        bounds: bounds(problem),
        scores: scores(problem),
        sinks: sinks.and_then(|sinks| Element::of(sinks.dtype())),
        dropout: problem.dropout().is_some(),
    };
    let ((max_q, _), group) = (problem.max_seqlens(), problem.group());
    let tile = tile::forward(&class, limits.shared_bytes, max_q.saturating_mul(group));
    // Short queries of all heads of a group share a tile, and so one reading of the keys.
    let rows = tile.rows as usize;
    let grouped = group > 1 && (max_q * group).div_ceil(rows) < max_q.div_ceil(rows) * group;
    ForwardClass { tile, grouped, ..class }
}

/// Blocks along x: so many tiles for each sequence, and for the rows after the last packed one.
pub(super) fn blocks(problem: &Problem<'_>, tiles: usize) -> Result<u32> {
    let sequences = problem.batch() + usize::from(problem.is_packed());
    let blocks = tiles.checked_mul(sequences).filter(|&blocks| blocks <= i32::MAX as usize);
    blocks.map(|blocks| blocks as u32).ok_or_else(|| Error::Value {
        argument: "the number of sequences",
        expected: format!("at most {} of this length on a GPU", i32::MAX as usize / tiles),
        got: problem.batch().to_string(),
    })
}

/// Whose lengths differ.
pub(super) fn lengths(problem: &Problem<'_>) -> Lengths {
    let lengths = problem.tensors().lengths;
    Lengths {
        packed: problem.is_packed(),
        used_q: lengths.seqused_q.is_some(),
        used_k: lengths.seqused_k.is_some(),
    }
}

/// How scores are made.
pub(super) fn scores(problem: &Problem<'_>) -> Scores {
    let bias = problem.tensors().bias.and_then(|bias| Element::of(bias.dtype()));
    let (softcap, alibi) = (problem.softcap().is_some(), problem.has_alibi());
    let folded = problem.scale() as f32 > 0.0 && !softcap && bias.is_none() && !alibi;
    Scores { folded, softcap, bias, mask: problem.has_mask(), alibi }
}

/// Bounds that can hide something.
pub(super) fn bounds(problem: &Problem<'_>) -> Bounds {
    let lengths = problem.tensors().lengths;
    let listed = problem.is_packed() || lengths.seqused_q.is_some() || lengths.seqused_k.is_some();
    if !listed && problem.batch() > 0 && problem.visibility(0).is_everything() {
        return Bounds::default();
    }
    let (left, right) = problem.window();
    Bounds { lower: left < i64::MAX, upper: right < i64::MAX }
}
