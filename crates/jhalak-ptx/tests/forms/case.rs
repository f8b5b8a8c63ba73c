//! One row of the table of forms.

use jhalak_ptx::{B16, B32, B64, Error, F32, KernelBuilder, Module, ModuleBuilder, Pred, Target};

/// The lowest version of PTX on each of [`Target::ALL`]; `-` where a target lacks the form.
pub type Versions = [&'static str; 4];

/// What every target has had from its beginning.
pub const ALWAYS: Versions = ["6.3", "7.0", "7.8", "8.0"];
/// What sm_80 brought.
pub const SM80: Versions = ["-", "7.0", "7.8", "8.0"];
/// What Hopper brought.
pub const SM90: Versions = ["-", "-", "-", "8.0"];

/// Registers for a form's inputs, which nobody has written.
pub struct Inputs {
    pub p: [Pred; 4],
    pub h: [B16; 4],
    pub r: [B32; 8],
    pub rd: [B64; 4],
    pub f: [F32; 8],
}

/// An instruction form: how it is asked for and what it is in PTX. Inputs are the first registers of
/// their class, so new ones begin at `%p4`, `%h4`, `%r8`, `%rd4` and `%f8`.
#[derive(Clone)]
pub struct Form {
    pub text: &'static str,
    versions: Versions,
    emit: fn(&mut KernelBuilder, Inputs),
}

impl Form {
    pub fn new(
        versions: Versions,
        text: &'static str,
        emit: fn(&mut KernelBuilder, Inputs),
    ) -> Self {
        Form { text, versions, emit }
    }

    /// The lowest version of PTX for each target, or `None` where it lacks the form.
    pub fn versions(&self) -> impl Iterator<Item = (Target, Option<&'static str>)> {
        let known = self.versions.map(|version| (version != "-").then_some(version));
        Target::ALL.into_iter().zip(known)
    }

    /// A kernel of nothing but this form.
    pub fn module(&self, target: Target) -> Result<Module, Error> {
        let mut module = ModuleBuilder::new(target);
        self.add_to(&mut module, "form");
        module.build()
    }

    /// Adds a kernel of nothing but this form.
    pub fn add_to(&self, module: &mut ModuleBuilder, name: &str) {
        module.kernel(name, |k| {
            let inputs = Inputs {
                p: k.registers(),
                h: k.registers(),
                r: k.registers(),
                rd: k.registers(),
                f: k.registers(),
            };
            (self.emit)(k, inputs);
        });
    }
}

/// The instructions of the only kernel, without indentation and without the final `ret`.
pub fn body(module: &Module) -> String {
    let text = module.text();
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| *line != "{")
        .skip(1)
        .map(str::trim)
        .filter(|line| !line.starts_with(".reg") && !line.starts_with(".shared"))
        .collect();
    let instructions = lines.strip_suffix(&["ret;", "}"]).expect("a kernel ends with ret");
    instructions.join("\n")
}
