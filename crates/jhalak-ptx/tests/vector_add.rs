//! One whole kernel, letter for letter: the sum of two vectors, four elements a thread, with a tail
//! of single elements.

use jhalak_ptx::Comparison::{Ge, Gt};
use jhalak_ptx::{F32, KernelBuilder, ModuleBuilder, Target};

fn vector_add(k: &mut KernelBuilder) {
    k.maxntid(256);
    let (a, b) = (k.param_pointer("a", 16), k.param_pointer("b", 16));
    let (sum, count) = (k.param_pointer("sum", 16), k.param_u32("count"));
    let (thread, block) = (k.tid_x(), k.ctaid_x());
    let index = k.mad_lo_u32(block, 256, thread);
    let first = k.shl_b32(index, 2);
    let count = k.ld_param(count);
    let outside = k.setp_u32(Ge, first, count);
    k.when(outside, |k| k.ret());

    let places = [a, b, sum].map(|pointer| {
        let pointer = k.ld_param(pointer);
        k.mad_wide_u32(first, 4, pointer)
    });
    let left = k.sub_u32(count, first);
    let partial = k.setp_u32(Gt, 4, left);
    k.if_else(
        partial,
        |k| {
            k.for_range(0, left, 1, |k, i| {
                let [a, b, sum] = places.map(|place| k.mad_wide_u32(i, 4, place));
                let (a, b): (F32, F32) = (k.ld(a), k.ld(b));
                let total = k.add_f32(a, b);
                k.st(sum, total);
            });
        },
        |k| {
            let [a, b, sum] = places;
            let (a, b): ([F32; 4], [F32; 4]) = (k.ld_vector(a), k.ld_vector(b));
            let total: [F32; 4] = std::array::from_fn(|i| k.add_f32(a[i], b[i]));
            k.st_vector(sum, total);
        },
    );
}

#[test]
fn a_kernel_reads_as_it_was_written() {
    let mut module = ModuleBuilder::new(Target::Sm75);
    module.kernel("vector_add", vector_add);
    assert_eq!(module.build().unwrap().text(), EXPECTED);
}

const EXPECTED: &str = "\
.version 6.3
.target sm_75
.address_size 64

.visible .entry vector_add(
  .param .u64 .ptr .global .align 16 param_a,
  .param .u64 .ptr .global .align 16 param_b,
  .param .u64 .ptr .global .align 16 param_sum,
  .param .u32 param_count
)
.maxntid 256, 1, 1
{
  .reg .pred %p<3>;
  .reg .b32 %r<7>;
  .reg .b64 %rd<9>;
  .reg .f32 %f<15>;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mad.lo.u32 %r2, %r1, 256, %r0;
  shl.b32 %r3, %r2, 2;
  ld.param.b32 %r4, [param_count];
  setp.ge.u32 %p0, %r3, %r4;
  @%p0 ret;
  ld.param.b64 %rd0, [param_a];
  mad.wide.u32 %rd1, %r3, 4, %rd0;
  ld.param.b64 %rd2, [param_b];
  mad.wide.u32 %rd3, %r3, 4, %rd2;
  ld.param.b64 %rd4, [param_sum];
  mad.wide.u32 %rd5, %r3, 4, %rd4;
  sub.u32 %r5, %r4, %r3;
  setp.gt.u32 %p1, 4, %r5;
  @!%p1 bra $L0;
  mov.b32 %r6, 0;
  setp.lt.u32 %p2, %r6, %r5;
  @!%p2 bra $L3;
$L2:
  mad.wide.u32 %rd6, %r6, 4, %rd1;
  mad.wide.u32 %rd7, %r6, 4, %rd3;
  mad.wide.u32 %rd8, %r6, 4, %rd5;
  ld.global.f32 %f0, [%rd6];
  ld.global.f32 %f1, [%rd7];
  add.rn.f32 %f2, %f0, %f1;
  st.global.f32 [%rd8], %f2;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p2, %r6, %r5;
  @%p2 bra $L2;
$L3:
  bra $L1;
$L0:
  ld.global.v4.f32 {%f3, %f4, %f5, %f6}, [%rd1];
  ld.global.v4.f32 {%f7, %f8, %f9, %f10}, [%rd3];
  add.rn.f32 %f11, %f3, %f7;
  add.rn.f32 %f12, %f4, %f8;
  add.rn.f32 %f13, %f5, %f9;
  add.rn.f32 %f14, %f6, %f10;
  st.global.v4.f32 [%rd5], {%f11, %f12, %f13, %f14};
$L1:
  ret;
}
";
