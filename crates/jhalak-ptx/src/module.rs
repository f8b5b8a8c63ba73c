//! A module: kernels for one target, as data and as text.

use crate::KernelBuilder;
use crate::builder::{IDENTIFIER_RULE, is_identifier};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::target::{Target, Version};
use crate::text;

/// Kernels that the driver compiles together.
#[derive(Clone, Debug)]
pub struct Module {
    target: Target,
    version: Version,
    kernels: Vec<Kernel>,
}

impl Module {
    /// The architecture that it is for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// The lowest version of PTX that has all that the kernels use.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The kernels, in the order in which they were written.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name() == name)
    }

    /// The module as PTX text, for the driver or ptxas.
    pub fn text(&self) -> String {
        text::module(self)
    }
}

/// A module that is being written.
///
/// ```
/// use jhalak_ptx::{F32, ModuleBuilder, Target};
///
/// let mut module = ModuleBuilder::new(Target::Sm75);
/// module.kernel("twice", |k| {
///     let values = k.param_pointer("values", 4);
///     let values = k.ld_param(values);
///     let thread = k.tid_x();
///     let place = k.mad_wide_u32(thread, 4, values);
///     let value: F32 = k.ld(place);
///     let doubled = k.add_f32(value, value);
///     k.st(place, doubled);
/// });
/// let module = module.build()?;
/// assert!(module.text().contains("add.rn.f32 %f1, %f0, %f0;"));
/// # Ok::<(), jhalak_ptx::Error>(())
/// ```
#[derive(Debug)]
pub struct ModuleBuilder {
    module: Module,
    error: Option<Error>,
}

impl ModuleBuilder {
    /// A module without kernels.
    pub fn new(target: Target) -> Self {
        let version = target.first_version();
        ModuleBuilder { module: Module { target, version, kernels: Vec::new() }, error: None }
    }

    /// Adds a kernel, which the body writes. A final `ret` is added.
    #[track_caller]
    pub fn kernel(&mut self, name: &str, body: impl FnOnce(&mut KernelBuilder)) {
        let mut builder = KernelBuilder::new(name, self.module.target);
        builder.declare(is_identifier(name), "its name".to_owned(), IDENTIFIER_RULE);
        let taken = self.module.kernel(name).is_some();
        builder.declare(!taken, "its name".to_owned(), "a kernel's name is its own");
        body(&mut builder);
        builder.ret();
        self.module.version = self.module.version.max(builder.version);
        self.error = self.error.take().or(builder.error);
        self.module.kernels.push(builder.kernel);
    }

    /// The finished module.
    ///
    /// # Errors
    ///
    /// The first fault of any kernel: an instruction that breaks a rule of PTX or that the target
    /// lacks, or a declaration that breaks a rule.
    pub fn build(self) -> Result<Module, Error> {
        self.error.map_or(Ok(self.module), Err)
    }
}
