//! Case 25 and ring attention: a call cut into blocks of queries and keys, placed by their
//! positions and merged, equals the whole; so do gradients added block by block.

mod common;

use common::case::Case;
use common::run::engine;
use common::strided::{Layout, Strided, noise};
use jhalak_cpu::{Engine, IsaKind};
use jhalak_problem::reference::{self, judge};
use jhalak_problem::{
    Attention, Backward, BackwardInputs, DType, Element, Forward, Gradient, GradientTargets,
    OutOrDelta, Problem, TensorView, TensorViewMut,
};

const HEADS: usize = 2;
const D: usize = 8;
const ROW: usize = HEADS * D;

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    (0..count).map(|n| noise(seed, &[n]) as f32).collect()
}

/// Rows `from..to` of a [1, S, H, D] tensor.
fn rows<T: Element>(x: &[T], from: usize, to: usize) -> TensorView<'_> {
    TensorView::from_slice(&x[from * ROW..to * ROW], &[1, to - from, HEADS, D]).unwrap()
}

fn rows_mut<T: Element>(x: &mut [T], from: usize, to: usize) -> TensorViewMut<'_> {
    TensorViewMut::from_slice(&mut x[from * ROW..to * ROW], &[1, to - from, HEADS, D]).unwrap()
}

/// Positions `from..to` of a [1, H, S] tensor.
fn positions(x: &[f32], seqlen: usize, from: usize, to: usize) -> TensorView<'_> {
    let strides = [(HEADS * seqlen) as isize, seqlen as isize, 1];
    TensorView::strided(x, from, &[1, HEADS, to - from], &strides).unwrap()
}

fn positions_mut(x: &mut [f32], seqlen: usize, from: usize, to: usize) -> TensorViewMut<'_> {
    let strides = [(HEADS * seqlen) as isize, seqlen as isize, 1];
    TensorViewMut::strided(x, from, &[1, HEADS, to - from], &strides).unwrap()
}

/// A whole call: `queries` positions from `offset` on, against `keys`.
struct Whole {
    queries: usize,
    keys: usize,
    offset: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    dout: Vec<f32>,
    dlse: Vec<f32>,
}

struct Results {
    out: Vec<f32>,
    lse: Vec<f32>,
    grads: [Vec<f32>; 3],
}

impl Whole {
    fn new(queries: usize, keys: usize) -> Self {
        Whole {
            queries,
            keys,
            offset: keys - queries,
            q: numbers(1, queries * ROW),
            k: numbers(2, keys * ROW),
            v: numbers(3, keys * ROW),
            dout: numbers(4, queries * ROW),
            dlse: numbers(5, queries * HEADS),
        }
    }

    /// In blocks of this many queries and keys.
    fn run(&self, engine: &Engine, options: &Attention<'_>, chunk: (usize, usize)) -> Results {
        let nan = |n: usize| vec![f32::NAN; n];
        let (mut out, mut lse) = (nan(self.queries * ROW), nan(self.queries * HEADS));
        let grads = [&self.q, &self.k, &self.v].map(|x| vec![0f32; x.len()]);
        let starts = |total: usize, step: usize| (0..total).step_by(step);
        let block = |q_from: usize, k_from: usize| {
            let at = (self.offset + q_from) as i64;
            options.clone().q_start(at).k_start(k_from as i64)
        };
        for q_from in starts(self.queries, chunk.0) {
            let q_to = self.queries.min(q_from + chunk.0);
            let mut parts = Vec::new();
            for k_from in starts(self.keys, chunk.1) {
                let k_to = self.keys.min(k_from + chunk.1);
                let attention = block(q_from, k_from);
                let (q, k) = (rows(&self.q, q_from, q_to), rows(&self.k, k_from, k_to));
                let problem = Problem::new(&attention, q, k, rows(&self.v, k_from, k_to)).unwrap();
                let count = q_to - q_from;
                let (mut out, mut lse) = (nan(count * ROW), nan(count * HEADS));
                let (o, l) =
                    (rows_mut(&mut out, 0, count), positions_mut(&mut lse, count, 0, count));
                engine.forward(&Forward::new(&problem, o, l).unwrap()).unwrap();
                parts.push((out, lse, count));
            }
            let views: Vec<_> = parts
                .iter()
                .map(|(out, lse, n)| (rows(out, 0, *n), positions(lse, *n, 0, *n)))
                .collect();
            let lse = positions_mut(&mut lse, self.queries, q_from, q_to);
            engine.merge(&views, rows_mut(&mut out, q_from, q_to), lse).unwrap();
        }
        let mut results = Results { out, lse, grads };
        for q_from in starts(self.queries, chunk.0) {
            let q_to = self.queries.min(q_from + chunk.0);
            for k_from in starts(self.keys, chunk.1) {
                let k_to = self.keys.min(k_from + chunk.1);
                let attention = block(q_from, k_from);
                let (q, k) = (rows(&self.q, q_from, q_to), rows(&self.k, k_from, k_to));
                let problem = Problem::new(&attention, q, k, rows(&self.v, k_from, k_to)).unwrap();
                let inputs = BackwardInputs {
                    dout: rows(&self.dout, q_from, q_to),
                    out: OutOrDelta::Out(rows(&results.out, q_from, q_to)),
                    lse: positions(&results.lse, self.queries, q_from, q_to),
                    dlse: Some(positions(&self.dlse, self.queries, q_from, q_to)),
                };
                let [dq, dk, dv] = &mut results.grads;
                let mut targets = GradientTargets::default();
                targets.dq = Some(Gradient::Add(rows_mut(dq, q_from, q_to)));
                targets.dk = Some(Gradient::Add(rows_mut(dk, k_from, k_to)));
                targets.dv = Some(Gradient::Add(rows_mut(dv, k_from, k_to)));
                engine.backward(&Backward::new(&problem, inputs, targets).unwrap()).unwrap();
            }
        }
        results
    }
}

fn close(name: &str, expected: &[f32], found: &[f32], bound: f32) {
    for (n, (x, y)) in expected.iter().zip(found).enumerate() {
        assert!(x == y || (x - y).abs() <= bound, "{name}[{n}]: {y} instead of {x}");
    }
}

fn equal_in_blocks(whole: &Whole, options: &Attention<'_>, chunks: &[(usize, usize)]) {
    for isa in IsaKind::available() {
        let engine = engine(isa, 2);
        let expected = whole.run(&engine, options, (whole.queries, whole.keys));
        for &chunk in chunks {
            let found = whole.run(&engine, options, chunk);
            close("out", &expected.out, &found.out, 2e-6);
            close("lse", &expected.lse, &found.lse, 1e-5);
            for (name, (x, y)) in
                ["dq", "dk", "dv"].iter().zip(expected.grads.iter().zip(&found.grads))
            {
                close(name, x, y, 4e-5);
            }
        }
    }
}

/// Every option that depends on positions.
fn options(slopes: &[f32; HEADS]) -> [Attention<'_>; 5] {
    let slopes = TensorView::from_slice(slopes, &[HEADS]).unwrap();
    [
        Attention::new(),
        Attention::new().causal(),
        Attention::new().causal().window(5, 0),
        Attention::new().window(9, 4).alibi_slopes(slopes).softcap(2.0),
        Attention::new().causal().dropout(0.2, 9, 3),
    ]
}

#[test]
fn every_size_of_chunks_equals_the_whole() {
    let chunks: Vec<_> = (1..=21).flat_map(|q| [1, 2, 5, 16, 21, 30].map(|k| (q, k))).collect();
    for options in options(&[0.1, 0.3]) {
        equal_in_blocks(&Whole::new(21, 30), &options, &chunks);
    }
}

#[test]
fn chunks_of_long_prompts_equal_the_whole() {
    let chunks = [(1000, 256), (100, 257), (333, 1000), (999, 999)];
    for options in options(&[0.01, 0.3]) {
        equal_in_blocks(&Whole::new(1000, 1000), &options, &chunks);
    }
}

/// The positions a call has by default are those of its last block.
#[test]
fn a_call_without_positions_is_the_one_whose_last_query_sits_on_the_last_key() {
    for isa in IsaKind::available() {
        for (queries, keys) in [(7, 40), (40, 7), (9, 9)] {
            let case = Case {
                causal: true,
                window: Some((6, 0)),
                alibi: Some(false),
                dropout: Some(0.3),
                ..Case::dense(2, queries, keys, 2, 8)
            };
            let placed = Case { starts: Some((keys as i64 - queries as i64, 0)), ..case.clone() };
            let moved =
                Case { starts: Some((keys as i64 - queries as i64 + 32, 32)), ..case.clone() };
            let bits = |case: &Case| {
                let tensors = case.tensors();
                let attention = case.attention(&tensors);
                common::run::attend(isa, &attention, &tensors)
            };
            assert_eq!(bits(&case), bits(&placed), "{isa}");
            // Other positions drop others; without dropout only differences count.
            let without = |case: &Case| bits(&Case { dropout: None, ..case.clone() });
            assert_eq!(without(&case), without(&moved), "{isa}");
        }
    }
}

/// Cases 82, 85 and 87, for every dtype and number of parts: empty parts hold NaN, and lse lie far
/// apart.
#[test]
fn merged_parts_of_any_dtype_equal_the_reference() {
    let (shape, lse_shape) = ([2, 3, 2, 5], [2, 2, 3]);
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for count in [1, 2, 3, 7] {
            for spread in [1.0, 100.0, 1e6] {
                let empty = |part: usize, row: usize| noise(part as u64 + 50, &[row]) > 0.8;
                let lse_dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
                let parts: Vec<[Strided; 2]> = (0..count)
                    .map(|part| {
                        let lse = Strided::new(lse_dtype, &lse_shape, &Layout::default(), |i| {
                            let row = (i[0] * 3 + i[2]) * 2 + i[1];
                            let none = [f64::INFINITY, f64::NEG_INFINITY][part % 2];
                            if empty(part, row) { none } else { spread * noise(part as u64, i) }
                        });
                        let out = Strided::new(dtype, &shape, &Layout::default(), |i| {
                            let row = (i[0] * 3 + i[1]) * 2 + i[2];
                            if empty(part, row) { f64::NAN } else { noise(part as u64 + 9, i) }
                        });
                        [out, lse]
                    })
                    .collect();
                let views: Vec<_> =
                    parts.iter().map(|[out, lse]| (out.view(), lse.view())).collect();
                let mut out = Strided::poisoned(dtype, &shape, &Layout::default());
                let mut lse = Strided::poisoned(lse_dtype, &lse_shape, &Layout::default());
                let engine = engine(IsaKind::selected().unwrap(), 2);
                engine.merge(&views, out.view_mut(), lse.view_mut()).unwrap();

                // The reference takes lse in the order of out's rows: [B, Sq, Hq].
                let by_rows = |lse: &[f64]| -> Vec<f64> {
                    (0..12).map(|n| lse[(n / 6 * 2 + n % 2) * 3 + n / 2 % 3]).collect()
                };
                let numbers: Vec<_> =
                    parts.iter().map(|[out, lse]| (out.values(), by_rows(&lse.values()))).collect();
                let slices: Vec<_> = numbers.iter().map(|(o, l)| (&o[..], &l[..])).collect();
                let truth = reference::merge(&slices, 5);
                let ulp = judge::ulp(dtype, 2.0);
                for (x, y) in truth.out.iter().zip(out.values()) {
                    assert!((x - y).abs() <= 2.0 * ulp, "{dtype} {count} {spread}: {y} not {x}");
                }
                for (x, y) in truth.lse.iter().zip(by_rows(&lse.values())) {
                    let bound = judge::ulp(lse_dtype, *x) + 1e-6;
                    assert!(*x == y || (x - y).abs() <= bound, "{dtype} {spread}: {y} not {x}");
                }
            }
        }
    }
}
