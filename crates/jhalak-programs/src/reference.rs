//! What programs compute, in double precision.

use jhalak_ptx::Major;

use crate::Size;

/// What a program's output is, given its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The sum of two vectors.
    Sum,
    /// The softmax of each row.
    RowSoftmax {
        /// Elements of a row.
        columns: usize,
    },
    /// The sum of each column.
    ColumnSums {
        /// Elements of a row.
        columns: usize,
    },
    /// A matrix product. a is stored row by row, c too.
    Product {
        /// The sizes.
        size: Size,
        /// How b is stored: column by column (K) or row by row (Mn).
        b: Major,
    },
}

impl Meaning {
    /// The output, row by row. `inputs` are the input buffers, in the order of the launch.
    pub fn expected(&self, inputs: &[Vec<f64>]) -> Vec<f64> {
        match *self {
            Meaning::Sum => inputs[0].iter().zip(&inputs[1]).map(|(a, b)| a + b).collect(),
            Meaning::RowSoftmax { columns } => {
                inputs[0].chunks(columns).flat_map(softmax).collect()
            }
            Meaning::ColumnSums { columns } => {
                let rows = || inputs[0].chunks(columns);
                (0..columns).map(|column| rows().map(|row| row[column]).sum()).collect()
            }
            Meaning::Product { size, b } => product(size, &inputs[0], &inputs[1], b),
        }
    }
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = row.iter().map(|x| (x - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

fn product(size: Size, a: &[f64], b: &[f64], b_major: Major) -> Vec<f64> {
    let (columns, depth) = (size.n as usize, size.k as usize);
    let b_at = |k: usize, n: usize| match b_major {
        Major::K => b[n * depth + k],
        Major::Mn => b[k * columns + n],
    };
    let row = |a: &[f64]| -> Vec<f64> {
        (0..columns).map(|n| (0..depth).map(|k| a[k] * b_at(k, n)).sum()).collect()
    };
    a.chunks(depth).flat_map(row).collect()
}
