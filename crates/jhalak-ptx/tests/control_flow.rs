//! What the closures of control flow become. Labels are numbered in the order in which they are
//! made.

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::{B32, Error, KernelBuilder, ModuleBuilder, Pred, Target};

/// The text of a kernel's instructions, one a line, without indentation.
fn instructions(body: impl FnOnce(&mut KernelBuilder)) -> String {
    instructions_for(Target::Sm75, body)
}

fn instructions_for(target: Target, body: impl FnOnce(&mut KernelBuilder)) -> String {
    let mut module = ModuleBuilder::new(target);
    module.kernel("flow", body);
    let text = module.build().unwrap().text();
    let (_, body) = text.split_once("{\n").unwrap();
    let lines = body.lines().map(str::trim);
    lines.filter(|line| !line.starts_with(".reg")).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_if_skips_its_body_where_the_condition_does_not_hold() {
    let text = instructions(|k| {
        let p: Pred = k.register();
        k.if_(p, |k| k.bar_warp_sync());
    });
    assert_eq!(text, "@!%p0 bra $L0;\nbar.warp.sync 0xffffffff;\n$L0:\nret;\n}");
}

#[test]
fn a_negated_condition_needs_no_instruction() {
    let text = instructions(|k| {
        let p: Pred = k.register();
        k.if_(!p, |k| k.bar_warp_sync());
    });
    assert_eq!(text, "@%p0 bra $L0;\nbar.warp.sync 0xffffffff;\n$L0:\nret;\n}");
}

#[test]
fn an_if_else_runs_one_of_two_bodies() {
    let text = instructions(|k| {
        let (p, r): (Pred, B32) = (k.register(), k.register());
        k.if_else(p, |k| k.mov_b32_to(r, 1), |k| k.mov_b32_to(r, 2));
    });
    assert_eq!(
        text,
        "@!%p0 bra $L0;\nmov.b32 %r0, 1;\nbra $L1;\n$L0:\nmov.b32 %r0, 2;\n$L1:\nret;\n}"
    );
}

#[test]
fn a_while_loop_asks_before_each_round() {
    let text = instructions(|k| {
        let r: B32 = k.register();
        k.while_(|k| k.setp_u32(Lt, r, 9), |k| k.add_u32_to(r, r, 1));
    });
    assert_eq!(
        text,
        "$L0:\nsetp.lt.u32 %p0, %r0, 9;\n@!%p0 bra $L1;\nadd.u32 %r0, %r0, 1;\nbra $L0;\n$L1:\nret;\n}"
    );
}

#[test]
fn a_do_while_loop_asks_after_each_round() {
    let text = instructions(|k| {
        let r: B32 = k.register();
        k.do_while(|k| {
            k.add_u32_to(r, r, 1);
            k.setp_u32(Lt, r, 9)
        });
    });
    assert_eq!(
        text,
        "$L0:\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p0, %r0, 9;\n@%p0 bra $L0;\n$L1:\nret;\n}"
    );
}

#[test]
fn a_range_asks_once_before_and_after_each_round() {
    let text = instructions(|k| {
        let end: B32 = k.register();
        k.for_range(4, end, 2, |k, i| k.st(i, i));
    });
    assert_eq!(
        text,
        "mov.b32 %r1, 4;\nsetp.lt.u32 %p0, %r1, %r0;\n@!%p0 bra $L1;\n$L0:\n\
         st.shared.b32 [%r1], %r1;\nadd.u32 %r1, %r1, 2;\nsetp.lt.u32 %p0, %r1, %r0;\n\
         @%p0 bra $L0;\n$L1:\nret;\n}"
    );
}

#[test]
fn a_loop_is_left_by_its_break_even_from_an_inner_loop() {
    let text = instructions(|k| {
        let p: Pred = k.register();
        k.loop_(|k, outer| {
            k.loop_(|k, inner| {
                k.break_if(inner, p);
                k.break_if(outer, !p);
            });
        });
    });
    assert_eq!(
        text,
        "$L0:\n$L2:\n@%p0 bra $L3;\n@!%p0 bra $L1;\nbra $L2;\n$L3:\nbra $L0;\n$L1:\nret;\n}"
    );
}

#[test]
fn waiting_for_a_phase_asks_until_it_is_complete() {
    let wait = |target| {
        instructions_for(target, |k| {
            let barrier: B32 = k.register();
            k.mbarrier_wait(barrier, 0);
        })
    };
    let expected = "$L0:\nmbarrier.try_wait.parity.shared.b64 %p0, [%r0], 0;\n\
                    @!%p0 bra $L0;\n$L1:\nret;\n}";
    assert_eq!(wait(Target::Sm90a), expected);
    assert_eq!(wait(Target::Sm80), expected.replace("try_wait", "test_wait"));
}

#[test]
fn each_role_ends_by_itself() {
    let text = instructions(|k| {
        let warp: B32 = k.register();
        let producer = k.setp_u32(Eq, warp, 0);
        k.role(producer, |k| k.bar_arrive(1, 64));
        let storer = k.setp_u32(Eq, warp, 1);
        k.role(storer, |k| {
            k.bar_sync(1, 64);
            k.ret();
        });
        k.bar_sync(2, 64);
    });
    assert_eq!(
        text,
        "setp.eq.u32 %p0, %r0, 0;\n@!%p0 bra $L0;\nbar.arrive 1, 64;\nret;\n$L0:\n\
         setp.eq.u32 %p1, %r0, 1;\n@!%p1 bra $L1;\nbar.sync 1, 64;\nret;\n$L1:\n\
         bar.sync 2, 64;\nret;\n}"
    );
}

#[test]
fn a_kernel_that_returned_early_still_returns_at_its_end() {
    let text = instructions(|k| {
        let p: Pred = k.register();
        k.when(p, |k| k.ret());
    });
    assert_eq!(text, "@%p0 ret;\nret;\n}");
}

#[test]
fn control_flow_inside_a_guarded_body_is_refused() {
    let mut module = ModuleBuilder::new(Target::Sm75);
    module.kernel("flow", |k| {
        let p: Pred = k.register();
        k.when(p, |k| k.if_(p, |k| k.bar_warp_sync()));
    });
    let error = module.build().unwrap_err();
    assert!(matches!(error, Error::Declaration { rule, .. } if rule.contains("needs `if_`")));
}
