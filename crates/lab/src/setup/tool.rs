//! Runs other programs of the machine and turns their failures into one sentence.

use crate::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, Output, Stdio};
use std::thread;

/// Runs it to its end and returns what it wrote to standard output.
///
/// # Errors
/// If it is not there, or fails: then with what it said itself.
pub fn run(command: &mut Command) -> Result<Vec<u8>, Error> {
    let output = quiet(command).output().map_err(|e| not_started(command, &e))?;
    succeeded(command, &output)?;
    Ok(output.stdout)
}

/// The same, with another program's output as its input.
pub fn run_fed(command: &mut Command, input: ChildStdout) -> Result<Vec<u8>, Error> {
    let output = quiet(command).stdin(input).output().map_err(|e| not_started(command, &e))?;
    succeeded(command, &output)?;
    Ok(output.stdout)
}

/// The same as `run`, with each line of its standard output as it comes.
pub fn follow(command: &mut Command, mut line: impl FnMut(&str)) -> Result<(), Error> {
    let mut child =
        quiet(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| not_started(command, &e))?;
    let (stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    // Both pipes are drained at once, so that neither can fill up and stop the program.
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        // A read error ends the text early; the exit status still tells.
        let _ = stderr.read_to_end(&mut text);
        text
    });
    for text in BufReader::new(stdout).lines().map_while(Result::ok) {
        line(&text);
    }
    let status = child.wait().map_err(|e| not_started(command, &e))?;
    let stderr = errors.join().unwrap_or_default();
    succeeded(command, &Output { status, stdout: Vec::new(), stderr })
}

/// No questions, and messages in the language that is looked through below.
fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive")
}

fn not_started(command: &Command, error: &std::io::Error) -> Error {
    Error(format!("`{}` cannot be started: {error}", command.get_program().to_string_lossy()))
}

fn succeeded(command: &Command, output: &Output) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = || said.lines().map(str::trim).filter(|l| !l.is_empty());
    // apt's first `E:` and a compiler's first `error:` are the cause, what follows are consequences.
    let cause = lines().find(|l| l.starts_with("E: ") || l.contains("error:")).or_else(|| lines().next_back());
    let name = command.get_program().to_string_lossy();
    Err(Error(match cause {
        Some(cause) => format!("{name} says: {}", cause.trim_start_matches("E: ")),
        None => format!("{name} ended with {}", output.status),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]);
        sh
    }

    #[test]
    fn failures_are_one_sentence_with_their_cause() {
        for (script, expected) in [
            (
                "echo W: slow >&2; echo 'E: Could not resolve' >&2; echo 'E: Some failed' >&2; exit 100",
                "sh says: Could not resolve",
            ),
            (
                "echo one >&2; echo 'x.c:1: error: expected' >&2; echo note >&2; exit 1",
                "sh says: x.c:1: error: expected",
            ),
            ("echo one >&2; echo two >&2; exit 1", "sh says: two"),
            ("exit 3", "sh ended with exit status: 3"),
        ] {
            assert_eq!(run(&mut shell(script)).unwrap_err().to_string(), expected);
            assert_eq!(follow(&mut shell(script), |_| ()).unwrap_err().to_string(), expected);
        }
        let missing = run(&mut Command::new("no-such-program")).unwrap_err().to_string();
        assert!(missing.starts_with("`no-such-program` cannot be started"), "{missing}");
    }

    #[test]
    fn lines_come_one_by_one() {
        let mut lines = Vec::new();
        follow(&mut shell("echo a; echo b"), |l| lines.push(l.to_string())).unwrap();
        assert_eq!(lines, ["a", "b"]);
    }
}
