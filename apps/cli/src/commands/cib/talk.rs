//! A conversation with the control socket: a line there, lines back.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use hawser::lang::OneLine;
use hawser::local::{self, ConnectError, MAX_ANSWER};
use serde_json::Value;

use crate::exit::Exit;

/// Bytes of a command (docs/knowledge.md).
const LINE: usize = 64 << 10;

/// A connection to a running Hawser.
pub(super) struct Controller {
    reader: BufReader<UnixStream>,
}

impl Controller {
    pub(super) fn connect(path: &Path) -> Result<Controller, Exit> {
        let stream = local::connect(path).map_err(|error| {
            let path = path.display();
            let ConnectError::System(error) = error else {
                return Exit::environment(format!("{path}: {error}"));
            };
            Exit::environment(match error.kind() {
                ErrorKind::NotFound => format!("{path}: there is no such socket; is Hawser running?"),
                ErrorKind::ConnectionRefused => format!("{path}: nobody listens there; is Hawser running?"),
                ErrorKind::PermissionDenied => {
                    format!("{path}: it is another user's, who alone may connect to it, and root")
                }
                _ => format!("{path}: {error}"),
            })
        })?;
        Ok(Controller {
            reader: BufReader::new(stream),
        })
    }

    pub(super) fn say(&mut self, command: &Value) -> Result<(), Exit> {
        let line = format!("{command}\n");
        if line.len() > LINE {
            return Err(Exit::input(format!(
                "it comes to more than {LINE} bytes: put fewer nodes at once"
            )));
        }
        match self.reader.get_mut().write_all(line.as_bytes()) {
            // Who is not served is told so before it has said anything.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Exit::network(error)),
            _ => Ok(()),
        }
    }

    /// The next answer; what is refused is an error.
    pub(super) fn hear(&mut self) -> Result<Value, Exit> {
        let mut line = String::new();
        let read = self
            .reader
            .by_ref()
            .take(MAX_ANSWER as u64)
            .read_line(&mut line)
            .map_err(Exit::network)?;
        if read == 0 {
            return Err(Exit::network("Hawser has closed the connection"));
        }
        if read >= MAX_ANSWER {
            return Err(Exit::network(format!(
                "an answer of more than {MAX_ANSWER} bytes"
            )));
        }
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| Exit::network(format!("an answer that is no JSON: {error}")))?;
        match (&answer["error"], answer["findings"].as_array()) {
            (Value::Null, _) => Ok(answer),
            (_, Some(findings)) => {
                let told: Vec<String> = findings
                    .iter()
                    .map(|one| OneLine(finding(one)).to_string())
                    .collect();
                Err(Exit::failed(told.join("\nhawser: ")))
            }
            (why, None) => Err(Exit::environment(OneLine(
                why.as_str().unwrap_or("it is refused"),
            ))),
        }
    }
}

fn finding(finding: &Value) -> String {
    let text = |key: &str| finding[key].as_str().unwrap_or_default();
    let hint = finding["hint"]
        .as_str()
        .map_or_else(String::new, |hint| format!(" ({hint})"));
    match text("path") {
        "" => format!("{}{hint}", text("message")),
        path => format!("{path}: {}{hint}", text("message")),
    }
}
