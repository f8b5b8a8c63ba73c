//! NumPy's .npy files: the header that NumPy writes, and nothing more.
//!
//! The format allows any Python literal as a header, as deep and as long as it likes; parsers of
//! the whole language pay for that with stack and memory. NumPy's own headers are flat:
//!
//! ```text
//! \x93NUMPY 1 0 <header length> {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//! ```

use jhalak::{DType, Element, Tensor, TensorView, bf16, f16};

use crate::files::decode;

/// The tensor in a file's bytes; what is wrong, otherwise.
pub(crate) fn parse(bytes: &[u8]) -> Result<Tensor, String> {
    let unsound = || "is not a sound .npy file".to_string();
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(unsound)?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err(unsound()),
    };
    let (header, data) = rest.split_at_checked(length).ok_or_else(unsound)?;
    let header = std::str::from_utf8(header).ok().and_then(Header::parse).ok_or_else(unsound)?;
    let dtype = match header.descr {
        "<f4" => DType::F32,
        "<f2" => DType::F16,
        "<f8" => DType::F64,
        "<i4" => DType::I32,
        "<i8" => DType::I64,
        "|b1" => DType::Bool,
        other => {
            let known = "<f4, <f2, <f8, <i4, <i8 and |b1";
            return Err(format!("has NumPy dtype {other}, but jhalak reads {known}"));
        }
    };
    let shape = &header.shape;
    let numel = shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
    if numel.and_then(|n| n.checked_mul(dtype.size())) != Some(data.len()) {
        return Err(format!("must hold {dtype}{shape:?}, but has {} bytes of data", data.len()));
    }
    if !header.fortran_order {
        return decode(dtype, data, shape);
    }
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    row_major(&decode(dtype, data, &reversed)?, shape)
}

/// The same elements with the dimensions in the opposite order.
fn row_major(reversed: &Tensor, shape: &[usize]) -> Result<Tensor, String> {
    fn copy<T: Element>(reversed: &Tensor, shape: &[usize]) -> jhalak::Result<Tensor> {
        let elements = reversed.as_slice::<T>().expect("asked by its own dtype");
        let mut strides = Vec::with_capacity(shape.len());
        let mut step = 1isize;
        for &size in shape {
            strides.push(step);
            step *= size.max(1) as isize;
        }
        let view = TensorView::strided(elements, 0, shape, &strides)?;
        Tensor::from_vec(view.to_f64_vec().into_iter().map(T::from_f64).collect(), shape)
    }
    match reversed.dtype() {
        DType::F32 => copy::<f32>(reversed, shape),
        DType::F16 => copy::<f16>(reversed, shape),
        DType::BF16 => copy::<bf16>(reversed, shape),
        DType::I32 => copy::<i32>(reversed, shape),
        DType::I64 => copy::<i64>(reversed, shape),
        DType::Bool => copy::<bool>(reversed, shape),
        _ => copy::<f64>(reversed, shape),
    }
    .map_err(|error| error.to_string())
}

/// What a header says.
struct Header<'h> {
    descr: &'h str,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl<'h> Header<'h> {
    fn parse(text: &'h str) -> Option<Self> {
        let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        let mut rest = inside.trim();
        while !rest.is_empty() {
            let (key, after) = rest.strip_prefix('\'')?.split_once('\'')?;
            let value = after.trim_start().strip_prefix(':')?.trim_start();
            // A shape holds commas; nothing else does.
            let end = match value.strip_prefix('(') {
                Some(tuple) => tuple.find(')')? + 2,
                None => value.find(',').unwrap_or(value.len()),
            };
            let (value, after) = value.split_at(end);
            match key {
                "descr" => descr = Some(value.trim().strip_prefix('\'')?.strip_suffix('\'')?),
                "fortran_order" => fortran_order = Some(parse_bool(value.trim())?),
                "shape" => shape = Some(parse_shape(value)?),
                _ => return None,
            }
            let after = after.trim_start();
            rest = if after.is_empty() { after } else { after.strip_prefix(',')?.trim_start() };
        }
        Some(Header { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

fn parse_shape(tuple: &str) -> Option<Vec<usize>> {
    let inside = tuple.strip_prefix('(')?.strip_suffix(')')?.trim();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    if inside.is_empty() {
        return Some(Vec::new());
    }
    inside.split(',').map(|size| size.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn numbers(n: usize) -> Vec<u8> {
        (0..n).flat_map(|x| (x as f32).to_le_bytes()).collect()
    }

    #[test]
    fn what_numpy_writes_is_read() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n";
        let tensor = parse(&file(header, &numbers(6))).unwrap();
        assert_eq!(tensor.shape(), [2, 3]);
        assert_eq!(tensor.to_f64_vec(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(parse(&file(header, &numbers(3))).unwrap().shape(), [3]);
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (), }";
        assert_eq!(parse(&file(header, &numbers(1))).unwrap().shape(), [0usize; 0]);
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4), }";
        assert_eq!(parse(&file(header, &[])).unwrap().shape(), [0, 4]);
    }

    #[test]
    fn fortran_order_is_turned_into_row_major() {
        let header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
        let tensor = parse(&file(header, &numbers(6))).unwrap();
        assert_eq!(tensor.shape(), [2, 3]);
        assert_eq!(tensor.to_f64_vec(), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    }

    #[test]
    fn sizes_that_do_not_match_the_data_are_refused() {
        for shape in ["(2, 2)", "(7,)", "(4611686018427387904, 4)", "(18446744073709551615,)"] {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
            assert!(parse(&file(&header, &numbers(6))).is_err(), "{shape}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn no_header_makes_it_panic(
            header in "[{}()':, \\-0-9a-zTF]{0,60}",
            known in "\\{'(descr|shape|fortran_order)': ?'?[<>|(]?[f0-9,) ]{0,6}'?,? ?\\}?",
        ) {
            let _ = parse(&file(&header, &[]));
            let _ = parse(&file(&known, &[]));
        }
    }
}
