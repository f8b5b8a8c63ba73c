//! The kernels in NVIDIA's assembler: for every generation of cards, without spills.

use jhalak_cuda::kernels::passes::{
    Delta, DeltaClass, DsinksClass, FinishDbiasClass, FinishDqClass, MergeClass, Parts, delta,
    dsinks, finish_dbias, finish_dq, merge,
};
use jhalak_cuda::kernels::{Access, Element, Lengths};
use jhalak_gate::Gate;
use jhalak_ptx::{Module, Target};

/// PTX of the left is assembled for the right.
const TARGETS: [(Target, &str); 3] =
    [(Target::Sm75, "sm_75"), (Target::Sm80, "sm_80"), (Target::Sm80, "sm_90")];
const ACCESSES: [Access; 2] = [Access::Vectors, Access::Elements];
const DENSE: Lengths = Lengths { packed: false, used_q: false, used_k: false };
const RAGGED: Lengths = Lengths { packed: true, used_q: true, used_k: false };

/// Element types of a target: sm_75 has no bf16.
fn elements(target: Target) -> &'static [Element] {
    match target {
        Target::Sm75 => &[Element::F32, Element::F16],
        _ => &[Element::F32, Element::F16, Element::Bf16],
    }
}

/// Assembles the modules of each target's classes.
fn assemble(modules: impl Fn(Target) -> Vec<Module>) {
    let gate = Gate::new().unwrap();
    for (target, device) in TARGETS {
        let modules = modules(target);
        assert!(!modules.is_empty());
        for module in modules {
            let module = gate.assemble(&module.text(), device).unwrap();
            module.assert_no_advisory();
            assert_eq!(module.kernels.len(), 1);
            module.kernels[0].assert_no_spills();
            assert_eq!(module.kernels[0].stack, 0, "{module}");
        }
    }
}

#[test]
fn delta_assembles() {
    assemble(|target| {
        let mut list = Vec::new();
        for &element in elements(target) {
            for access in ACCESSES {
                for (dlse, lengths, head_dim_v) in [(false, DENSE, 256), (true, RAGGED, 72)] {
                    let (out, dout) = (element, Element::F32);
                    let sinks = dlse.then_some(element);
                    let delta_of = Delta::Out { out, dout, head_dim_v, access, sinks };
                    let dq_sum = Some(head_dim_v.next_multiple_of(16));
                    let class = DeltaClass { target, delta: delta_of, dlse, lengths, dq_sum };
                    list.push(delta(&class).unwrap());
                    let class = DeltaClass { delta: Delta::Given, ..class };
                    list.push(delta(&class).unwrap());
                }
            }
        }
        list
    });
}

#[test]
fn finish_dq_assembles() {
    assemble(|target| {
        let mut list = Vec::new();
        for &element in elements(target) {
            for access in ACCESSES {
                for (lengths, head_dim) in [(DENSE, 256), (RAGGED, 40)] {
                    let class =
                        FinishDqClass { target, element, head_dim, access, lengths, adds: false };
                    list.push(finish_dq(&class).unwrap());
                    if element == Element::F32 {
                        list.push(finish_dq(&FinishDqClass { adds: true, ..class }).unwrap());
                    }
                }
            }
        }
        list
    });
}

#[test]
fn finish_dbias_assembles() {
    assemble(|target| {
        let mut list = Vec::new();
        for &element in elements(target) {
            let class = FinishDbiasClass { target, element, adds: false };
            list.push(finish_dbias(&class).unwrap());
        }
        let class = FinishDbiasClass { target, element: Element::F32, adds: true };
        list.push(finish_dbias(&class).unwrap());
        list
    });
}

#[test]
fn dsinks_assembles() {
    assemble(|target| {
        let mut list = Vec::new();
        for &sinks in elements(target) {
            let class = DsinksClass { target, sinks, dsinks: sinks, adds: false };
            list.push(dsinks(&class).unwrap());
            let class = DsinksClass { dsinks: Element::F32, adds: true, ..class };
            list.push(dsinks(&class).unwrap());
        }
        list
    });
}

#[test]
fn merge_assembles() {
    assemble(|target| {
        let mut list = Vec::new();
        for &out in elements(target) {
            for access in ACCESSES {
                for (parts, head_dim_v) in [
                    (Parts::Separate(vec![Element::F32; 2]), 256),
                    (Parts::Separate(vec![out, Element::F32, out]), 64),
                    (Parts::Separate(vec![out; 48]), 128),
                    (Parts::Stacked { shared: false }, 128),
                    (Parts::Stacked { shared: true }, 256),
                ] {
                    let class = MergeClass { target, parts, out, head_dim_v, access };
                    list.push(merge(&class).unwrap());
                }
            }
        }
        list
    });
}
