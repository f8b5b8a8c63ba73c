//! Results of the tools, kept between runs under the hash of what they were made from.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// A folder of results. Where it cannot be written, the tools run every time.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    folder: PathBuf,
}

impl Results {
    pub fn new(folder: PathBuf) -> Self {
        Results { folder }
    }

    /// The name under which a result made from these texts is kept.
    pub fn key(&self, made_from: &[&str]) -> String {
        let mut hash = Sha256::new();
        for text in made_from {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The kept result, or a new one that is kept from now on. Errors are not kept.
    pub fn get_or_make(
        &self,
        key: &str,
        kind: &str,
        make: impl FnOnce() -> Result<String>,
    ) -> Result<String> {
        let path = self.folder.join(format!("{key}.{kind}"));
        if let Ok(kept) = fs::read_to_string(&path) {
            return Ok(kept);
        }
        let made = make()?;
        let kept = fs::create_dir_all(&self.folder)
            .and_then(|()| tempfile::NamedTempFile::new_in(&self.folder))
            .and_then(|mut file| file.write_all(made.as_bytes()).map(|()| file))
            .and_then(|file| file.persist(&path).map_err(|error| error.error));
        match kept {
            Err(error) if !read_only(&error) => {
                Err(Error::io(format!("keeping {}", path.display()))(error))
            }
            _ => Ok(made),
        }
    }
}

fn read_only(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_made_once_and_errors_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::new(folder.path().join("gate"));
        let key = results.key(&["13.0.88", "sm_80", "text"]);
        let fail = || Err(Error::Unreadable { what: "anything", text: String::new() });
        assert!(results.get_or_make(&key, "log", fail).is_err());
        assert_eq!(results.get_or_make(&key, "log", || Ok("made".into())).unwrap(), "made");
        assert_eq!(results.get_or_make(&key, "log", fail).unwrap(), "made");
        assert_eq!(results.get_or_make(&key, "sass", || Ok("other".into())).unwrap(), "other");
        assert_eq!(fs::read_dir(&results.folder).unwrap().count(), 2);
    }

    #[test]
    fn every_part_of_a_key_counts() {
        let results = Results::new(PathBuf::new());
        let keys = [["a", "b"], ["b", "a"], ["ab", ""], ["", "ab"], ["a", "c"]];
        let names: std::collections::HashSet<_> = keys.map(|key| results.key(&key)).into();
        assert_eq!(names.len(), keys.len());
    }
}
