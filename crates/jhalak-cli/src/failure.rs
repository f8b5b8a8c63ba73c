//! [`Failure`]: how a command ends when it does not end well, and the lines it prints.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Exit code 2: what was given cannot be used, as this sentence says.
    Input(String),
    /// Exit code 1: a comparison or a check came out badly, as this sentence says.
    Verdict(String),
    /// Nobody reads what is printed any more. No reason to complain.
    PipeClosed,
}

impl Failure {
    /// Something is wrong with a file.
    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Failure::Input(format!("{}: {problem}", path.display()))
    }

    /// Says on stderr what happened.
    pub(crate) fn report(&self) -> ExitCode {
        let (code, sentence) = match self {
            Failure::Input(sentence) => (2, sentence),
            Failure::Verdict(sentence) => (1, sentence),
            Failure::PipeClosed => return ExitCode::SUCCESS,
        };
        note(sentence);
        ExitCode::from(code)
    }
}

impl From<jhalak::Error> for Failure {
    fn from(error: jhalak::Error) -> Self {
        Failure::Input(error.to_string())
    }
}

/// Prints a line on stdout.
pub(crate) fn say(line: impl Display) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::PipeClosed),
        Err(error) => Err(Failure::Input(format!("cannot write to stdout: {error}"))),
    }
}

/// Says something on stderr; if nobody listens there is nothing left to do.
pub(crate) fn note(sentence: impl Display) {
    let _ = writeln!(std::io::stderr(), "jhalak: {sentence}");
}

/// clap's message as one sentence: what is wrong, without the usage block.
pub(crate) fn from_clap(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = text.find("\n\nUsage:").or(text.find("\n\nFor more information"));
    let words: Vec<&str> = text[..end.unwrap_or(text.len())].split_whitespace().collect();
    Failure::Input(format!("{} (see jhalak --help)", words.join(" ")))
}
