//! `hawser sim debug --dap`: a debug adapter on standard input and output.
//!
//! [`hawser::runs::debug::dap::Adapter`] is the machine.

use std::collections::VecDeque;
use std::io::{self, BufReader, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use hawser::lang::ide::lsp::read_frame;
use hawser::runs::debug::Debugger;
use hawser::runs::debug::dap::{Adapter, Files, Goes};
use serde_json::Value;

use super::{Args, begin};
use crate::exit::{Exit, Outcome};

/// The maximum number of requests that are queued while the run continues.
const MAX_WAITING: usize = 64;

/// Requests in order of arrival. Requests that arrive while the run continues are queued.
struct RequestQueue {
    incoming: Receiver<io::Result<Value>>,
    waiting: VecDeque<io::Result<Value>>,
}

impl RequestQueue {
    /// Returns the next request, or `None` when the client has gone.
    fn next(&mut self) -> Option<io::Result<Value>> {
        self.waiting.pop_front().or_else(|| self.incoming.recv().ok())
    }

    /// Returns whether a queued request interrupts the run: a pause or the end.
    fn interrupts(&mut self) -> bool {
        while self.waiting.len() < MAX_WAITING
            && let Ok(request) = self.incoming.try_recv()
        {
            self.waiting.push_back(request);
        }
        self.waiting.iter().any(|request| {
            let Ok(request) = request else {
                return true;
            };
            matches!(
                request["command"].as_str(),
                Some("pause" | "disconnect" | "terminate")
            )
        })
    }
}

impl Files for Args {
    fn launch(&self, scenario: Option<&Path>, seed: Option<u64>) -> Result<Debugger, String> {
        let file = scenario
            .or(self.file.as_deref())
            .ok_or("expected `scenario`: the path of a scenario")?;
        begin(self, file, seed.or(self.seed)).map_err(|error| error.to_string())
    }

    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }
}

/// Serves one client until it disconnects.
pub(super) fn run(args: &Args) -> Outcome {
    let (sender, incoming) = sync_channel(MAX_WAITING);
    std::thread::spawn(move || {
        let mut input = BufReader::new(stdin());
        loop {
            let Some(body) = read_frame(&mut input).transpose() else {
                return;
            };
            let message = body.and_then(|body| hawser_documents::json_bytes(&body).map_err(io::Error::other));
            let is_last = message.is_err();
            if sender.send(message).is_err() || is_last {
                return;
            }
        }
    });
    let mut requests = RequestQueue { incoming, waiting: VecDeque::new() };
    let mut adapter = Adapter::new(args);
    let mut out = stdout().lock();
    let failed = |error: io::Error| Exit::environment(format!("standard output: {error}"));
    while let Some(request) = requests.next() {
        let request = request.map_err(|error| Exit::input(format!("standard input: {error}")))?;
        let goes = adapter.handle(&request);
        for message in adapter.take() {
            write(&mut out, &message).map_err(failed)?;
        }
        match goes {
            Goes::No => {}
            Goes::To(to) => {
                adapter.go(&to, &mut || requests.interrupts());
                for message in adapter.take() {
                    write(&mut out, &message).map_err(failed)?;
                }
            }
            Goes::Away => return Ok(()),
        }
    }
    Ok(())
}

fn write(out: &mut impl Write, message: &Value) -> io::Result<()> {
    let body = message.to_string();
    write!(out, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    out.flush()
}
