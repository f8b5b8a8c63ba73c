//! The machine code of a module, as the names of its instructions.

use std::collections::BTreeMap;

/// The instructions of each kernel, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sass {
    kernels: BTreeMap<String, Opcodes>,
}

/// Instruction names with their modifiers, `HGMMA.64x128x16.F32.BF16` say, as they stand in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opcodes(Vec<String>);

impl Sass {
    /// Reduces nvdisasm's listing to what [`Sass::new`] reads: a line `.text.NAME:` for a kernel,
    /// then its opcodes, one a line.
    pub(crate) fn shorten(listing: &str) -> String {
        let opcodes = listing.lines().filter_map(|line| match line.strip_suffix(':') {
            Some(label) if label.starts_with(".text.") => Some(line),
            _ => opcode(line),
        });
        opcodes.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn new(short: &str) -> Self {
        let mut kernels = BTreeMap::<_, Opcodes>::new();
        for section in short.split(".text.").skip(1) {
            if let Some((name, opcodes)) = section.split_once(':') {
                let opcodes = opcodes.split_whitespace().map(str::to_owned).collect();
                kernels.insert(name.to_owned(), Opcodes(opcodes));
            }
        }
        Sass { kernels }
    }

    /// The instructions of a kernel.
    ///
    /// # Panics
    /// If the module has no such kernel; the message names those it has.
    pub fn kernel(&self, name: &str) -> &Opcodes {
        let names = self.kernels.keys();
        let missing = || panic!("the module has no kernel {name}, but {names:?}");
        self.kernels.get(name).unwrap_or_else(missing)
    }
}

impl Opcodes {
    /// How many instructions have this name, whatever modifiers follow it: `LDG` counts `LDG.E`.
    pub fn count(&self, opcode: &str) -> usize {
        let is = |name: &&String| name.strip_prefix(opcode).is_some_and(dotted);
        self.0.iter().filter(is).count()
    }

    /// The names in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn dotted(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

/// The name in a line like `/*0010*/  @!P0 LDG.E R0, [R2.64] ;`.
fn opcode(line: &str) -> Option<&str> {
    let (_, instruction) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let mut words = instruction.split_whitespace().filter(|word| *word != "{");
    let first = words.next()?;
    let name = if first.starts_with('@') { words.next()? } else { first };
    Some(name.trim_end_matches(';'))
}
