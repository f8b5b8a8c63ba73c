//! What `ptxas -v` tells about a module.

use std::fmt;

use crate::{Error, Gate, Result, Sass};

/// A module that ptxas accepts.
#[derive(Clone, Debug)]
pub struct Assembled {
    gate: Gate,
    ptx: String,
    target: String,
    /// The module's kernels, in ptxas's order.
    pub kernels: Vec<Kernel>,
    /// Warnings and numbered advisories of ptxas, word for word.
    pub warnings: Vec<String>,
}

/// What one kernel takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The entry's name.
    pub name: String,
    /// Registers of a thread, at launch.
    pub registers: u32,
    /// Bytes that spilled registers store, a thread.
    pub spill_stores: u32,
    /// Bytes that spilled registers load, a thread.
    pub spill_loads: u32,
    /// Bytes of stack frame, a thread.
    pub stack: u32,
    /// Bytes of static shared memory.
    pub shared: u32,
    /// Named barriers.
    pub barriers: u32,
}

impl Assembled {
    pub(crate) fn new(gate: Gate, ptx: &str, target: &str, log: &str) -> Result<Self> {
        let kernels = kernels(log)?;
        let warnings = log.lines().filter(|line| is_warning(line)).map(str::to_owned).collect();
        Ok(Assembled { gate, ptx: ptx.into(), target: target.into(), kernels, warnings })
    }

    /// The kernel with this name.
    ///
    /// # Panics
    /// If the module has no such kernel; the message names those it has.
    pub fn kernel(&self, name: &str) -> &Kernel {
        self.kernels.iter().find(|kernel| kernel.name == name).unwrap_or_else(|| {
            let names: Vec<_> = self.kernels.iter().map(|kernel| &kernel.name).collect();
            panic!("the module has no kernel {name}, but {names:?}")
        })
    }

    /// The advisories about tensor-core pipelines, C75xx. They mean that ptxas put waits between
    /// instructions that should overlap, or ignored `setmaxnreg`.
    pub fn advisories(&self) -> impl Iterator<Item = &str> {
        let about = |line: &&str| line.contains("(C75") || line.contains("serialized");
        self.warnings.iter().map(String::as_str).filter(about)
    }

    /// # Panics
    /// If there are [`advisories`](Self::advisories), with their words.
    pub fn assert_no_advisory(&self) {
        let advisories: Vec<_> = self.advisories().collect();
        assert!(advisories.is_empty(), "{self}\n{}", advisories.join("\n"));
    }

    /// The module's machine code.
    ///
    /// # Errors
    /// As [`Gate::assemble`], and if nvdisasm cannot read what ptxas wrote.
    pub fn sass(&self) -> Result<Sass> {
        self.gate.disassemble(&self.ptx, &self.target)
    }
}

impl Kernel {
    /// # Panics
    /// If registers are spilled to memory.
    pub fn assert_no_spills(&self) {
        assert_eq!((self.spill_stores, self.spill_loads), (0, 0), "{self}");
    }
}

/// One line a kernel, to be reported beside another version's.
impl fmt::Display for Assembled {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ptxas {} for {}:", self.gate.version(), self.target)?;
        self.kernels.iter().try_for_each(|kernel| write!(f, "\n  {kernel}"))?;
        write!(f, "\n  {} advisories", self.advisories().count())
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Kernel { name, registers, spill_stores, spill_loads, stack, shared, barriers } = self;
        write!(
            f,
            "{name}: {registers} registers, {spill_stores} bytes of spill stores, {spill_loads} of \
             loads, {stack} of stack, {shared} of shared memory, {barriers} barriers"
        )
    }
}

/// `ptxas warning : ...` and `ptxas info    : (C7514) ...`.
fn is_warning(line: &str) -> bool {
    line.starts_with("ptxas warning") || line.contains(": (C")
}

/// The paragraphs of `ptxas -v`, one a kernel:
///
/// ```text
/// ptxas info    : Compiling entry function 'f' for 'sm_90a'
/// ptxas info    : Function properties for f
///     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
/// ptxas info    : Used 168 registers, used 2 barriers, 1024 bytes smem, 400 bytes cmem[0]
/// ```
fn kernels(log: &str) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for paragraph in log.split("Compiling entry function '").skip(1) {
        let line_with = |words| paragraph.lines().find(|line| line.contains(words));
        let parsed = paragraph.split_once('\'').and_then(|(name, _)| {
            let (spills, used) = (line_with("spill stores")?, line_with(": Used ")?);
            Some(Kernel {
                name: name.into(),
                registers: before(used, " registers")?,
                spill_stores: before(spills, " bytes spill stores")?,
                spill_loads: before(spills, " bytes spill loads")?,
                stack: before(spills, " bytes stack frame")?,
                shared: before(used, " bytes smem").unwrap_or(0),
                barriers: before(used, " barriers").unwrap_or(0),
            })
        });
        let unreadable = || Error::Unreadable { what: "a kernel's figures", text: log.into() };
        kernels.push(parsed.ok_or_else(unreadable)?);
    }
    Ok(kernels)
}

/// The number that stands directly before these words.
fn before(line: &str, words: &str) -> Option<u32> {
    let (head, _) = line.split_once(words)?;
    head.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
