//! The plan of the backward kernel of a call.

use jhalak_problem::{Backward, Error, Gradient, Problem, Result};

use super::forward::{blocks, bounds, lengths, scores};
use super::limits::Limits;
use super::passes::{self, BackwardWorkspace};
use super::tile;
use super::values::{Counts, Value, Values};
use crate::kernels::portable::backward_shared_bytes;
use crate::kernels::{Access, BackwardClass, Element, Parameter, Scores, Store, Tensor, Tile};

/// The fewest rows of queries of a tile.
const LEAST_ROWS: usize = 8;
/// The tensors of rows.
const ROWS: [Tensor; 6] = [Tensor::Q, Tensor::K, Tensor::V, Tensor::Dout, Tensor::Dk, Tensor::Dv];

/// The kernel of a backward call that writes dk and dv and adds to the sums of dq and dbias, ready to be
/// launched. It reads delta', and comes between the passes that compute it and that finish dq and dbias.
#[derive(Clone, Debug, PartialEq)]
pub struct BackwardPlan {
    /// The kernel.
    pub class: BackwardClass,
    /// Blocks along x and y.
    pub grid: [u32; 2],
    /// The arguments, in the order of [`BackwardClass::parameters`].
    pub arguments: Vec<Value>,
}

impl BackwardPlan {
    /// Plans a call on the portable kernels; `None` if there is nothing to compute.
    ///
    /// # Errors
    /// An [`Error`](jhalak_problem::Error) that names what the device or the kernels cannot do.
    pub fn new(
        call: &Backward<'_>,
        limits: Limits,
        workspace: &BackwardWorkspace,
    ) -> Result<Option<Self>> {
        let problem = call.problem();
        let element = limits.check(problem)?;
        check_bias(call)?;
        let tensors = passes::tensors(call, workspace);
        let targets = call.targets();
        let store = |gradient: &Option<Gradient<'_>>| {
            gradient.as_ref().map(|gradient| match gradient {
                Gradient::Add(_) => Store::Add,
                Gradient::Write(view) => {
                    Store::Write(Element::of(view.as_view().dtype()).unwrap_or(element))
                }
            })
        };
        let dout = Element::of(call.inputs().dout.dtype()).unwrap_or(element);
        // A dout of another type is reached element by element anyhow.
        let alike = |tensor: &Tensor| *tensor != Tensor::Dout || dout == element;
        let rows: Vec<Tensor> = ROWS.into_iter().filter(alike).collect();
        let vectors = tensors.take_vectors(&rows);
        let class = BackwardClass {
            target: limits.target,
            element,
            dout,
            head_dim: problem.head_dim() as u32,
            head_dim_v: problem.head_dim_v() as u32,
            access: if vectors { Access::Vectors } else { Access::Elements },
            tile: Tile { rows: 0, keys: 0, warps: 0 },
            lengths: lengths(problem),
            bounds: bounds(problem),
            scores: scores_of(element, scores(problem)),
            dropout: problem.dropout().is_some(),
            dq: targets.dq.is_some(),
            dk: store(&targets.dk),
            dv: store(&targets.dv),
            dbias: targets.dbias.is_some(),
            ordered: workspace.turns.is_some() && targets.dq.is_some(),
        };
        let rows_k = problem.tensors().k.shape()[if problem.is_packed() { 0 } else { 1 }];
        let heads = problem.heads_k();
        let asked = class.needs_scores() || class.dv.is_some();
        if !asked || rows_k == 0 || heads == 0 || problem.batch() == 0 && !problem.is_packed() {
            return Ok(None);
        }
        let class = BackwardClass { tile: tile::backward(&class, limits.shared_bytes), ..class };
        let (_, max_k) = problem.max_seqlens();
        // With dropout the first tile may begin up to 31 keys early.
        let keys = if class.dropout { max_k + 31 } else { max_k };
        let tiles = keys.div_ceil(class.tile.keys as usize).max(1);
        let blocks = blocks(problem, tiles)?;
        let query_tiles = query_tiles(problem, class.tile.rows as usize) as u32;
        let counts = Counts { row_tiles: tiles as u32, query_tiles, ..Counts::default() };
        let values = Values { problem, tensors, counts };
        let parameters: Vec<Parameter> = class.parameters();
        Ok(Some(BackwardPlan {
            class,
            grid: [blocks, heads as u32],
            arguments: parameters.into_iter().map(|parameter| values.of(parameter)).collect(),
        }))
    }

    /// How many turns a call has, one more for tickets; see [`BackwardWorkspace::turns`].
    pub fn turns(problem: &Problem<'_>) -> usize {
        let sequences = if problem.is_packed() { 1 } else { problem.batch() };
        1 + sequences * problem.heads_q() * query_tiles(problem, LEAST_ROWS)
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.class.tile.threads()
    }

    /// Dynamic shared memory of a block, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        backward_shared_bytes(&self.class)
    }
}

/// The gradients of several scores with one number of the bias come in any order.
fn check_bias(call: &Backward<'_>) -> Result<()> {
    let problem = call.problem();
    let (Some(bias), true) = (problem.bias_shape(), problem.is_deterministic()) else {
        return Ok(());
    };
    let (max_q, max_k) = problem.max_seqlens();
    let whole = [problem.batch(), problem.heads_q(), max_q, max_k];
    let broadcast = bias.into_iter().zip(whole).any(|(size, whole)| size == 1 && whole > 1);
    if !broadcast || call.targets().dbias.is_none() {
        return Ok(());
    }
    let rule = "of a bias that is broadcast cannot be deterministic on a GPU";
    Err(Error::Combination { argument: "dbias", rule })
}

/// Tiles of queries of a head. Of packed sequences each may begin within a tile.
fn query_tiles(problem: &Problem<'_>, rows: usize) -> usize {
    let q = problem.tensors().q;
    if problem.is_packed() {
        q.shape()[0] / rows + problem.batch() + 1
    } else {
        q.shape()[1].div_ceil(rows)
    }
}

/// In single precision a scale that is folded into the exponent would cost digits.
fn scores_of(element: Element, scores: Scores) -> Scores {
    Scores { folded: scores.folded && element != Element::F32, ..scores }
}
