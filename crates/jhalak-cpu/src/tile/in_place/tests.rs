//! Products and checks in every format, against plain sums.

use super::*;
use crate::dispatch::for_each_f32_isa;
use crate::isa::Scalar;

/// Small integers: all products and sums are exact in every format.
fn number(n: usize) -> f64 {
    (n * 7919 % 13) as f64 - 6.0
}

/// `rows` rows of `cols` numbers, `stride` apart, as bytes of a format.
fn stored<I: Isa>(format: Format, rows: usize, cols: usize, stride: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..rows * stride {
        // What lies between rows would be seen.
        let x = if at % stride < cols { number(at) } else { 1e4 };
        match format {
            Format::F16 => bytes.extend(f16::from_f64(x).to_ne_bytes()),
            Format::Bf16 => bytes.extend(bf16::from_f64(x).to_ne_bytes()),
            Format::Wide if size_of::<I::Elem>() == 4 => bytes.extend((x as f32).to_ne_bytes()),
            Format::Wide => bytes.extend(x.to_ne_bytes()),
        }
    }
    bytes
}

fn bytes_of<I: Isa>(format: Format) -> usize {
    with_format!(format, S => S::bytes::<I>())
}

/// Rows that lie in `bytes`, heads side by side.
fn heads<I: Isa>(bytes: &[u8], format: Format, count: usize, cols: usize) -> Vec<Rows> {
    let size = bytes_of::<I>(format);
    let stride = (count * cols * size) as isize;
    (0..count).map(|n| Rows { ptr: bytes[n * cols * size..].as_ptr(), stride, format }).collect()
}

const ALL: [Format; 3] = [Format::Wide, Format::F16, Format::Bf16];

fn check<I: Isa>(isa: I) {
    let e = |n: usize| I::Elem::from_f64(number(n + 3));
    for format in ALL {
        for (rows, keys, vectors, count) in
            [(1, 9, 1, 1), (2, 5, 3, 2), (3, 8, 9, 1), (4, 1, 2, 3), (7, 17, 5, 2), (0, 3, 1, 1)]
        {
            let cols = vectors * I::LANES;
            let bytes = stored::<I>(format, keys, count * cols, count * cols);
            let heads = heads::<I>(&bytes, format, count, cols);
            let key =
                |head: usize, key: usize, c: usize| number(key * count * cols + head * cols + c);
            let queries: Vec<I::Elem> = (0..count * rows * cols + 1).map(e).collect();
            let stride = keys + 3;
            let before = I::Elem::from_f64(77.0);
            let mut s = vec![before; count * rows * stride + 1];
            let products = Scores {
                isa,
                heads: &heads,
                keys,
                rows,
                depth: cols,
                queries: queries.as_ptr(),
                s: s.as_mut_ptr(),
                stride,
            };
            // SAFETY: the vectors are as large as the sizes say.
            unsafe { products.run() };
            for (at, x) in s[..count * rows * stride].iter().enumerate() {
                let (row, j) = (at / stride, at % stride);
                let truth: f64 = (0..cols)
                    .map(|c| queries[row * cols + c].to_f64() * key(row / rows, j, c))
                    .sum();
                let truth = if j < keys { truth } else { 77.0 };
                assert_eq!(x.to_f64(), truth, "{isa:?} {format:?} {rows} {keys} {cols}");
            }
            for (head, &values) in heads.iter().enumerate() {
                outputs(isa, values, (rows, keys, cols), |j, c| key(head, j, c));
            }
        }
    }
}

fn outputs<I: Isa>(
    isa: I,
    values: Rows,
    (rows, keys, width): (usize, usize, usize),
    value: impl Fn(usize, usize) -> f64,
) {
    let e = |n: usize| I::Elem::from_f64(number(n + 5));
    let stride = keys + 2;
    let weights: Vec<I::Elem> = (0..rows * stride + 1).map(e).collect();
    let alpha: Vec<I::Elem> = (0..rows).map(e).collect();
    let before: Vec<I::Elem> = (0..rows * width + 1).map(e).collect();
    let mut o = before.clone();
    let product = Outputs {
        isa,
        values,
        keys,
        rows,
        width,
        weights: weights.as_ptr(),
        stride,
        alpha: alpha.as_ptr(),
        o: o.as_mut_ptr(),
    };
    // SAFETY: the vectors are as large as the sizes say.
    unsafe { product.run() };
    for (at, x) in o[..rows * width].iter().enumerate() {
        let (row, c) = (at / width, at % width);
        let sum: f64 = (0..keys).map(|j| weights[row * stride + j].to_f64() * value(j, c)).sum();
        let truth = before[at].to_f64() * alpha[row].to_f64() + sum;
        assert_eq!(x.to_f64(), truth, "{isa:?} {rows} {keys} {width}");
    }
}

#[test]
fn products_are_exact_in_every_format() {
    for_each_f32_isa!(check);
}

#[test]
fn products_of_doubles_are_exact() {
    let (isa, cols) = (Scalar::<f64>::new(), 3 * Scalar::<f64>::LANES);
    let bytes = stored::<Scalar<f64>>(Format::Wide, 6, cols, cols);
    let rows = heads::<Scalar<f64>>(&bytes, Format::Wide, 1, cols)[0];
    outputs(isa, rows, (3, 6, cols), |j, c| number(j * cols + c));
}

#[test]
fn one_number_that_is_not_finite_is_found_wherever_it_stands() {
    fn check<I: Isa>(isa: I) {
        let cols = 5 * I::LANES;
        for format in ALL {
            let mut bytes = stored::<I>(format, 3, 2 * cols, 2 * cols);
            let rows = heads::<I>(&bytes, format, 2, cols);
            // SAFETY: the bytes hold three rows of both heads.
            let finite = || unsafe { all_finite(isa, &rows, 3, cols) };
            assert!(finite(), "{isa:?} {format:?}");
            let size = bytes_of::<I>(format);
            for at in (0..3 * 2 * cols).step_by(7) {
                for spoiled in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let number = match format {
                        Format::F16 => f16::from_f32(spoiled).to_ne_bytes().to_vec(),
                        Format::Bf16 => bf16::from_f32(spoiled).to_ne_bytes().to_vec(),
                        Format::Wide => spoiled.to_ne_bytes().to_vec(),
                    };
                    let place = at * size..(at + 1) * size;
                    let kept = bytes[place.clone()].to_vec();
                    bytes[place.clone()].copy_from_slice(&number);
                    assert!(!finite(), "{isa:?} {format:?} {at} {spoiled}");
                    bytes[place].copy_from_slice(&kept);
                }
            }
            assert!(finite());
        }
    }
    for_each_f32_isa!(check);
}
