//! Fences between ordinary accesses and those of the copy engine and of wgmma, which go another way
//! to memory, the async proxy (PTX ISA, "Proxies", "fence.proxy").

use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::names::named;
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

named! {
    /// Which memory a fence between proxies is about.
    pub enum ProxySpace {
        /// The block's shared memory.
        Shared = ".shared::cta",
        /// Global memory.
        Global = ".global",
        /// Both.
        All = "",
    }
}

/// What this thread wrote before is seen by the copy engine and wgmma afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FenceProxyAsync {
    pub(crate) space: ProxySpace,
}

impl Describe for FenceProxyAsync {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["fence.proxy.async", self.space.name()]);
    }
}

/// The barriers that this thread initialised are seen by the copy engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FenceMbarrierInit;

impl Describe for FenceMbarrierInit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["fence.mbarrier_init.release.cluster"]);
    }
}

impl KernelBuilder {
    /// What this thread wrote before is seen by the copy engine and wgmma afterwards. After ordinary
    /// stores to memory that either of them reads next; then a barrier, if others wrote too.
    #[track_caller]
    pub fn fence_proxy_async(&mut self, space: ProxySpace) {
        self.push(FenceProxyAsync { space });
    }

    /// The barriers that this thread initialised are seen by the copy engine.
    #[track_caller]
    pub fn fence_mbarrier_init(&mut self) {
        self.push(FenceMbarrierInit);
    }
}
