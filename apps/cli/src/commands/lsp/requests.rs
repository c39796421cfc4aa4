//! What an editor asks, and the answers in its terms.

use std::path::PathBuf;

use hawser::lang::ide::{self, Lines};
use lsp_server::{ErrorCode, Request, Response};
use lsp_types::request::{self as ask, Request as _};
use lsp_types::{self as lsp, Position, TextDocumentPositionParams};
use serde_json::{Value, json};

use super::convert;
use super::server::{Server, error};

/// What the server can do.
pub(super) fn abilities() -> Value {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            "textDocumentSync": { "openClose": true, "change": 2 },
            "hoverProvider": true,
            "definitionProvider": true,
            "referencesProvider": true,
            "documentHighlightProvider": true,
            "documentFormattingProvider": true,
            "codeActionProvider": { "codeActionKinds": ["quickfix"] },
        },
        "serverInfo": { "name": "hawser", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Answers a request.
pub(super) fn answer(server: &Server<'_>, request: Request) -> Response {
    match request.method.as_str() {
        ask::HoverRequest::METHOD => with::<ask::HoverRequest>(request, |params| {
            hover(server, &params.text_document_position_params)
        }),
        ask::GotoDefinition::METHOD => with::<ask::GotoDefinition>(request, |params| {
            definition(server, &params.text_document_position_params)
        }),
        ask::References::METHOD => with::<ask::References>(request, |params| {
            let with_declaration = params.context.include_declaration;
            references(server, &params.text_document_position, with_declaration)
        }),
        ask::DocumentHighlightRequest::METHOD => with::<ask::DocumentHighlightRequest>(request, |params| {
            highlights(server, &params.text_document_position_params)
        }),
        ask::CodeActionRequest::METHOD => {
            with::<ask::CodeActionRequest>(request, |params| fixes(server, &params))
        }
        ask::Formatting::METHOD => {
            with::<ask::Formatting>(request, |params| Ok(formatted(server, &params.text_document)))
        }
        other => error(
            request.id.clone(),
            ErrorCode::MethodNotFound,
            &format!("`{other}` is not known"),
        ),
    }
}

/// Why a request cannot be answered, for its user.
pub(super) type Answer<T> = Result<T, String>;

/// Reads a request's parameters and wraps the answer.
fn with<R: ask::Request>(request: Request, answer: impl FnOnce(R::Params) -> Answer<R::Result>) -> Response
where
    R::Params: serde::de::DeserializeOwned,
    R::Result: serde::Serialize,
{
    match serde_json::from_value(request.params) {
        Ok(params) => match answer(params) {
            Ok(result) => Response::new_ok(request.id, result),
            Err(why) => error(request.id, ErrorCode::RequestFailed, &why),
        },
        Err(why) => error(request.id, ErrorCode::InvalidParams, &why.to_string()),
    }
}

/// The open text that a request is about, its path, and the byte of a position in it.
fn at(
    server: &Server<'_>,
    document: &lsp::TextDocumentIdentifier,
    position: Position,
) -> Option<(PathBuf, usize)> {
    let path = server.workspace.identity(&convert::path(&document.uri));
    let byte = convert::byte(server.workspace.text(&path)?, position);
    Some((path, byte))
}

fn hover(server: &Server<'_>, params: &TextDocumentPositionParams) -> Answer<Option<lsp::Hover>> {
    let found = at(server, &params.text_document, params.position).and_then(|(path, byte)| {
        let hover = server.workspace.hover(&path, byte)?;
        let lines = Lines::new(server.workspace.text(&path)?);
        Some(lsp::Hover {
            range: Some(convert::range(&lines, hover.range)),
            contents: lsp::HoverContents::Markup(lsp::MarkupContent {
                kind: lsp::MarkupKind::Markdown,
                value: hover.text,
            }),
        })
    });
    Ok(found)
}

fn definition(
    server: &Server<'_>,
    params: &TextDocumentPositionParams,
) -> Answer<Option<lsp::GotoDefinitionResponse>> {
    let place = at(server, &params.text_document, params.position)
        .and_then(|(path, byte)| server.workspace.definition(&path, byte));
    let location = place.and_then(|place| server.location(&place));
    Ok(location.map(lsp::GotoDefinitionResponse::Scalar))
}

fn references(
    server: &Server<'_>,
    params: &TextDocumentPositionParams,
    with_declaration: bool,
) -> Answer<Option<Vec<lsp::Location>>> {
    let places = at(server, &params.text_document, params.position)
        .map(|(path, byte)| server.workspace.references(&path, byte, with_declaration));
    let places = places.into_iter().flatten();
    Ok(Some(places.filter_map(|place| server.location(&place)).collect()))
}

fn highlights(
    server: &Server<'_>,
    params: &TextDocumentPositionParams,
) -> Answer<Option<Vec<lsp::DocumentHighlight>>> {
    let places = at(server, &params.text_document, params.position)
        .map(|(path, byte)| server.workspace.highlights(&path, byte));
    let locations = places.into_iter().flatten();
    let locations = locations.filter_map(|place| server.location(&place));
    let highlight = |location: lsp::Location| lsp::DocumentHighlight {
        range: location.range,
        kind: None,
    };
    Ok(Some(locations.map(highlight).collect()))
}

fn fixes(server: &Server<'_>, params: &lsp::CodeActionParams) -> Answer<Option<lsp::CodeActionResponse>> {
    let path = server
        .workspace
        .identity(&convert::path(&params.text_document.uri));
    let Some(text) = server.workspace.text(&path) else {
        return Ok(None);
    };
    let lines = Lines::new(text);
    let fixes = server.workspace.fixes(&path, convert::bytes(text, params.range));
    let action = |fix: ide::Fix| {
        let diagnostic = server.diagnostic(&lines, &fix.problem);
        let edit = convert::edit(&lines, fix.edit);
        // One document and one edit: a map as the protocol has it.
        let changes = json!({ params.text_document.uri.as_str(): [edit] });
        lsp::CodeActionOrCommand::CodeAction(lsp::CodeAction {
            title: fix.title,
            kind: Some(lsp::CodeActionKind::QUICKFIX),
            diagnostics: Some(vec![diagnostic]),
            edit: serde_json::from_value(json!({ "changes": changes })).ok(),
            is_preferred: Some(true),
            ..lsp::CodeAction::default()
        })
    };
    Ok(Some(fixes.into_iter().map(action).collect()))
}

/// The whole text anew, where formatting changes it; a text with errors stays as it is.
fn formatted(server: &Server<'_>, document: &lsp::TextDocumentIdentifier) -> Option<Vec<lsp::TextEdit>> {
    let text = server.workspace.text(&convert::path(&document.uri))?;
    let formatted = hawser::lang::format(text).ok()?;
    let whole = ide::Edit {
        range: 0..text.len(),
        text: formatted.clone(),
    };
    let edits = (formatted != text).then(|| convert::edit(&Lines::new(text), whole));
    Some(edits.into_iter().collect())
}
