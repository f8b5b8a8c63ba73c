//! The rules of tensor maps are explained before the driver is asked.

use crate::common::fake::Fake;
use jhalak_cuda::driver::{Error, Swizzle, TensorMapType, TiledTensor};

/// Keys of [batch 2, 100 tokens, 8 heads, 128 columns] in bf16, by boxes of 64 columns and 64 tokens.
fn keys() -> TiledTensor<'static> {
    TiledTensor {
        dtype: TensorMapType::Bf16,
        address: 0x7f00_0000_0010,
        dims: &[128, 8, 100, 2],
        strides: &[256, 2048, 204_800],
        tile: &[64, 1, 64, 1],
        swizzle: Swizzle::Bytes128,
        fill_nan: false,
    }
}

#[test]
fn a_good_map_reaches_the_driver_as_it_is() {
    let fake = Fake::new();
    let context = fake.context();
    fake.calls();
    keys().encode(&context).unwrap();
    let expected = "cuTensorMapEncodeTiled(dtype=9 address=0x7f0000000010 dims=[128, 8, 100, 2] \
                    strides=[256, 2048, 204800] tile=[64, 1, 64, 1] element_strides=[1, 1, 1, 1] \
                    interleave=0 swizzle=3 promotion=3 fill=0 misaligned=0)";
    let calls = fake.calls();
    let at = calls.iter().position(|call| call == expected).expect(expected);
    // A context must be current, and the thread's own is given back.
    assert!(calls[..at].iter().any(|call| call.starts_with("cuCtxPushCurrent")), "{calls:?}");
    assert!(calls[at..].iter().any(|call| call.starts_with("cuCtxPopCurrent")), "{calls:?}");
}

#[test]
fn types_swizzles_and_fills_have_the_drivers_codes() {
    let fake = Fake::new();
    let context = fake.context();
    for (dtype, code) in [(TensorMapType::F16, 6), (TensorMapType::F32, 7), (TensorMapType::U8, 0)]
    {
        fake.calls();
        let swizzle = Swizzle::Bytes32;
        let fill_nan = code != 0;
        TiledTensor {
            dtype,
            tile: &[16 / dtype.bytes() as u32, 1, 1, 1],
            swizzle,
            fill_nan,
            ..keys()
        }
        .encode(&context)
        .unwrap();
        let calls = fake.calls();
        let call = calls.iter().find(|call| call.starts_with("cuTensorMap")).unwrap();
        assert!(call.contains(&format!("dtype={code} ")), "{call}");
        assert!(
            call.contains(&format!("swizzle=1 promotion=3 fill={} ", fill_nan as u32)),
            "{call}"
        );
    }
}

#[test]
fn what_is_allowed_at_the_edges_is_allowed() {
    let all = |change: &dyn Fn(&mut TiledTensor<'static>)| {
        let mut tensor = keys();
        change(&mut tensor);
        tensor.check().unwrap();
    };
    all(&|t| t.dims = &[1 << 32, 1, 1, 1 << 32]);
    all(&|t| t.strides = &[0, 16, (1 << 40) - 16]);
    all(&|t| t.tile = &[64, 256, 256, 256]);
    all(&|t| (t.tile, t.swizzle) = (&[256, 1, 1, 1], Swizzle::None));
    all(&|t| (t.dims, t.strides, t.tile) = (&[8], &[], &[8]));
    all(&|t| (t.dims, t.strides, t.tile) = (&[8; 5], &[16; 4], &[8; 5]));
    all(&|t| (t.tile, t.swizzle) = (&[16, 1, 1, 1], Swizzle::Bytes32));
    all(&|t| (t.tile, t.swizzle) = (&[32, 1, 1, 1], Swizzle::Bytes64));
    all(&|t| t.fill_nan = true);
}

#[test]
fn each_broken_rule_is_named_with_what_was_given() {
    let fake = Fake::new();
    let context = fake.context();
    fake.calls();
    let broken = |change: &dyn Fn(&mut TiledTensor<'static>), message: &str| {
        let mut tensor = keys();
        change(&mut tensor);
        let error = tensor.encode(&context).unwrap_err();
        assert_eq!(error.to_string(), format!("tensor map: {message}"));
    };
    broken(&|t| t.dims = &[], "dims must be 1 to 5 numbers, but is 0");
    broken(&|t| t.dims = &[1; 6], "dims must be 1 to 5 numbers, but is 6");
    let rule = "strides must be one number for each outer dimension, but is";
    broken(&|t| t.strides = &[16; 4], &format!("{rule} 4"));
    broken(&|t| t.strides = &[16; 2], &format!("{rule} 2"));
    broken(&|t| t.tile = &[8], "tile must be one number for each dimension, but is 1");
    let rule = "address must be a multiple of 16 bytes, not null, but is";
    broken(&|t| t.address = 0x1008, &format!("{rule} 0x1008"));
    broken(&|t| t.address = 0, &format!("{rule} 0x0"));
    broken(&|t| t.dims = &[128, 0, 1, 1], "dims[1] must be 1 to 2^32 elements, but is 0");
    let rule = "dims[3] must be 1 to 2^32 elements, but is 4294967297";
    broken(&|t| t.dims = &[128, 1, 1, (1 << 32) + 1], rule);
    let rule = "must be a multiple of 16 bytes below 2^40, but is";
    broken(&|t| t.strides = &[256, 2056, 16], &format!("strides[1] {rule} 2056"));
    broken(&|t| t.strides = &[256, 16, 1 << 40], &format!("strides[2] {rule} 1099511627776"));
    broken(&|t| t.tile = &[64, 1, 257, 1], "tile[2] must be 1 to 256 elements, but is 257");
    broken(&|t| t.tile = &[64, 0, 1, 1], "tile[1] must be 1 to 256 elements, but is 0");
    let rule = "a row of the tile must be";
    broken(&|t| t.tile = &[12, 1, 1, 1], &format!("{rule} a multiple of 16 bytes, but is 24"));
    let wide = format!("{rule} at most the 128 bytes of its swizzle, but is 144");
    broken(&|t| t.tile = &[72, 1, 1, 1], &wide);
    let wide = format!("{rule} at most the 32 bytes of its swizzle, but is 128");
    broken(&|t| t.swizzle = Swizzle::Bytes32, &wide);
    let rule = "fill_nan must be false for a type that is not floating point, but is true";
    broken(&|t| (t.dtype, t.fill_nan) = (TensorMapType::U8, true), rule);
    assert_eq!(fake.calls(), [""; 0], "the driver was asked");
}

#[test]
fn a_driver_without_tensor_maps_is_told_by_the_missing_function() {
    let fake = Fake::lean();
    let error = keys().encode(&fake.context()).unwrap_err();
    assert_eq!(error, Error::MissingFunction { function: "cuTensorMapEncodeTiled" });
}
