//! The values of a kernel's parameters for one call.

use std::f32::consts::LOG2_E;

use jhalak_problem::{Dropout, Problem};

use super::boxes::TensorBox;
use super::tensors::Tensors;
use crate::kernels::hopper::HopperClass;
use crate::kernels::{Axis, Parameter, SLACK_LOG2};

/// Bounds are kept this far from the ends of 32 bits: further than any two positions are apart.
const FAR: i64 = 1 << 30;
/// How far a window reaches at most, which is past every key.
const WIDEST: i64 = 1 << 29;

/// One argument of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A 32-bit integer.
    U32(u32),
    /// A 64-bit integer or an address.
    U64(u64),
    /// A float.
    F32(f32),
    /// What the copy engine must know of a tensor.
    Map(TensorBox),
}

/// What a call says about each parameter.
pub(super) struct Values<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) tensors: Tensors,
    pub(super) counts: Counts,
}

/// How a call is cut.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Tiles of rows of a sequence, along the grid.
    pub(super) row_tiles: u32,
    /// Parts of the keys.
    pub(super) parts: u32,
    /// Tiles of queries of a head.
    pub(super) query_tiles: u32,
    /// The kernel, if it is one for Hopper, and the units of its work.
    pub(super) hopper: Option<(HopperClass, u32)>,
}

impl Values<'_> {
    pub(super) fn of(&self, parameter: Parameter) -> Value {
        let problem = self.problem;
        let inputs = problem.tensors();
        let rows = |shape: &[usize]| shape[shape.len() - 3] as u32;
        match parameter {
            Parameter::Base(tensor) => Value::U64(self.tensors.address(tensor)),
            Parameter::Stride(tensor, axis) => {
                Value::U64(self.tensors.stride(tensor, axis).cast_unsigned())
            }
            Parameter::Map(tensor) => {
                let (class, _) = self.counts.hopper.expect("only kernels for Hopper have maps");
                Value::Map(self.tensors.boxes(tensor, class.box_rows(tensor)))
            }
            Parameter::Units => Value::U32(self.counts.hopper.map_or(0, |(_, units)| units)),
            Parameter::RowsQ => Value::U32(rows(inputs.q.shape())),
            Parameter::RowsK => Value::U32(rows(inputs.k.shape())),
            Parameter::Batch => Value::U32(problem.batch() as u32),
            Parameter::Storages => {
                Value::U32(if problem.is_packed() { 1 } else { problem.batch() as u32 })
            }
            Parameter::Parts => Value::U32(self.counts.parts),
            Parameter::RowTiles => Value::U32(self.counts.row_tiles),
            Parameter::QueryTiles => Value::U32(self.counts.query_tiles),
            Parameter::HeadsQ => Value::U32(problem.heads_q() as u32),
            Parameter::Group => Value::U32(problem.group() as u32),
            Parameter::Aligned => Value::U32(problem.starts().is_none().into()),
            Parameter::Start => signed(self.start()),
            Parameter::Low => signed(self.start().saturating_sub(self.reach(problem.window().0))),
            Parameter::High => signed(self.start().saturating_add(self.reach(problem.window().1))),
            Parameter::Scale => Value::F32(problem.scale() as f32),
            Parameter::ScaleLog2 => Value::F32(self.scale_log2()),
            Parameter::Slack => Value::F32((SLACK_LOG2 / self.scale_log2()).min(f32::MAX / 2.0)),
            Parameter::Softcap => Value::F32(problem.softcap().unwrap_or_default() as f32),
            Parameter::ScaleOverCap => {
                let over = problem.softcap().map_or(0.0, |cap| problem.scale() / cap);
                Value::F32(over as f32)
            }
            Parameter::ScoreRows => Value::U32(self.tensors.score_size(Axis::Row)),
            Parameter::ScoreColumns => Value::U32(self.tensors.score_size(Axis::Column)),
            Parameter::BiasRows => Value::U32(self.bias_size(2)),
            Parameter::BiasColumns => Value::U32(self.bias_size(3)),
            Parameter::DropoutQuery => Value::U32(problem.starts().map_or(0, |(q, _)| q as u32)),
            Parameter::DropoutShift => Value::U32(self.first_key().rem_euclid(32) as u32),
            Parameter::DropoutBlock => Value::U32(self.first_key().div_euclid(32) as u32),
            Parameter::SeedLow => self.dropout(|d| d.seed() as u32),
            Parameter::SeedHigh => self.dropout(|d| (d.seed() >> 32) as u32),
            Parameter::Offset => self.dropout(|d| d.offset()),
            Parameter::Threshold => self.dropout(|d| d.threshold()),
            Parameter::Keep => {
                let keep = problem.dropout().map_or(1.0, |dropout| dropout.keep_factor());
                Value::F32(keep as f32)
            }
        }
    }

    fn bias_size(&self, dimension: usize) -> u32 {
        self.problem.bias_shape().map_or(0, |shape| shape[dimension] as u32)
    }

    /// The key on which query 0 sits, where positions are given.
    fn start(&self) -> i64 {
        self.problem.starts().map_or(0, |(q, k)| q - k)
    }

    fn first_key(&self) -> i64 {
        self.problem.starts().map_or(0, |(_, k)| k)
    }

    /// A side of the window; where positions are given it may reach far.
    fn reach(&self, side: i64) -> i64 {
        if self.problem.starts().is_some() { side } else { side.min(WIDEST) }
    }

    fn scale_log2(&self) -> f32 {
        (self.problem.scale() * f64::from(LOG2_E)) as f32
    }

    fn dropout(&self, part: impl FnOnce(Dropout) -> u32) -> Value {
        Value::U32(self.problem.dropout().map_or(0, part))
    }
}

/// A bound of visibility, near enough to be added to positions.
fn signed(bound: i64) -> Value {
    Value::U32((bound.clamp(-FAR, FAR) as i32).cast_unsigned())
}
