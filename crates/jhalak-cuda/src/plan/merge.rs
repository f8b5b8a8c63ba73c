//! The plans of merging: parts that were given, and parts of one call.

use jhalak_problem::{DType, Error, Forward, Merge, Result};

use super::limits::{Limits, check_size};
use super::passes::{PassPlan, RowGrid};
use super::split::SplitWorkspace;
use super::tensors::Tensors;
use super::values::Value;
use crate::kernels::passes::{MergeClass, Parts};
use crate::kernels::{Access, Element, Parameter, Tensor};

/// The most parts with tensors of their own: so many addresses and strides fit the parameters.
const MAX_PARTS: usize = 48;
/// Up to so many rows, each has a block of its own: fewer would leave most of a GPU idle.
const FEW_ROWS: usize = 2048;
impl PassPlan<MergeClass> {
    /// Plans a merge of given parts; `None` if there are no rows.
    ///
    /// # Errors
    /// An [`Error`] that names what the device or the kernels cannot do.
    pub fn merge(call: &Merge<'_>, limits: Limits) -> Result<Option<Self>> {
        let views = call.part_views();
        if views.len() > MAX_PARTS {
            let expected = format!("at most {MAX_PARTS} (out, lse) on a GPU");
            let got = views.len().to_string();
            return Err(Error::Value { argument: "parts", expected, got });
        }
        let (out, lse) = (call.out_view(), call.lse_view());
        let size = Size::of(out.shape());
        check_size(size.heads, size.rows, size.columns)?;
        if call.lse_dtype() != DType::F32 {
            let (expected, got) = ("f32 on a GPU".into(), call.lse_dtype());
            return Err(Error::DType { argument: "lse", expected, got });
        }
        let elements =
            views.iter().map(|(part, _)| limits.check_dtype("a part's out", part.dtype()));
        let elements: Vec<Element> = elements.collect::<Result<_>>()?;
        let mut tensors =
            Tensors::none().with_rows(Tensor::Out, Some(out)).with_numbers(Tensor::Lse, Some(lse));
        let mut rows = vec![Tensor::Out];
        for (n, (part_out, part_lse)) in (0..).zip(views) {
            tensors = tensors
                .with_rows(Tensor::PartOut(n), Some(*part_out))
                .with_numbers(Tensor::PartLse(n), Some(*part_lse));
            rows.push(Tensor::PartOut(n));
        }
        let class = MergeClass {
            target: limits.target,
            parts: Parts::Separate(elements),
            out: limits.check_dtype("out", out.dtype())?,
            head_dim_v: size.columns as u32,
            access: if tensors.take_vectors(&rows) { Access::Vectors } else { Access::Elements },
        };
        plan(class, size, &tensors, 0)
    }

    /// Plans the result of a call from those over parts of its keys; `None` if there are no rows.
    ///
    /// # Errors
    /// An [`Error`] that names what the device or the kernels cannot do.
    pub fn combine(
        call: &Forward<'_>,
        limits: Limits,
        workspace: &SplitWorkspace,
    ) -> Result<Option<Self>> {
        let element = limits.check(call.problem())?;
        let (out, lse) = (call.out_view(), call.lse_view());
        let size = Size::of(out.shape());
        let Size { storages, rows, heads, columns } = size;
        let [outs, lses] = workspace.places(out.shape());
        let tensors = Tensors::none()
            .with_rows(Tensor::Out, Some(out))
            .with_numbers(Tensor::Lse, Some(lse))
            .with_place(Tensor::PartOut(0), outs)
            .with_place(Tensor::PartLse(0), lses);
        let vectors = tensors.take_vectors(&[Tensor::Out, Tensor::PartOut(0)]);
        let few = storages.saturating_mul(rows).saturating_mul(heads) <= FEW_ROWS;
        let class = MergeClass {
            target: limits.target,
            parts: Parts::Stacked { shared: few },
            out: Element::of(out.dtype()).unwrap_or(element),
            head_dim_v: columns as u32,
            access: if vectors { Access::Vectors } else { Access::Elements },
        };
        plan(class, size, &tensors, workspace.parts)
    }
}

/// The size of out; packed rows are one sequence.
#[derive(Clone, Copy)]
struct Size {
    storages: usize,
    rows: usize,
    heads: usize,
    columns: usize,
}

impl Size {
    fn of(out: &[usize]) -> Self {
        match *out {
            [storages, rows, heads, columns] => Size { storages, rows, heads, columns },
            _ => Size { storages: 1, rows: out[0], heads: out[1], columns: out[2] },
        }
    }
}

fn plan(
    class: MergeClass,
    size: Size,
    tensors: &Tensors,
    parts: u32,
) -> Result<Option<PassPlan<MergeClass>>> {
    if size.rows == 0 || size.columns == 0 {
        return Ok(None);
    }
    let Some(grid) = RowGrid::new(size.storages, size.rows, size.heads, class.tile_rows())? else {
        return Ok(None);
    };
    let value = |parameter| match parameter {
        Parameter::Base(tensor) => Value::U64(tensors.address(tensor)),
        Parameter::Stride(tensor, axis) => Value::U64(tensors.stride(tensor, axis).cast_unsigned()),
        Parameter::RowsQ => Value::U32(size.rows as u32),
        Parameter::RowTiles => Value::U32(grid.row_tiles),
        Parameter::Parts => Value::U32(parts),
        other => unreachable!("merging has no {other:?}"),
    };
    let arguments = class.parameters().into_iter().map(value).collect();
    Ok(Some(PassPlan { class, grid: grid.blocks, arguments }))
}
