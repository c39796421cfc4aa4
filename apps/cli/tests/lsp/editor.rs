//! The editor's side of the protocol.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// An editor and its language server.
pub(super) struct Editor {
    pub(super) server: Child,
    pub(super) to: Option<ChildStdin>,
    pub(super) from: Receiver<Value>,
    pub(super) requests: i64,
    /// The diagnostics published last, by URI.
    pub(super) published: HashMap<String, Value>,
}

impl Editor {
    /// Starts a server and initialises it with one folder.
    pub(super) fn start(folder: &Path) -> Editor {
        let mut editor = Editor::silent();
        let answer = editor.ask(
            "initialize",
            json!({
                "processId": null,
                "rootUri": uri(folder),
                "capabilities": { "workspace": { "didChangeWatchedFiles": { "dynamicRegistration": true } } },
            }),
        );
        assert_eq!(answer["capabilities"]["positionEncoding"], "utf-16");
        editor.say("initialized", json!({}));
        editor
    }

    /// Starts a server without initialising it.
    pub(super) fn silent() -> Editor {
        let mut server = Command::new(env!("CARGO_BIN_EXE_hawser"))
            .args(["lsp", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("hawser starts");
        let to = server.stdin.take();
        let mut out = BufReader::new(server.stdout.take().expect("it has an output"));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            while let Some(message) = frame(&mut out) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Editor { server, to, from, requests: 0, published: HashMap::new() }
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        let to = self.to.as_mut().expect("it is open");
        // A server that has ended accepts no more input.
        _ = to.write_all(bytes).and_then(|()| to.flush());
    }

    pub(super) fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    pub(super) fn say(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Receives the next message.
    pub(super) fn next(&mut self) -> Value {
        let message = self
            .from
            .recv_timeout(Duration::from_secs(60))
            .expect("a message");
        if message["method"] == "textDocument/publishDiagnostics" {
            let params = message["params"].clone();
            let uri = params["uri"].as_str().expect("a URI").to_owned();
            self.published.insert(uri, params);
        }
        message
    }

    /// Sends a request. Returns the answer or the error.
    pub(super) fn try_ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.try_ask(method, params)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    pub(super) fn open(&mut self, path: &Path, text: &str) {
        let document = json!({ "uri": uri(path), "languageId": "mtp", "version": 1, "text": text });
        self.say("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Replaces a part of an open file. Returns the new text.
    pub(super) fn edit(&mut self, path: &Path, version: i64, text: &str, old: &str, new: &str) -> String {
        let start = find(text, old);
        let change = json!({ "range": range(text, start, start + old.len()), "text": new });
        let document = json!({ "uri": uri(path), "version": version });
        self.say(
            "textDocument/didChange",
            json!({ "textDocument": document, "contentChanges": [change] }),
        );
        text.replacen(old, new, 1)
    }

    /// Waits for the diagnostics of a file at a version.
    pub(super) fn diagnostics(&mut self, path: &Path, version: i64) -> Vec<Value> {
        let uri = uri(path);
        loop {
            if let Some(params) = self.published.get(&uri)
                && params["version"] == version
            {
                return params["diagnostics"].as_array().expect("a list").clone();
            }
            self.next();
        }
    }

    /// Ends the session in the order of the protocol.
    pub(super) fn end(mut self) {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.say("exit", Value::Null);
        let status = self.server.wait().expect("it ends");
        assert_eq!(status.code(), Some(0));
    }

    /// Closes the connection. Returns the exit code and the text on standard error.
    pub(super) fn hang_up(mut self) -> (Option<i32>, String) {
        drop(self.to.take());
        let mut printed = String::new();
        let mut errors = self.server.stderr.take().expect("it has errors");
        errors.read_to_string(&mut printed).expect("a text");
        (self.server.wait().expect("it ends").code(), printed)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        _ = self.server.kill();
        _ = self.server.wait();
    }
}

/// Reads the next message of a server, or `None` when it has ended.
pub(super) fn frame(from: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().strip_prefix("Content-Length: ") {
            Some(value) => length = value.parse().expect("a length"),
            None => break,
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

pub(super) fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Returns the first place of a text within another.
pub(super) fn find(text: &str, what: &str) -> usize {
    text.find(what)
        .unwrap_or_else(|| panic!("`{what}` is not in\n{text}"))
}

/// Returns the LSP position of a byte.
pub(super) fn position(text: &str, byte: usize) -> Value {
    let before = &text[..byte];
    let line = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    json!({ "line": line, "character": before[start..].encode_utf16().count() })
}

pub(super) fn range(text: &str, start: usize, end: usize) -> Value {
    json!({ "start": position(text, start), "end": position(text, end) })
}

/// Returns request parameters for a byte of a file.
pub(super) fn about(path: &Path, text: &str, byte: usize) -> Value {
    json!({ "textDocument": { "uri": uri(path) }, "position": position(text, byte) })
}
