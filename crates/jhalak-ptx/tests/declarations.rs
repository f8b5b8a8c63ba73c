//! Parameters, shared memory and launch bounds: their text, their layout and their rules.

use jhalak_ptx::{
    BlockThreads, Error, KernelBuilder, Module, ModuleBuilder, ParameterKind, Placement, Target,
};

fn module(body: impl FnOnce(&mut KernelBuilder)) -> Module {
    let mut module = ModuleBuilder::new(Target::Sm90a);
    module.kernel("declared", body);
    module.build().unwrap()
}

fn broken_rule(body: impl FnOnce(&mut KernelBuilder)) -> &'static str {
    let mut module = ModuleBuilder::new(Target::Sm75);
    module.kernel("declared", body);
    match module.build() {
        Err(Error::Declaration { rule, .. }) => rule,
        other => panic!("should have been refused: {other:?}"),
    }
}

#[test]
fn declarations_stand_before_the_instructions() {
    let module = module(|k| {
        k.param_pointer("q", 16);
        k.param_u32("seqlen");
        k.param_u64("stride");
        k.param_f32("scale");
        k.param_tensor_map("map");
        k.reqntid(384);
        k.minnctapersm(1);
        k.maxnreg(168);
        k.static_shared("barriers", 64, 8);
        k.dynamic_shared("tile", 4096, 1024);
    });
    assert_eq!(
        module.text(),
        "\
.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 declared_dynamic[];
.visible .entry declared(
  .param .u64 .ptr .global .align 16 param_q,
  .param .u32 param_seqlen,
  .param .u64 param_stride,
  .param .f32 param_scale,
  .param .align 64 .b8 param_map[128]
)
.reqntid 384, 1, 1
.minnctapersm 1
.maxnreg 168
{
  .shared .align 16 .b8 declared_static[64];
  ret;
}
"
    );
}

#[test]
fn the_host_can_read_parameters_bounds_and_layout() {
    let module = module(|k| {
        k.param_pointer("q", 16);
        k.param_tensor_map("map");
        k.maxntid(128);
        k.dynamic_shared("first", 100, 16);
        k.dynamic_shared("second", 4096, 1024);
    });
    let kernel = module.kernel("declared").unwrap();
    let kinds: Vec<_> = kernel.parameters().iter().map(|parameter| parameter.kind).collect();
    assert_eq!(kinds, [ParameterKind::Pointer { align: 16 }, ParameterKind::TensorMap]);
    assert_eq!((kinds[1].bytes(), kinds[1].align()), (128, 64));
    assert_eq!(kernel.bounds().threads, BlockThreads::AtMost(128));
    let layout = kernel.dynamic_shared();
    let second = layout.get("second").unwrap();
    assert_eq!((second.placement, second.offset, second.bytes), (Placement::Dynamic, 1024, 4096));
    assert_eq!((layout.bytes(), layout.align()), (5120, 1024));
    assert_eq!(kernel.static_shared().bytes(), 0);
}

#[test]
fn names_are_identifiers_and_unique() {
    let identifier =
        "a name is a letter, followed by letters, digits and underscores; WARP_SZ is taken by PTX";
    assert_eq!(broken_rule(|k| _ = k.param_u32("2nd")), identifier);
    let twice = broken_rule(|k| {
        k.param_u32("n");
        k.param_u64("n");
    });
    assert_eq!(twice, "a parameter's name is its own");
    let region_twice = broken_rule(|k| {
        k.dynamic_shared("tile", 16, 16);
        k.dynamic_shared("tile", 16, 16);
    });
    assert_eq!(region_twice, "a region's name is its own");

    let mut module = ModuleBuilder::new(Target::Sm75);
    module.kernel("WARP_SZ", |_| {});
    let error = module.build().unwrap_err();
    assert!(matches!(error, Error::Declaration { rule, .. } if rule == identifier));

    let mut module = ModuleBuilder::new(Target::Sm75);
    module.kernel("same", |_| {});
    module.kernel("same", |_| {});
    let error = module.build().unwrap_err();
    assert!(matches!(error, Error::Declaration { rule: "a kernel's name is its own", .. }));
}

#[test]
fn shared_memory_fits_the_device_and_its_alignment() {
    let align = "a region's alignment is a power of two, at most 1024 bytes";
    assert_eq!(broken_rule(|k| _ = k.static_shared("x", 16, 24)), align);
    assert_eq!(broken_rule(|k| _ = k.static_shared("x", 16, 2048)), align);
    let fixed = "static shared memory is at most 48 KiB; the dynamic kind can be larger";
    assert_eq!(broken_rule(|k| _ = k.static_shared("x", 48 * 1024 + 1, 16)), fixed);
    let device = "a block has no more shared memory than its device";
    assert_eq!(broken_rule(|k| _ = k.dynamic_shared("x", 64 * 1024 + 1, 16)), device);
    let padded = broken_rule(|k| {
        k.static_shared("barriers", 8, 8);
        k.dynamic_shared("tile", 64 * 1024 - 512, 1024);
    });
    assert_eq!(padded, device);
}

#[test]
fn errors_name_the_line_of_the_caller() {
    let mut module = ModuleBuilder::new(Target::Sm75);
    module.kernel("declared", |k| _ = k.static_shared("x", 16, 24));
    let line = line!() - 1;
    let Error::Declaration { location, .. } = module.build().unwrap_err() else {
        panic!("another error");
    };
    assert_eq!((location.file(), location.line()), (file!(), line));
}

#[test]
fn parameters_fit_the_space_that_ptx_has() {
    let maps = |count: usize| {
        move |k: &mut KernelBuilder| {
            (0..count).for_each(|i| _ = k.param_tensor_map(&format!("map{i}")));
        }
    };
    assert_eq!(module(maps(34)).kernels()[0].parameters().len(), 34);
    assert_eq!(broken_rule(maps(35)), "a kernel's parameters have at most 4352 bytes");
}

#[test]
fn launch_bounds_are_possible() {
    assert_eq!(broken_rule(|k| k.maxntid(1025)), "a block has 1 to 1024 threads");
    assert_eq!(broken_rule(|k| k.maxnreg(256)), "a thread has 1 to 255 registers");
    let order = "minnctapersm counts blocks of known size: say maxntid or reqntid before";
    assert_eq!(broken_rule(|k| k.minnctapersm(2)), order);
}

#[test]
fn kernels_of_a_module_share_one_header() {
    let mut module = ModuleBuilder::new(Target::Sm80);
    module.kernel("first", |k| k.cp_async_commit_group());
    module.kernel("second", |_| {});
    let module = module.build().unwrap();
    assert_eq!(module.kernels().len(), 2);
    assert_eq!(module.text().matches(".version 7.0").count(), 1);
    assert_eq!(module.text().matches(".visible .entry").count(), 2);
}
