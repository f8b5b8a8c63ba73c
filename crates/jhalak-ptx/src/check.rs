//! Judges an instruction against PTX's rules and the module's target, while the kernel is written.

use crate::describe::Reader;
use crate::target::{Since, Target, Version, lowest_version};

/// What is wrong with an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It breaks this rule.
    Rule(&'static str),
    /// It first exists on this target, with this version of PTX.
    Needs(Target, Version),
}

/// The reader that collects an instruction's first fault, and the version of PTX it needs.
pub(crate) struct Check {
    target: Target,
    version: Version,
    fault: Option<Fault>,
}

impl Check {
    /// A check for a target; the version rises from `version`.
    pub(crate) fn new(target: Target, version: Version) -> Self {
        Check { target, version, fault: None }
    }

    /// The version of PTX that is needed, or what is wrong.
    pub(crate) fn verdict(self) -> Result<Version, Fault> {
        self.fault.map_or(Ok(self.version), Err)
    }
}

impl Reader for Check {
    fn needs(&mut self, since: &Since) {
        match lowest_version(since, self.target) {
            Some(version) => self.version = self.version.max(version),
            None => {
                let oldest = since.iter().min();
                self.fault = self.fault.or(oldest.map(|&(t, v)| Fault::Needs(t, v)));
            }
        }
    }

    fn rule(&mut self, holds: bool, rule: &'static str) {
        if !holds {
            self.fault = self.fault.or(Some(Fault::Rule(rule)));
        }
    }
}
