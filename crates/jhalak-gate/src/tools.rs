//! Where the tools are, and that they are the pinned ones.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{Error, Result};

/// One line of `tools.txt`.
pub(crate) struct Pinned {
    name: &'static str,
    pub version: &'static str,
}

impl Pinned {
    /// The tools of `tools.txt` with this name, in its order.
    pub fn named(name: &str) -> impl Iterator<Item = Pinned> {
        include_str!("../tools.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let (name, _package, version) = (words.next()?, words.next()?, words.next()?);
                Some(Pinned { name, version })
            })
            .filter(move |tool| tool.name == name)
    }

    /// The tool as `make gate-tools` leaves it.
    pub fn installed(&self, cache: &Path) -> Result<PathBuf> {
        self.check(cache.join(format!("{}-{}", self.name, self.version)).join(self.name))
    }

    /// The tool at this path, if it is there and has the pinned version.
    pub fn check(&self, path: PathBuf) -> Result<PathBuf> {
        if !path.is_file() {
            return Err(Error::Missing { path });
        }
        let output = run(Command::new(&path).arg("--version"))?;
        let got = String::from_utf8_lossy(&output.stdout).into_owned();
        if !got.contains(&format!("V{}", self.version)) {
            return Err(Error::Version { path, expected: self.version.into(), got });
        }
        Ok(path)
    }
}

/// jhalak's cache folder: `JHALAK_CACHE`, or `jhalak` in the user's cache folder.
/// `scripts/gate_tools.py` has the same rule.
pub(crate) fn cache_folder() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("JHALAK_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("jhalak")))
        .or_else(|| Some(env::home_dir()?.join(".cache").join("jhalak")))
        .unwrap_or_else(|| env::temp_dir().join("jhalak"))
}

/// Runs a tool to its end, whatever its exit status.
pub(crate) fn run(command: &mut Command) -> Result<Output> {
    let what = format!("running {}", command.get_program().display());
    command.output().map_err(Error::io(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_the_command_that_installs_it() {
        let empty = tempfile::tempdir().unwrap();
        let ptxas = Pinned::named("ptxas").next().unwrap();
        let error = ptxas.installed(empty.path()).unwrap_err().to_string();
        let path = empty.path().join("ptxas-13.0.88").join("ptxas");
        assert!(error.starts_with(&format!("{} is missing", path.display())), "{error}");
        assert!(error.contains("run `make gate-tools`"), "{error}");
    }

    #[test]
    fn a_tool_of_another_version_is_refused() {
        let [decides, newer] = [0, 1].map(|i| Pinned::named("ptxas").nth(i).unwrap());
        let installed = decides.installed(&cache_folder()).unwrap();
        let error = newer.check(installed).unwrap_err().to_string();
        assert!(error.contains("must have version 13.5.37, but says:"), "{error}");
        assert!(error.contains("V13.0.88"), "{error}");
    }
}
