//! One ptxas and one nvdisasm, at work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::results::Results;
use crate::tools::{Pinned, cache_folder, run};
use crate::{Assembled, Error, Result, Sass};

/// The pinned tools. Cheap to make and to clone; used from any thread.
#[derive(Clone, Debug)]
pub struct Gate {
    ptxas: PathBuf,
    nvdisasm: PathBuf,
    version: &'static str,
    disassembler: &'static str,
    results: Results,
}

impl Gate {
    /// The ptxas that decides, from `JHALAK_PTXAS` if that is set to its path.
    ///
    /// # Errors
    /// [`Error::Missing`] with the command that installs it; [`Error::Version`].
    pub fn new() -> Result<Self> {
        let pinned = Pinned::named("ptxas").next().expect("tools.txt has a ptxas");
        let cache = cache_folder();
        let ptxas = match std::env::var_os("JHALAK_PTXAS") {
            Some(path) => pinned.check(path.into())?,
            None => pinned.installed(&cache)?,
        };
        Self::with(ptxas, pinned.version, &cache)
    }

    /// A newer ptxas, whose word is reported and decides nothing.
    ///
    /// # Errors
    /// As [`Gate::new`].
    pub fn newer() -> Result<Self> {
        let pinned = Pinned::named("ptxas").last().expect("tools.txt has a ptxas");
        let cache = cache_folder();
        Self::with(pinned.installed(&cache)?, pinned.version, &cache)
    }

    fn with(ptxas: PathBuf, version: &'static str, cache: &Path) -> Result<Self> {
        let pinned = Pinned::named("nvdisasm").next().expect("tools.txt has an nvdisasm");
        let nvdisasm = pinned.installed(cache)?;
        let (disassembler, results) = (pinned.version, Results::new(cache.join("gate")));
        Ok(Gate { ptxas, nvdisasm, version, disassembler, results })
    }

    /// The version of ptxas, `13.0.88`.
    pub fn version(&self) -> &str {
        self.version
    }

    /// Assembles a module for `target`, `sm_90a` say, and reads what ptxas tells about it.
    ///
    /// # Errors
    /// [`Error::Refused`] with ptxas's messages and the lines they speak of.
    pub fn assemble(&self, ptx: &str, target: &str) -> Result<Assembled> {
        let key = self.results.key(&[self.version, target, ptx]);
        let log = self.results.get_or_make(&key, "log", || self.ptxas(ptx, target, |_| Ok(())))?;
        Assembled::new(self.clone(), ptx, target, &log)
    }

    /// The machine code of a module.
    pub(crate) fn disassemble(&self, ptx: &str, target: &str) -> Result<Sass> {
        let key = self.results.key(&[self.version, self.disassembler, target, ptx]);
        let listing = self.results.get_or_make(&key, "sass", || {
            let mut listing = String::new();
            self.ptxas(ptx, target, |cubin| {
                let output = run(Command::new(&self.nvdisasm).arg("-c").arg(cubin))?;
                listing = String::from_utf8_lossy(&output.stdout).into_owned();
                if output.status.success() {
                    return Ok(());
                }
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(Error::Unreadable { what: "the machine code, says nvdisasm,", text })
            })?;
            Ok(Sass::shorten(&listing))
        })?;
        Ok(Sass::new(&listing))
    }

    /// What `ptxas -v` prints; `then` sees the assembled file.
    fn ptxas(
        &self,
        ptx: &str,
        target: &str,
        then: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<String> {
        let folder = tempfile::tempdir().map_err(Error::io("making a folder for ptxas"))?;
        let (source, cubin) =
            (folder.path().join("module.ptx"), folder.path().join("module.cubin"));
        fs::write(&source, ptx).map_err(Error::io("writing the module for ptxas"))?;
        let mut command = Command::new(&self.ptxas);
        command.args(["-v", "-arch", target, "-o"]).arg(&cubin).arg(&source);
        let output = run(&mut command)?;
        let log = String::from_utf8_lossy(&output.stderr)
            .replace(&source.display().to_string(), "module.ptx");
        if !output.status.success() {
            let (version, target) = (self.version.into(), target.into());
            return Err(Error::Refused { version, target, messages: with_lines(&log, ptx) });
        }
        then(&cubin)?;
        Ok(log)
    }
}

/// ptxas's messages, each followed by the line of the module that it speaks of.
fn with_lines(log: &str, ptx: &str) -> String {
    let quoted = |message: &str| {
        let rest = message.split_once(", line ")?.1;
        let number: usize = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        Some(format!("\n    {}", ptx.lines().nth(number.checked_sub(1)?)?.trim()))
    };
    let each = log.lines().map(|message| message.to_owned() + &quoted(message).unwrap_or_default());
    each.collect::<Vec<_>>().join("\n")
}
