//! `jhalak info`: what this machine is to jhalak.

use std::fs;
use std::path::Path;

use clap::Args;
use jhalak::{Engine, IsaKind};

use crate::failure::{Failure, say};
use crate::memory;
use crate::report;

/// Show what jhalak uses of this machine.
#[derive(Debug, Args)]
pub(crate) struct Info {}

impl Info {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let available: Vec<String> = IsaKind::available().map(|isa| isa.to_string()).collect();
        say(format_args!("jhalak        {}", env!("CARGO_PKG_VERSION")))?;
        say(format_args!("instructions  {}, of {}", Engine::new()?.isa(), available.join(", ")))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        say(format_args!("cores         {cores}"))?;
        say(format_args!("threads       {}", rayon::current_num_threads()))?;
        if let Some(model) = cpu_model() {
            say(format_args!("processor     {model}"))?;
        }
        for cache in caches() {
            say(format_args!("cache         {cache}"))?;
        }
        if let Some(free) = memory::available() {
            say(format_args!("free memory   {}", report::bytes(free)))?;
        }
        Ok(())
    }
}

fn cpu_model() -> Option<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// The caches of the first core, such as `L2 512K, one for each core`.
fn caches() -> Vec<String> {
    (0..8)
        .filter_map(|index| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
            cache(Path::new(&path))
        })
        .collect()
}

fn cache(directory: &Path) -> Option<String> {
    let read = |name: &str| {
        let text = fs::read_to_string(directory.join(name)).ok()?;
        Some(text.trim().to_string())
    };
    let kind = read("type")?;
    if kind == "Instruction" {
        return None;
    }
    let shared = read("shared_cpu_list")?;
    Some(format!("L{} {}, of processors {shared}", read("level")?, read("size")?))
}
