//! Shapes of backward calls: dense or packed sequences, used in part.

use jhalak_cuda::plan::Limits;
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, GradientTargets, OutOrDelta, Problem,
};
use jhalak_ptx::Target;

use crate::gpu::{Gpu, Held, Layout};

/// Which rows there are.
#[derive(Clone, Debug)]
pub struct Rows {
    /// B·Sq rows of a dense tensor, or 1 sequence of all packed rows.
    pub storages: usize,
    pub rows: usize,
    pub heads: usize,
    /// Where packed sequences begin.
    pub starts: Option<Vec<i32>>,
    /// Used rows of each sequence.
    pub used: Option<Vec<i32>>,
    /// What is said of the longest packed sequence.
    pub longest: usize,
}

impl Rows {
    pub fn dense(batch: usize, rows: usize, heads: usize) -> Self {
        Rows { storages: batch, rows, heads, starts: None, used: None, longest: 0 }
    }

    pub fn dense_used(rows: usize, heads: usize, used: &[i32]) -> Self {
        Rows { used: Some(used.to_vec()), ..Rows::dense(used.len(), rows, heads) }
    }

    /// Packed, with a hint of the longest sequence.
    pub fn packed(rows: usize, heads: usize, starts: &[i32], longest: usize) -> Self {
        Rows { starts: Some(starts.to_vec()), longest, ..Rows::dense(1, rows, heads) }
    }

    pub fn packed_used(self, used: &[i32]) -> Self {
        Rows { used: Some(used.to_vec()), ..self }
    }

    /// A few of each kind: one row, some, ragged ones, hints too small, rows after the last.
    pub fn kinds() -> Vec<Rows> {
        vec![
            Rows::dense(2, 1, 3),
            Rows::dense(1, 37, 2),
            Rows::dense_used(19, 2, &[19, 0, 7]),
            Rows::packed(45, 2, &[0, 5, 5, 38], 33),
            Rows::packed(300, 1, &[0, 260, 261], 1),
            Rows::packed(30, 2, &[0, 11, 11, 30], 100).packed_used(&[4, 0, 19]),
        ]
    }

    /// Whether a sequence uses the row.
    pub fn uses(&self, storage: usize, row: usize) -> bool {
        let used = |b: usize, length: usize| match &self.used {
            Some(used) => used[b] as usize,
            None => length,
        };
        match &self.starts {
            None => row < used(storage, self.rows),
            Some(starts) => starts.windows(2).enumerate().any(|(b, range)| {
                let (start, end) = (range[0] as usize, range[1] as usize);
                (start..start + used(b, end - start)).contains(&row)
            }),
        }
    }

    /// The shape of a tensor of rows.
    pub fn shape(&self, columns: usize) -> Vec<usize> {
        match self.starts {
            None => vec![self.storages, self.rows, self.heads, columns],
            Some(_) => vec![self.rows, self.heads, columns],
        }
    }

    /// The shape of lse.
    pub fn numbers(&self) -> Vec<usize> {
        match self.starts {
            None => vec![self.storages, self.heads, self.rows],
            Some(_) => vec![self.heads, self.rows],
        }
    }

    /// (storage, row) of an index of a tensor of rows.
    pub fn row_of(&self, index: &[usize]) -> (usize, usize) {
        if self.starts.is_some() { (0, index[0]) } else { (index[0], index[1]) }
    }

    /// Whether a sequence uses the row of an index of a tensor of rows.
    pub fn uses_row(&self, index: &[usize]) -> bool {
        let (storage, row) = self.row_of(index);
        self.uses(storage, row)
    }

    /// Whether a sequence uses the row of an index of lse.
    pub fn uses_number(&self, index: &[usize]) -> bool {
        let row = index[index.len() - 1];
        self.uses(if self.starts.is_some() { 0 } else { index[0] }, row)
    }

    /// The index of a column, of a row that an index of lse is of.
    pub fn column(&self, number: &[usize], column: usize) -> Vec<usize> {
        match *number {
            [b, h, i] => vec![b, i, h, column],
            [h, i] => vec![i, h, column],
            _ => panic!("lse has 2 or 3 dimensions"),
        }
    }
}

/// What a call is given.
pub struct Given<'a> {
    pub rows: &'a Rows,
    pub dtype: DType,
    pub dims: [usize; 2],
    pub dout: &'a Held,
    pub out: OutOrDelta<'a>,
    pub lse: &'a Held,
    pub dlse: Option<&'a Held>,
    pub sinks: Option<&'a Held>,
    pub scale: f64,
}

/// Makes a checked call, whose q, k and v nobody may read.
pub fn with_call<T>(
    gpu: &mut Gpu,
    given: Given<'_>,
    targets: GradientTargets<'_>,
    body: impl FnOnce(&mut Gpu, &Backward<'_>) -> T,
) -> T {
    let Given { rows, dtype, dims: [d, dv], .. } = given;
    let sequences = rows.starts.as_ref().map_or(rows.storages, |starts| starts.len() - 1);
    let key_shape = |columns| match rows.starts {
        None => vec![sequences, 3, rows.heads, columns],
        Some(_) => vec![3, rows.heads, columns],
    };
    let q = gpu.empty(dtype, &rows.shape(d), Layout::Plain);
    let k = gpu.empty(dtype, &key_shape(d), Layout::Plain);
    let v = gpu.empty(dtype, &key_shape(dv), Layout::Plain);
    let used = rows.used.as_ref().map(|used| gpu.list(used));
    let starts = rows
        .starts
        .as_ref()
        .map(|starts| (gpu.list(starts), gpu.empty(DType::I32, &[starts.len()], Layout::Plain)));
    let mut attention = Attention::new().scale(given.scale);
    if let Some((q, k)) = &starts {
        attention = attention.cu_seqlens(q.view(), k.view()).max_seqlens(rows.longest, 3);
    }
    if let Some(used) = &used {
        attention = attention.seqused_q(used.view());
    }
    if let Some(sinks) = given.sinks {
        attention = attention.sinks(sinks.view());
    }
    let problem = Problem::new(&attention, q.view(), k.view(), v.view()).unwrap();
    let inputs = BackwardInputs {
        dout: given.dout.view(),
        out: given.out,
        lse: given.lse.view(),
        dlse: given.dlse.map(Held::view),
    };
    body(gpu, &Backward::new(&problem, inputs, targets).unwrap())
}

/// The limits of the target that has all types.
pub fn limits() -> Limits {
    Limits::of(Target::Sm80)
}
