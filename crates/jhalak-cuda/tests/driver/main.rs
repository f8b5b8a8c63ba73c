//! The driver layer against a driver that does nothing and writes every call down.

#[path = "../common/mod.rs"]
mod common;

mod contexts;
mod launches;
mod loading;
mod memory_and_streams;
mod module_cache;
mod modules;
mod tensor_maps;
