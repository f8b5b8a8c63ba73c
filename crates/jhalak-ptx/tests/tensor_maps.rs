//! Descriptions of tensors for the copy engine, and their rules.

use jhalak_ptx::{OutOfBounds, Swizzle, TensorElement, TensorMapSpec};

/// bf16, 3 × 100 × 128, boxes of 64 columns and 32 rows.
fn tensor() -> TensorMapSpec {
    TensorMapSpec::new(
        TensorElement::Bf16,
        &[128, 100, 3],
        &[256, 25600],
        &[64, 32, 1],
        Swizzle::Bytes128,
    )
}

/// The rule that a changed description breaks.
fn broken_rule(change: impl FnOnce(&mut TensorMapSpec)) -> &'static str {
    let mut tensor = tensor();
    change(&mut tensor);
    tensor.validate().expect_err("should have been refused").rule
}

#[test]
fn a_box_has_the_bytes_that_a_barrier_expects() {
    let mut tensor = tensor();
    assert_eq!(tensor.validate(), Ok(()));
    assert_eq!((tensor.rank(), tensor.tile_bytes()), (3, 64 * 32 * 2));
    tensor.element_strides[1] = 3;
    assert_eq!(tensor.validate(), Ok(()));
    assert_eq!(tensor.tile_bytes(), 64 * 11 * 2);
}

#[test]
fn a_matrix_lists_its_columns_first() {
    let matrix = TensorMapSpec::matrix(TensorElement::F32, [10, 64], [8, 32], Swizzle::Bytes128);
    assert_eq!(matrix.validate(), Ok(()));
    assert_eq!((matrix.dims, matrix.strides, matrix.tile), (vec![64, 10], vec![256], vec![32, 8]));
}

#[test]
fn a_map_has_one_to_five_dimensions_each_fully_described() {
    let empty = TensorMapSpec::new(TensorElement::U8, &[], &[], &[], Swizzle::None);
    assert_eq!(empty.validate().unwrap_err().rule, "a tensor has 1 to 5 dimensions");
    let rule = "tile and element strides are as many as dimensions, strides one fewer";
    assert_eq!(broken_rule(|t| t.strides.push(16)), rule);
    assert_eq!(broken_rule(|t| t.tile.truncate(2)), rule);
    assert_eq!(broken_rule(|t| t.element_strides.truncate(1)), rule);
}

#[test]
fn sizes_and_strides_are_in_range() {
    let dims = "dimensions are 1 to 2^32 elements";
    assert_eq!(broken_rule(|t| t.dims[2] = 0), dims);
    assert_eq!(broken_rule(|t| t.dims[1] = (1 << 32) + 1), dims);
    let strides = "strides are multiples of 16 bytes below 2^40";
    assert_eq!(broken_rule(|t| t.strides[0] = 200), strides);
    assert_eq!(broken_rule(|t| t.strides[1] = 1 << 40), strides);
    let span = "a box spans 1 to 256 elements";
    assert_eq!(broken_rule(|t| t.tile[1] = 257), span);
    assert_eq!(broken_rule(|t| t.tile[2] = 0), span);
    assert_eq!(broken_rule(|t| t.element_strides[2] = 9), "element strides are 1 to 8");
    let all = "along the innermost dimension all elements are taken";
    assert_eq!(broken_rule(|t| t.element_strides[0] = 2), all);
}

#[test]
fn a_row_of_a_box_fits_its_swizzle() {
    assert_eq!(broken_rule(|t| t.tile[0] = 12), "a box's row is a multiple of 16 bytes");
    let swizzle = "a box's row is no wider than the swizzle";
    assert_eq!(broken_rule(|t| t.tile[0] = 72), swizzle);
    assert_eq!(broken_rule(|t| t.swizzle = Swizzle::Bytes64), swizzle);
}

#[test]
fn only_floats_are_filled_with_nan() {
    let rule = broken_rule(|t| {
        t.element = TensorElement::U8;
        t.fill = OutOfBounds::Nan;
    });
    assert_eq!(rule, "only floats are filled with NaN");
}

#[test]
fn an_error_says_what_it_found() {
    let mut tensor = tensor();
    tensor.strides[0] = 200;
    assert_eq!(
        tensor.validate().unwrap_err().to_string(),
        "strides are multiples of 16 bytes below 2^40; here: [200, 25600]"
    );
}
