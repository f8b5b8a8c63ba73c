//! The programs as data: they build, and their launches fit their kernels.

use jhalak_programs::{Argument, Element, Meaning, Program, Size, gallery};
use jhalak_ptx::{BlockThreads, Major, ParameterKind, Target};

fn every_program() -> Vec<(&'static str, Program)> {
    Target::ALL.into_iter().flat_map(|target| gallery(target, 2).unwrap()).collect()
}

#[test]
fn every_program_builds_on_every_target_that_has_it() {
    let counts = Target::ALL.map(|target| gallery(target, 132).unwrap().len());
    assert_eq!(counts, [2, 3, 3, 8]);
}

#[test]
fn every_launch_fits_its_kernel() {
    for (name, Program { module, launch, .. }) in every_program() {
        let kernel = module.kernel(launch.kernel).unwrap();
        let fits = match kernel.bounds().threads {
            BlockThreads::Any => true,
            BlockThreads::AtMost(threads) => launch.block <= threads,
            BlockThreads::Exactly(threads) => launch.block == threads,
        };
        assert!(fits, "{name}");
        assert_eq!(launch.shared_bytes, kernel.dynamic_shared().bytes(), "{name}");
        assert_eq!(launch.arguments.len(), kernel.parameters().len(), "{name}");
        for (argument, parameter) in launch.arguments.iter().zip(kernel.parameters()) {
            let fits = match (argument, parameter.kind) {
                (Argument::U32(_), ParameterKind::U32) => true,
                (Argument::Address(buffer), ParameterKind::Pointer { .. }) => {
                    *buffer < launch.buffers.len()
                }
                (Argument::TensorMap(buffer, _), ParameterKind::TensorMap) => {
                    *buffer < launch.buffers.len()
                }
                _ => false,
            };
            assert!(fits, "{name}: {parameter:?} of {argument:?}");
        }
    }
}

#[test]
fn every_tensor_map_is_legal_and_stays_inside_its_buffer() {
    for (name, Program { launch, .. }) in every_program() {
        for argument in &launch.arguments {
            let Argument::TensorMap(buffer, map) = argument else { continue };
            assert_eq!(map.validate(), Ok(()), "{name}");
            let buffer = launch.buffers[*buffer];
            let bytes = buffer.len as u64 * u64::from(buffer.element.bytes());
            let pitches = [u64::from(map.element.bytes())].into_iter().chain(map.strides.clone());
            let last: u64 =
                map.dims.iter().zip(pitches).map(|(dim, pitch)| (dim - 1) * pitch).sum();
            assert_eq!(last + u64::from(map.element.bytes()), bytes, "{name}, {}", buffer.name);
        }
    }
}

#[test]
fn products_are_those_of_the_textbook_however_b_is_stored() {
    let size = Size { m: 1, n: 2, k: 2 };
    let product = |b, stored: [f64; 4]| {
        Meaning::Product { size, b }.expected(&[vec![1.0, 2.0], stored.to_vec()])
    };
    assert_eq!(product(Major::Mn, [3.0, 4.0, 5.0, 6.0]), [13.0, 16.0]);
    assert_eq!(product(Major::K, [3.0, 5.0, 4.0, 6.0]), [13.0, 16.0]);
}

#[test]
fn rows_of_a_softmax_sum_to_one_and_columns_are_summed_downwards() {
    let x = vec![0.0, 0.0, 1000.0, 0.0];
    let softmax = Meaning::RowSoftmax { columns: 2 }.expected(std::slice::from_ref(&x));
    assert_eq!(softmax, [0.5, 0.5, 1.0, 0.0]);
    assert_eq!(Meaning::ColumnSums { columns: 2 }.expected(&[x]), [1000.0, 0.0]);
}

#[test]
fn numbers_have_their_bytes() {
    let bytes = [Element::E4m3, Element::Bf16, Element::F32].map(Element::bytes);
    assert_eq!(bytes, [1, 2, 4]);
}
