//! The parent's view of a side: a process that the parent starts in a namespace, signals to begin, and asks
//! for its measurements.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use hawser::host::netns::Namespace;

use super::spec::{Measured, Spec, StackKind};

/// The beginning of the last line of a side that failed.
pub(super) const FAILED: &str = "failed: ";

/// A running side, which is killed when this is dropped.
pub(crate) struct Side {
    child: Child,
    orders: ChildStdin,
    lines: BufReader<ChildStdout>,
    name: &'static str,
}

impl Side {
    /// Starts a side in a namespace and waits until it can be reached.
    ///
    /// # Errors
    /// The side could not be started, or reported an error.
    pub(crate) fn start(name: &'static str, namespace: &Namespace, spec: &Spec) -> io::Result<Side> {
        let program = match &spec.stack {
            StackKind::Gvisor { program, .. } => program.clone(),
            _ => std::env::current_exe()?,
        };
        let mut command = namespace.command(program).map_err(io::Error::other)?;
        command.arg("side").arg(serde_json::to_string(spec)?);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a side without pipes"));
        };
        let mut side = Side { child, orders, lines: BufReader::new(output), name };
        match side.line()?.as_str() {
            "ready" => Ok(side),
            other => Err(io::Error::other(format!(
                "the {name} said `{other}` instead of `ready`"
            ))),
        }
    }

    /// Signals the side to begin.
    ///
    /// # Errors
    /// The side has ended.
    pub(crate) fn go(&mut self) -> io::Result<()> {
        self.orders.write_all(b"go\n")?;
        self.orders.flush()
    }

    /// Waits for the side's end and returns its measurements.
    ///
    /// # Errors
    /// The side reported an error, or ended without a result.
    pub(crate) fn finish(mut self) -> io::Result<Measured> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(io::Error::other)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.child.wait()?;
            return Err(io::Error::other(format!(
                "the {} ended early ({status})",
                self.name
            )));
        }
        match line.strip_prefix(FAILED) {
            Some(why) => Err(io::Error::other(why.trim_end().to_owned())),
            None => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs both sides of a measurement: starts `server`, then `client`.
///
/// # Errors
/// A side failed.
pub(crate) fn run_pair(
    server: (&Namespace, &Spec),
    client: (&Namespace, &Spec),
) -> io::Result<(Measured, Measured)> {
    let mut serving = Side::start("server", server.0, server.1)?;
    let mut asking = Side::start("client", client.0, client.1)?;
    serving.go()?;
    asking.go()?;
    let measured = asking.finish()?;
    Ok((serving.finish()?, measured))
}
