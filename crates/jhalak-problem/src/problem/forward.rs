//! [`Forward`]: a checked problem with the places where its results go.

use super::Problem;
use super::checks::check_dtype;
use super::rows::rows_of_mut;
use crate::error::{Error, Result};
use crate::matrix::MatrixMut;
use crate::problem::UnusedRows;
use crate::tensor::{TensorView, TensorViewMut};

/// A forward call: a [`Problem`] and its outputs, all checked.
#[derive(Debug)]
pub struct Forward<'a> {
    problem: &'a Problem<'a>,
    out: TensorViewMut<'a>,
    lse: TensorViewMut<'a>,
}

impl<'a> Forward<'a> {
    /// `out` is [`out_shape`](Problem::out_shape) of [`out_dtype`](Problem::out_dtype), `lse` is
    /// [`lse_shape`](Problem::lse_shape) of [`lse_dtype`](Problem::lse_dtype); any strides.
    ///
    /// # Errors
    /// Another shape, dtype or device; an output that overlaps itself or another tensor.
    pub fn new(
        problem: &'a Problem<'a>,
        out: TensorViewMut<'a>,
        lse: TensorViewMut<'a>,
    ) -> Result<Self> {
        check_dtype("out", &out.as_view(), problem.out_dtype)?;
        check_dtype("lse", &lse.as_view(), problem.lse_dtype())?;
        for (argument, got, wanted) in
            [("out", out.shape(), problem.out_shape()), ("lse", lse.shape(), problem.lse_shape())]
        {
            if got != wanted {
                return Err(Error::shape(argument, format!("{wanted:?}"), got));
            }
        }
        problem.check_output("out", &out.as_view(), &[])?;
        problem.check_output("lse", &lse.as_view(), &[("out", Some(out.as_view()))])?;
        Ok(Forward { problem, out, lse })
    }

    /// What is computed.
    pub fn problem(&self) -> &'a Problem<'a> {
        self.problem
    }

    /// The whole of out.
    pub fn out_view(&self) -> TensorView<'_> {
        self.out.as_view()
    }

    /// The whole of lse.
    pub fn lse_view(&self) -> TensorView<'_> {
        self.lse.as_view()
    }

    /// Output rows [used Sq, Dv] of sequence `b`, query head `h`.
    pub fn out(&self, b: usize, h: usize) -> MatrixMut<'_> {
        let s = self.problem.sequence(b);
        rows_of_mut(&self.out, self.problem.packed, s.storage, s.rows_q.start, s.used_q, h)
    }

    /// lse [used Sq, 1] of sequence `b`, query head `h`.
    pub fn lse(&self, b: usize, h: usize) -> MatrixMut<'_> {
        let s = self.problem.sequence(b);
        lse_rows(&self.lse, self.problem.packed, s.storage, s.rows_q.start, s.used_q, h)
    }

    /// Rows of out that no sequence uses: [rows, Dv] of query head `h`; must become 0.
    pub fn unused_out(&self, unused: &UnusedRows, h: usize) -> MatrixMut<'_> {
        let rows = &unused.rows;
        rows_of_mut(&self.out, self.problem.packed, unused.storage, rows.start, rows.len(), h)
    }

    /// Rows of lse that no sequence uses: [rows, 1] of query head `h`; must become −∞.
    pub fn unused_lse(&self, unused: &UnusedRows, h: usize) -> MatrixMut<'_> {
        let rows = &unused.rows;
        lse_rows(&self.lse, self.problem.packed, unused.storage, rows.start, rows.len(), h)
    }
}

/// Rows of an lse-shaped output: [B, Hq, Sq] or [Hq, total_q].
fn lse_rows<'s>(
    view: &'s TensorViewMut<'_>,
    packed: bool,
    storage: usize,
    first: usize,
    rows: usize,
    head: usize,
) -> MatrixMut<'s> {
    let stride = view.strides()[view.strides().len() - 1];
    let ptr = if rows == 0 {
        std::ptr::null_mut()
    } else if packed {
        view.element_ptr(&[head, first])
    } else {
        view.element_ptr(&[storage, head, first])
    };
    MatrixMut::new(ptr, view.dtype(), (rows, 1), (stride, 0))
}
