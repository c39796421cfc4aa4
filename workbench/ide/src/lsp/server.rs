//! The server: it processes one message at a time and publishes diagnostics when no message waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use hawser_driver::Loader;
use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::{self as notify, Notification as _};
use lsp_types::request::{self as ask, Request as _};
use lsp_types::{
    DiagnosticRelatedInformation, DiagnosticSeverity, InitializeParams, Location, NumberOrString,
    PublishDiagnosticsParams, TextDocumentContentChangeEvent, Uri,
};
use serde_json::Value;

use super::{Files, Incoming, ServeError, WAITING, convert, requests};
use crate::{FileDiagnostics, FileRange, Lines, Problem, Severity, Workspace};

/// The maximum number of open texts, and the maximum size of each in bytes.
const MAX_OPEN: usize = 1024;
const MAX_TEXT: usize = 32 << 20;

/// The sink of messages to the editor.
type Send<'a> = &'a mut dyn FnMut(Message) -> io::Result<()>;

/// The stage of the protocol's life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LifecyclePhase {
    Begun,
    Running,
    ShutDown,
}

/// A connection to an editor.
pub struct Server<'a> {
    send: Send<'a>,
    pub(super) files: &'a dyn Files,
    stage: LifecyclePhase,
    pub(super) workspace: Workspace,
    /// The open documents by their canonical path, with the editor's URI and the version.
    documents: BTreeMap<PathBuf, (Uri, i32)>,
    /// The editor's folders.
    folders: Vec<PathBuf>,
    /// The diagnostics published last, by file.
    published: BTreeMap<PathBuf, Vec<Problem>>,
    /// Set when a text has changed since the last publication.
    is_stale: bool,
    /// Set if the editor can be asked to report changed files.
    registers_watchers: bool,
}

impl<'a> Server<'a> {
    /// Returns a server that reads texts through `loader` and sends messages by `send`.
    pub fn new(loader: Box<dyn Loader>, files: &'a dyn Files, send: Send<'a>) -> Server<'a> {
        Server {
            send,
            files,
            stage: LifecyclePhase::Begun,
            workspace: Workspace::new(loader),
            documents: BTreeMap::new(),
            folders: Vec::new(),
            published: BTreeMap::new(),
            is_stale: false,
            registers_watchers: false,
        }
    }

    /// Serves until the editor sends `exit` or disconnects.
    ///
    /// # Errors
    /// The connection broke, or the editor ended it before `shutdown` and `exit`.
    pub fn serve(mut self, messages: &Receiver<Incoming>) -> Result<(), ServeError> {
        let mut waiting = VecDeque::new();
        let mut cancelled = BTreeSet::new();
        loop {
            if waiting.is_empty() {
                self.publish()?;
                waiting.push_back(messages.recv()?);
            }
            // Takes all available messages, so that a cancelled request is not processed, and only the last
            // of several changes is diagnosed.
            while waiting.len() < WAITING
                && let Ok(incoming) = messages.try_recv()
            {
                waiting.push_back(incoming);
            }
            cancelled.extend(waiting.iter().filter_map(cancels));
            let Some(incoming) = waiting.pop_front() else {
                continue;
            };
            match incoming {
                Incoming::Message(Message::Notification(message))
                    if message.method == notify::Exit::METHOD =>
                {
                    return match self.stage {
                        LifecyclePhase::ShutDown => Ok(()),
                        LifecyclePhase::Begun | LifecyclePhase::Running => Err(ServeError::EarlyExit),
                    };
                }
                Incoming::Message(Message::Notification(message)) => self.notice(message),
                Incoming::Message(Message::Request(request)) => {
                    let response = match cancelled.remove(&request.id) {
                        true => error(request.id, ErrorCode::RequestCanceled, "cancelled"),
                        false => self.answer(request),
                    };
                    (self.send)(response.into())?;
                }
                // An answer to the registration. A refusal needs no reaction.
                Incoming::Message(Message::Response(_)) => {}
                // A malformed message has no number to answer to.
                Incoming::Malformed(why) => {
                    let params = serde_json::json!({ "type": 1, "message": format!("not a message: {why}") });
                    let log = Notification::new(notify::LogMessage::METHOD.to_owned(), params);
                    (self.send)(log.into())?;
                }
                Incoming::End(None) if self.stage == LifecyclePhase::ShutDown => return Ok(()),
                Incoming::End(None) => return Err(ServeError::Closed),
                Incoming::End(Some(why)) => return Err(ServeError::Unreadable(why)),
            }
            if waiting.is_empty() {
                cancelled.clear();
            }
        }
    }

    fn answer(&mut self, request: Request) -> Response {
        let id = request.id.clone();
        match (self.stage, request.method.as_str()) {
            (LifecyclePhase::Begun, ask::Initialize::METHOD) => {
                match serde_json::from_value(request.params) {
                    Ok(params) => {
                        self.begin(&params);
                        Response::new_ok(id, requests::abilities())
                    }
                    Err(why) => error(
                        id,
                        ErrorCode::InvalidParams,
                        &hawser_documents::fault_of_value(&why).to_string(),
                    ),
                }
            }
            (LifecyclePhase::Begun, _) => error(id, ErrorCode::ServerNotInitialized, "expected `initialize`"),
            (LifecyclePhase::Running, ask::Initialize::METHOD) => {
                error(id, ErrorCode::InvalidRequest, "a second `initialize`")
            }
            (LifecyclePhase::Running, ask::Shutdown::METHOD) => {
                self.stage = LifecyclePhase::ShutDown;
                Response::new_ok(id, Value::Null)
            }
            (LifecyclePhase::Running, _) => requests::answer(self, request),
            (LifecyclePhase::ShutDown, _) => error(id, ErrorCode::InvalidRequest, "expected `exit`"),
        }
    }

    fn begin(&mut self, params: &InitializeParams) {
        self.stage = LifecyclePhase::Running;
        #[allow(deprecated)] // Editors with only one folder send it.
        let root = params.root_uri.as_ref();
        let folders = params.workspace_folders.iter().flatten();
        let folders = folders.map(|folder| &folder.uri).chain(root);
        self.folders = folders.map(convert::path).collect();
        self.folders.sort();
        self.folders.dedup();
        let programs = self.folders.iter().flat_map(|folder| self.files.programs(folder));
        self.workspace.know(programs);
        let watched = params.capabilities.workspace.as_ref();
        let watched = watched.and_then(|workspace| workspace.did_change_watched_files);
        self.registers_watchers = watched.and_then(|watched| watched.dynamic_registration) == Some(true);
    }

    fn notice(&mut self, message: Notification) {
        if self.stage != LifecyclePhase::Running {
            return;
        }
        let params = message.params;
        match message.method.as_str() {
            notify::Initialized::METHOD => self.watch_files(),
            notify::DidOpenTextDocument::METHOD => self.opened(params),
            notify::DidChangeTextDocument::METHOD => self.changed(params),
            notify::DidCloseTextDocument::METHOD => self.closed(params),
            notify::DidChangeWatchedFiles::METHOD => self.files_changed(params),
            // `$/cancelRequest` was handled on arrival. Other notifications need no action.
            _ => {}
        }
    }

    fn opened(&mut self, params: Value) {
        let Some(params) = read::<lsp_types::DidOpenTextDocumentParams>(params) else {
            return;
        };
        let document = params.text_document;
        let path = self.workspace.identity(&convert::path(&document.uri));
        let is_known = self.documents.contains_key(&path);
        if document.text.len() <= MAX_TEXT && (is_known || self.documents.len() < MAX_OPEN) {
            self.workspace.open(&path, document.text);
            self.documents.insert(path, (document.uri, document.version));
            self.is_stale = true;
        }
    }

    fn changed(&mut self, params: Value) {
        let Some(params) = read::<lsp_types::DidChangeTextDocumentParams>(params) else {
            return;
        };
        let path = self.workspace.identity(&convert::path(&params.text_document.uri));
        let Some(text) = self.workspace.text(&path) else {
            return;
        };
        let text = params.content_changes.into_iter().fold(text.to_owned(), changed);
        if text.len() > MAX_TEXT {
            return self.forget(&path);
        }
        self.workspace.open(&path, text);
        if let Some((_, version)) = self.documents.get_mut(&path) {
            *version = params.text_document.version;
        }
        self.is_stale = true;
    }

    fn closed(&mut self, params: Value) {
        if let Some(params) = read::<lsp_types::DidCloseTextDocumentParams>(params) {
            let path = self.workspace.identity(&convert::path(&params.text_document.uri));
            self.forget(&path);
        }
    }

    fn forget(&mut self, path: &Path) {
        self.workspace.close(path);
        self.documents.remove(path);
        self.is_stale = true;
    }

    fn files_changed(&mut self, params: Value) {
        if let Some(params) = read::<lsp_types::DidChangeWatchedFilesParams>(params) {
            for change in &params.changes {
                self.workspace.reload(&convert::path(&change.uri));
            }
            self.is_stale = true;
        }
    }

    /// Asks the editor to report changes of programs that are not open.
    fn watch_files(&mut self) {
        if self.registers_watchers {
            let watcher = serde_json::json!({ "globPattern": "**/*.mtp" });
            let registration = serde_json::json!({
                "id": "programs",
                "method": notify::DidChangeWatchedFiles::METHOD,
                "registerOptions": { "watchers": [watcher] },
            });
            let request = Request::new(
                RequestId::from("programs".to_owned()),
                ask::RegisterCapability::METHOD.to_owned(),
                serde_json::json!({ "registrations": [registration] }),
            );
            // If the editor has gone, the next read reports it.
            _ = (self.send)(request.into());
        }
    }

    /// Publishes the diagnostics that differ from those published before.
    fn publish(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_stale) {
            return Ok(());
        }
        let now: Vec<FileDiagnostics> = self.workspace.diagnostics();
        let is_gone = |path: &PathBuf| now.iter().all(|file| file.path != *path);
        let gone: Vec<PathBuf> = self
            .published
            .keys()
            .filter(|path| is_gone(path))
            .cloned()
            .collect();
        let gone = gone
            .into_iter()
            .map(|path| FileDiagnostics { path, problems: Vec::new() });
        for file in gone.chain(now.iter().cloned()).collect::<Vec<_>>() {
            let before = self.published.get(&file.path).map_or(&[][..], Vec::as_slice);
            // Diagnostics of an open text are published after every change, because the editor waits for its
            // version.
            if before == file.problems && !self.documents.contains_key(&file.path) {
                continue;
            }
            if let Some(params) = self.diagnostics(&file) {
                let notification = Notification::new(notify::PublishDiagnostics::METHOD.to_owned(), params);
                (self.send)(notification.into())?;
            }
            match file.problems.is_empty() {
                true => _ = self.published.remove(&file.path),
                false => _ = self.published.insert(file.path, file.problems),
            }
        }
        Ok(())
    }

    fn diagnostics(&self, file: &FileDiagnostics) -> Option<PublishDiagnosticsParams> {
        let uri = self.uri(&file.path)?;
        let version = self.documents.get(&file.path).map(|(_, version)| *version);
        let text = self.workspace.any_text(&file.path).unwrap_or_default();
        let lines = Lines::new(&text);
        let diagnostics = file
            .problems
            .iter()
            .map(|problem| self.diagnostic(&lines, problem));
        Some(PublishDiagnosticsParams { uri, diagnostics: diagnostics.collect(), version })
    }

    pub(super) fn diagnostic(&self, lines: &Lines<'_>, problem: &Problem) -> lsp_types::Diagnostic {
        let related = problem.related.iter().filter_map(|(place, message)| {
            Some(DiagnosticRelatedInformation { location: self.location(place)?, message: message.clone() })
        });
        let related: Vec<_> = related.collect();
        lsp_types::Diagnostic {
            range: convert::range(lines, (problem.range.start, problem.range.end)),
            severity: Some(match problem.severity {
                Severity::Error => DiagnosticSeverity::ERROR,
                Severity::Warning => DiagnosticSeverity::WARNING,
            }),
            code: Some(NumberOrString::String(problem.code.to_owned())),
            source: Some("hawser".to_owned()),
            message: problem.message.clone(),
            related_information: (!related.is_empty()).then_some(related),
            ..lsp_types::Diagnostic::default()
        }
    }

    /// Returns the canonical path of a file that the editor names.
    pub(super) fn path(&self, uri: &Uri) -> PathBuf {
        self.workspace.identity(&convert::path(uri))
    }

    /// Returns the editor's URI of a file.
    pub(super) fn uri(&self, path: &Path) -> Option<Uri> {
        if let Some((uri, _)) = self.documents.get(path) {
            return Some(uri.clone());
        }
        if path.to_str().is_some_and(hawser_driver::is_library) {
            return convert::uri(&self.files.library()?.join(path));
        }
        convert::uri(path)
    }

    /// Converts a place to the editor's terms.
    pub(super) fn location(&self, place: &FileRange) -> Option<Location> {
        let text = self.workspace.any_text(&place.path)?;
        Some(Location {
            uri: self.uri(&place.path)?,
            range: convert::range(&Lines::new(&text), place.range),
        })
    }
}

/// Returns the id of the request that a message cancels.
fn cancels(incoming: &Incoming) -> Option<RequestId> {
    let Incoming::Message(Message::Notification(message)) = incoming else {
        return None;
    };
    if message.method != notify::Cancel::METHOD {
        return None;
    }
    let params: lsp_types::CancelParams = read(message.params.clone())?;
    Some(match params.id {
        NumberOrString::Number(id) => id.into(),
        NumberOrString::String(id) => id.into(),
    })
}

/// Applies a change to a text. A change without a range replaces the text.
fn changed(text: String, change: TextDocumentContentChangeEvent) -> String {
    match change.range {
        None => change.text,
        Some(range) => {
            let mut text = text;
            text.replace_range(convert::bytes(&text, range), &change.text);
            text
        }
    }
}

/// Parses the parameters of a notification. Malformed ones are ignored, because they are no reason to end.
fn read<T: serde::de::DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}

/// An error response to a request.
pub(super) fn error(id: RequestId, code: ErrorCode, message: &str) -> Response {
    Response::new_err(id, code as i32, message.to_owned())
}
