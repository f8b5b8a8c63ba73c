//! What the tests share.

use std::time::SystemTime;

use jhalak_cuda::driver::{Arguments, Buffer, Context, Driver, Function, Launch, Stream};

pub const BASICS: &str = include_str!("../modules/basics.ptx");
pub const HOPPER: &str = include_str!("../modules/hopper.ptx");

/// The first GPU's context.
pub fn gpu() -> Context {
    Driver::get().unwrap().device(0).unwrap().primary_context().unwrap()
}

/// A kernel of `basics.ptx`.
pub fn basic(context: &Context, name: &str) -> Function {
    context.load_module(BASICS, 4).unwrap().function(name).unwrap()
}

/// A kernel of `hopper.ptx`, or none on an older GPU, which is told.
pub fn hopper(context: &Context, name: &str) -> Option<Function> {
    let found = context.device().properties().unwrap().compute_capability;
    if found < (9, 0) {
        println!("NOT TESTED: {name} needs compute capability 9.0, this GPU has {found:?}");
        return None;
    }
    Some(context.load_module(HOPPER, 4).unwrap().function(name).unwrap())
}

/// The same module to the compiler, another one to the driver's cache of compiled modules.
pub fn fresh(ptx: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    format!("{ptx}\n// {now} {}\n", std::process::id())
}

/// Device memory with these words.
pub fn upload(context: &Context, words: &[u32]) -> Buffer {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let buffer = context.allocate(bytes.len()).unwrap();
    // SAFETY: the memory is new and as large as what is copied.
    unsafe { context.copy_to_device(buffer.address(), &bytes).unwrap() };
    buffer
}

/// What is in the device memory, once the stream is done with it.
pub fn download(stream: &Stream, buffer: &Buffer) -> Vec<u32> {
    stream.synchronize().unwrap();
    let mut bytes = vec![0; buffer.bytes()];
    // SAFETY: the memory is there, and the stream is done.
    unsafe { stream.context().copy_to_host(&mut bytes, buffer.address()).unwrap() };
    words(&bytes)
}

/// The words that these bytes are.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

/// Launches `add_number` on whole blocks of 128 words.
pub fn add_number(function: &Function, stream: &Stream, buffer: &Buffer, number: u32) {
    let blocks = (buffer.bytes() / 512) as u32;
    assert_eq!(blocks as usize * 512, buffer.bytes());
    let mut arguments = Arguments::new();
    arguments.pointer(buffer.address()).u32(number);
    // SAFETY: the kernel's parameters are a pointer and a word; one thread for each word.
    let launched =
        unsafe { function.launch(stream, &Launch::new([blocks, 1, 1], [128, 1, 1]), &arguments) };
    launched.unwrap();
}
