//! Attention, forward, on Hopper: the roles of a block's warps.

use jhalak_ptx::Comparison::{Eq, Le};
use jhalak_ptx::{Connective, Error, KernelBuilder, Module, ModuleBuilder};

use super::super::parameters::Inputs;
use super::super::thread::Thread;
use super::class::{HopperClass, Leave};
use super::memory::Memory;
use super::{consumer, producer, store};

/// The name of the kernel in its module.
pub const FORWARD: &str = "hopper_forward";

/// What all roles know.
pub(super) struct Kernel<'c> {
    pub(super) class: &'c HopperClass,
    pub(super) inputs: Inputs,
    pub(super) memory: Memory,
}

/// The module of a class.
///
/// # Errors
///
/// Whatever [`ModuleBuilder::build`] finds.
pub fn forward(class: &HopperClass) -> Result<Module, Error> {
    let mut module = ModuleBuilder::new(class.attention.target);
    module.kernel(FORWARD, |k| write(k, class));
    module.build()
}

fn write(k: &mut KernelBuilder, class: &HopperClass) {
    k.reqntid(class.attention.tile.threads());
    k.minnctapersm(1);
    let inputs = Inputs::declare(k, &class.parameters());
    let memory = Memory::declare(k, class);
    let kernel = Kernel { class, inputs, memory };
    let thread = Thread::new(k);
    // The same in all lanes, and ptxas knows it.
    let warp = k.shfl_idx_b32(thread.warp, 0);
    let group = k.shr_u32(warp, 2);
    let first = k.setp_u32(Eq, thread.index, 0);
    k.if_(first, |k| kernel.memory.init(k, class));
    k.bar_sync_all();
    let [few, many] = class.registers();
    let copies = k.setp_u32(Eq, group, 0);
    k.role(copies, |k| {
        k.setmaxnreg_dec(few);
        let produces = k.setp_u32(Eq, warp, 0);
        k.role(produces, |k| producer::write(k, &kernel, thread.lane));
        if class.leave() != Leave::Floats {
            let stores = k.setp_u32(Le, warp, class.consumers());
            let stores = k.setp_u32_with(Eq, group, 0, Connective::And, stores);
            k.if_(stores, |k| {
                let index = k.sub_u32(warp, 1);
                store::write(k, &kernel, thread.lane, index);
            });
        }
    });
    k.setmaxnreg_inc(many);
    let index = k.sub_u32(group, 1);
    let warp = k.and_b32(warp, 3);
    consumer::write(k, &kernel, Thread { warp, ..thread }, index);
}
