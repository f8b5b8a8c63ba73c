//! ndarray's arrays, with any strides, are the same to a call as plain tensors.

mod common;

use common::{difference, tensor};
use jhalak::{Attention, DType, Element, FlashAttention, IntoView, Tensor, bf16, f16};
use ndarray::{Array1, Array3, Array4, Array5, ArrayView3, ArrayView4, Axis, s};

fn as_array(tensor: &Tensor) -> ArrayView4<'_, f32> {
    let dims: [usize; 4] = tensor.shape().try_into().unwrap();
    ArrayView4::from_shape(dims, tensor.as_slice().unwrap()).unwrap()
}

#[test]
fn transposed_reversed_sliced_and_broadcast_arrays_equal_contiguous_ones() {
    let q = tensor(1, &[2, 4, 7, 16]); // [B, H, S, D]
    let k = tensor(2, &[2, 18, 2, 32]);
    let v = tensor(3, &[1, 9, 2, 12]);
    let q = as_array(&q).permuted_axes([0, 2, 1, 3]);
    let mut k = as_array(&k).slice_move(s![.., ..;2, .., ..;-2]);
    k.invert_axis(Axis(1));
    let v = as_array(&v);
    let v = v.broadcast([2, 9, 2, 12]).unwrap();
    let plain = |x: &ArrayView4<'_, f32>| {
        Tensor::from_vec(x.iter().copied().collect::<Vec<f32>>(), x.shape()).unwrap()
    };
    let attention = Attention::new().causal();
    let strided = attention.forward(&q, &k, &v).unwrap();
    let contiguous = attention.forward(&plain(&q), &plain(&k), &plain(&v)).unwrap();
    assert_eq!(strided, contiguous);

    // Into a reversed slice of a larger array.
    let mut large = Array4::<f32>::from_elem((2, 14, 4, 12), 7.0);
    let mut out = large.slice_mut(s![.., ..;-2, .., ..]);
    let mut lse = Array3::<f32>::zeros((2, 4, 7));
    attention.forward_into(&q, &k, &v, &mut out, &mut lse).unwrap();
    let written = Tensor::from_vec(out.iter().copied().collect::<Vec<f32>>(), out.shape()).unwrap();
    assert_eq!(written, contiguous.out);
    assert!(large.slice(s![.., ..;2, .., ..]).iter().all(|&x| x == 7.0));
}

#[test]
fn packed_arrays_have_three_dimensions() {
    let x = tensor(4, &[6, 2, 8]);
    let array = ArrayView3::from_shape((6, 2, 8), x.as_slice::<f32>().unwrap()).unwrap();
    let starts = Array1::from(vec![0i64, 2, 6]);
    let starts = (&starts).into_view().unwrap();
    let attention = Attention::new().cu_seqlens(starts, starts);
    let of_array = attention.forward(&array, &array, &array).unwrap();
    assert_eq!(of_array, attention.forward(&x, &x, &x).unwrap());
}

#[test]
fn every_float_type_goes_in_and_comes_out() {
    fn check<T: Element>(dtype: DType, tolerance: f64) {
        let x = tensor(5, &[1, 4, 1, 8]);
        let values = x.to_f64_vec().into_iter().map(T::from_f64).collect();
        let array = Array4::from_shape_vec((1, 4, 1, 8), values).unwrap();
        let attended = Attention::new().forward(&array, &array, &array).unwrap();
        assert_eq!(attended.out.dtype(), dtype);
        let expected = Attention::new().forward(&x, &x, &x).unwrap();
        assert!(difference(&attended.out, &expected.out) < tolerance, "{dtype}");
    }
    check::<f32>(DType::F32, 1e-7);
    check::<f64>(DType::F64, 1e-6);
    check::<f16>(DType::F16, 4e-3);
    check::<bf16>(DType::BF16, 3e-2);
}

#[test]
fn too_many_dimensions_and_other_element_types_are_refused() {
    let x = Array5::<f32>::zeros((1, 1, 1, 1, 1));
    assert!(Attention::new().forward(&x, &x, &x).is_err());
    let x = Array4::<i32>::zeros((1, 1, 1, 1));
    assert!(Attention::new().forward(&x, &x, &x).is_err());
}
