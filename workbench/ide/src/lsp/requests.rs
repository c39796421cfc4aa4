//! Answers the editor's requests in the protocol's terms.

use std::path::PathBuf;

use lsp_server::{ErrorCode, Request, Response};
use lsp_types::request::{self as ask, Request as _};
use lsp_types::{self as lsp, Position, TextDocumentPositionParams};
use serde_json::{Value, json};

use super::server::{Server, error};
use super::{convert, names, outlines};
use crate::{Edit, Fix, Lines};

/// The capabilities of the server.
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
            "renameProvider": { "prepareProvider": true },
            "completionProvider": { "triggerCharacters": [".", ":", ">", "{", "["] },
            "signatureHelpProvider": { "triggerCharacters": ["(", ","] },
            "documentSymbolProvider": true,
            "workspaceSymbolProvider": true,
            "semanticTokensProvider": {
                "legend": { "tokenTypes": names::TOKEN_TYPES, "tokenModifiers": names::TOKEN_MODIFIERS },
                "full": true,
            },
            "inlayHintProvider": true,
            "codeLensProvider": {},
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
        _ => answer_about_more(server, request),
    }
}

fn answer_about_more(server: &Server<'_>, request: Request) -> Response {
    match request.method.as_str() {
        ask::PrepareRenameRequest::METHOD => {
            with::<ask::PrepareRenameRequest>(request, |params| Ok(renameable(server, &params)))
        }
        ask::Rename::METHOD => with::<ask::Rename>(request, |params| rename(server, &params)),
        ask::Completion::METHOD => with::<ask::Completion>(request, |params| {
            Ok(completion(server, &params.text_document_position))
        }),
        ask::SignatureHelpRequest::METHOD => with::<ask::SignatureHelpRequest>(request, |params| {
            Ok(signature(server, &params.text_document_position_params))
        }),
        ask::DocumentSymbolRequest::METHOD => with::<ask::DocumentSymbolRequest>(request, |params| {
            outlines::symbols(server, &params.text_document)
        }),
        ask::WorkspaceSymbolRequest::METHOD => with::<ask::WorkspaceSymbolRequest>(request, |params| {
            outlines::all_symbols(server, &params.query)
        }),
        ask::SemanticTokensFullRequest::METHOD => with::<ask::SemanticTokensFullRequest>(request, |params| {
            outlines::colours(server, &params.text_document)
        }),
        ask::InlayHintRequest::METHOD => {
            with::<ask::InlayHintRequest>(request, |params| outlines::hints(server, &params))
        }
        ask::CodeLensRequest::METHOD => {
            with::<ask::CodeLensRequest>(request, |params| outlines::lenses(server, &params.text_document))
        }
        other => error(
            request.id.clone(),
            ErrorCode::MethodNotFound,
            &format!("`{other}` is not known"),
        ),
    }
}

/// The result of a request, or an error message for the user.
pub(super) type RequestResult<T> = Result<T, String>;

/// Parses a request's parameters and wraps the answer.
fn with<R: ask::Request>(
    request: Request,
    answer: impl FnOnce(R::Params) -> RequestResult<R::Result>,
) -> Response
where
    R::Params: serde::de::DeserializeOwned,
    R::Result: serde::Serialize,
{
    match serde_json::from_value(request.params) {
        Ok(params) => match answer(params) {
            Ok(result) => Response::new_ok(request.id, result),
            Err(why) => error(request.id, ErrorCode::RequestFailed, &why),
        },
        Err(why) => error(
            request.id,
            ErrorCode::InvalidParams,
            &hawser_documents::fault_of_value(&why).to_string(),
        ),
    }
}

/// Returns the path of the open text that a request names, and the byte offset of its position.
fn at(
    server: &Server<'_>,
    document: &lsp::TextDocumentIdentifier,
    position: Position,
) -> Option<(PathBuf, usize)> {
    let path = server.workspace.identity(&convert::path(&document.uri));
    let byte = convert::byte(server.workspace.text(&path)?, position);
    Some((path, byte))
}

fn hover(server: &Server<'_>, params: &TextDocumentPositionParams) -> RequestResult<Option<lsp::Hover>> {
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
) -> RequestResult<Option<lsp::GotoDefinitionResponse>> {
    let place = at(server, &params.text_document, params.position)
        .and_then(|(path, byte)| server.workspace.definition(&path, byte));
    let location = place.and_then(|place| server.location(&place));
    Ok(location.map(lsp::GotoDefinitionResponse::Scalar))
}

fn references(
    server: &Server<'_>,
    params: &TextDocumentPositionParams,
    with_declaration: bool,
) -> RequestResult<Option<Vec<lsp::Location>>> {
    let places = at(server, &params.text_document, params.position)
        .map(|(path, byte)| server.workspace.references(&path, byte, with_declaration));
    let places = places.into_iter().flatten();
    Ok(Some(places.filter_map(|place| server.location(&place)).collect()))
}

fn highlights(
    server: &Server<'_>,
    params: &TextDocumentPositionParams,
) -> RequestResult<Option<Vec<lsp::DocumentHighlight>>> {
    let places = at(server, &params.text_document, params.position)
        .map(|(path, byte)| server.workspace.highlights(&path, byte));
    let locations = places.into_iter().flatten();
    let locations = locations.filter_map(|place| server.location(&place));
    let highlight = |location: lsp::Location| lsp::DocumentHighlight { range: location.range, kind: None };
    Ok(Some(locations.map(highlight).collect()))
}

fn fixes(
    server: &Server<'_>,
    params: &lsp::CodeActionParams,
) -> RequestResult<Option<lsp::CodeActionResponse>> {
    let path = server
        .workspace
        .identity(&convert::path(&params.text_document.uri));
    let Some(text) = server.workspace.text(&path) else {
        return Ok(None);
    };
    let lines = Lines::new(text);
    let fixes = server.workspace.fixes(&path, convert::bytes(text, params.range));
    let action = |fix: Fix| {
        let diagnostic = server.diagnostic(&lines, &fix.problem);
        let edit = convert::edit(&lines, fix.edit);
        // One document with one edit, in the protocol's map form.
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

/// Replaces the whole text if formatting changes it. A text with errors stays unchanged.
fn formatted(server: &Server<'_>, document: &lsp::TextDocumentIdentifier) -> Option<Vec<lsp::TextEdit>> {
    let text = server.workspace.text(&convert::path(&document.uri))?;
    let formatted = hawser_syntax::format(text).ok()?;
    let whole = Edit { range: 0..text.len(), text: formatted.clone() };
    let edits = (formatted != text).then(|| convert::edit(&Lines::new(text), whole));
    Some(edits.into_iter().collect())
}

fn renameable(
    server: &Server<'_>,
    params: &TextDocumentPositionParams,
) -> Option<lsp::PrepareRenameResponse> {
    let (path, byte) = at(server, &params.text_document, params.position)?;
    let place = server.workspace.renameable(&path, byte)?;
    let lines = Lines::new(server.workspace.text(&path)?);
    Some(lsp::PrepareRenameResponse::Range(convert::range(&lines, place)))
}

fn rename(server: &Server<'_>, params: &lsp::RenameParams) -> RequestResult<Option<lsp::WorkspaceEdit>> {
    let position = &params.text_document_position;
    let (path, byte) =
        at(server, &position.text_document, position.position).ok_or("the file is not open")?;
    let edits = server.workspace.rename(&path, byte, &params.new_name)?;
    let mut changes = serde_json::Map::new();
    for (path, edits) in edits {
        let text = server.workspace.any_text(&path).unwrap_or_default();
        let lines = Lines::new(&text);
        let edits: Vec<_> = edits
            .into_iter()
            .map(|edit| convert::edit(&lines, edit))
            .collect();
        if let Some(uri) = server.uri(&path) {
            changes.insert(uri.as_str().to_owned(), json!(edits));
        }
    }
    Ok(serde_json::from_value(json!({ "changes": changes })).ok())
}

fn completion(server: &Server<'_>, params: &TextDocumentPositionParams) -> Option<lsp::CompletionResponse> {
    let (path, byte) = at(server, &params.text_document, params.position)?;
    let completion = server.workspace.completion(&path, byte)?;
    let range = convert::range(&Lines::new(server.workspace.text(&path)?), completion.range);
    let proposals = completion.proposals.into_iter().enumerate();
    let items = proposals.map(|(order, proposal)| lsp::CompletionItem {
        kind: Some(names::proposal(proposal.kind)),
        detail: Some(proposal.detail).filter(|detail| !detail.is_empty()),
        documentation: Some(lsp::Documentation::String(proposal.meaning)),
        sort_text: Some(format!("{order:04}")),
        text_edit: Some(lsp::CompletionTextEdit::Edit(lsp::TextEdit {
            range,
            new_text: proposal.name.clone(),
        })),
        label: proposal.name,
        ..lsp::CompletionItem::default()
    });
    Some(lsp::CompletionResponse::Array(items.collect()))
}

fn signature(server: &Server<'_>, params: &TextDocumentPositionParams) -> Option<lsp::SignatureHelp> {
    let (path, byte) = at(server, &params.text_document, params.position)?;
    let signature = server.workspace.signature(&path, byte)?;
    let form = Lines::new(&signature.form);
    // Offsets within the label are counted like positions, and a form is a single line.
    let offset = |byte| form.position(byte).1;
    let parameters = signature
        .parameters
        .iter()
        .map(|(start, end)| lsp::ParameterInformation {
            label: lsp::ParameterLabel::LabelOffsets([offset(*start), offset(*end)]),
            documentation: None,
        });
    let active = Some(signature.active as u32);
    let information = lsp::SignatureInformation {
        parameters: Some(parameters.collect()),
        documentation: Some(lsp::Documentation::String(signature.meaning.clone())),
        active_parameter: active,
        label: signature.form.clone(),
    };
    Some(lsp::SignatureHelp {
        signatures: vec![information],
        active_signature: Some(0),
        active_parameter: active,
    })
}
