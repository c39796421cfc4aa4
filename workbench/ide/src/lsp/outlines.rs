//! Answers requests about a whole file: symbols, colours, hints, and runnable programs.

use std::path::Path;

use lsp_types as lsp;
use serde_json::json;

use super::requests::RequestResult;
use super::server::Server;
use super::{convert, names};
use crate::{Hint, Lines, Symbol};

pub(super) fn symbols(
    server: &Server<'_>,
    document: &lsp::TextDocumentIdentifier,
) -> RequestResult<Option<lsp::DocumentSymbolResponse>> {
    let path = server.path(&document.uri);
    let Some(text) = server.workspace.text(&path) else {
        return Ok(None);
    };
    let lines = Lines::new(text);
    let symbols = server.workspace.outline(&path);
    let symbols = symbols.into_iter().map(|symbol| document_symbol(&lines, symbol));
    Ok(Some(lsp::DocumentSymbolResponse::Nested(symbols.collect())))
}

#[allow(deprecated)] // The field is mandatory.
fn document_symbol(lines: &Lines<'_>, symbol: Symbol) -> lsp::DocumentSymbol {
    let children = symbol.children.into_iter();
    lsp::DocumentSymbol {
        name: symbol.name,
        detail: Some(symbol.detail).filter(|detail| !detail.is_empty()),
        kind: names::symbol(symbol.kind),
        tags: None,
        deprecated: None,
        range: convert::range(lines, symbol.range),
        selection_range: convert::range(lines, symbol.name_range),
        children: Some(children.map(|child| document_symbol(lines, child)).collect()),
    }
}

pub(super) fn all_symbols(
    server: &Server<'_>,
    query: &str,
) -> RequestResult<Option<lsp::WorkspaceSymbolResponse>> {
    let found = server.workspace.symbols(query).into_iter();
    #[allow(deprecated)] // The field is mandatory.
    let symbols = found.filter_map(|(symbol, place)| {
        Some(lsp::SymbolInformation {
            name: symbol.name,
            kind: names::symbol(symbol.kind),
            tags: None,
            deprecated: None,
            location: server.location(&place)?,
            container_name: Some(symbol.detail).filter(|detail| !detail.is_empty()),
        })
    });
    Ok(Some(lsp::WorkspaceSymbolResponse::Flat(symbols.collect())))
}

/// Returns the colours of a file. The position of each token is relative to the one before.
pub(super) fn colours(
    server: &Server<'_>,
    document: &lsp::TextDocumentIdentifier,
) -> RequestResult<Option<lsp::SemanticTokensResult>> {
    let path = server.path(&document.uri);
    let Some(text) = server.workspace.text(&path) else {
        return Ok(None);
    };
    let lines = Lines::new(text);
    let mut data = Vec::new();
    let mut last = lsp::Position::default();
    for piece in server.workspace.colours(&path) {
        let (token_type, token_modifiers_bitset) = names::token(piece.colour);
        // A token cannot span lines, so a piece is split at line breaks.
        let mut start = piece.range.0;
        for line in text[piece.range.0..piece.range.1].split_inclusive('\n') {
            let shown = line.trim_end_matches(['\r', '\n']);
            let range = convert::range(&lines, (start, start + shown.len()));
            start += line.len();
            let length = range.end.character - range.start.character;
            if length == 0 {
                continue;
            }
            let delta_line = range.start.line - last.line;
            let before = if delta_line == 0 { last.character } else { 0 };
            last = range.start;
            data.push(lsp::SemanticToken {
                delta_line,
                delta_start: range.start.character - before,
                length,
                token_type,
                token_modifiers_bitset,
            });
        }
    }
    Ok(Some(lsp::SemanticTokensResult::Tokens(lsp::SemanticTokens {
        result_id: None,
        data,
    })))
}

pub(super) fn hints(
    server: &Server<'_>,
    params: &lsp::InlayHintParams,
) -> RequestResult<Option<Vec<lsp::InlayHint>>> {
    let path = server.path(&params.text_document.uri);
    let Some(text) = server.workspace.text(&path) else {
        return Ok(None);
    };
    let lines = Lines::new(text);
    let hints = server.workspace.hints(&path, &convert::bytes(text, params.range));
    let hint = |hint: Hint| lsp::InlayHint {
        position: convert::range(&lines, (hint.byte, hint.byte)).start,
        label: hint.text.into(),
        kind: None,
        text_edits: None,
        tooltip: None,
        padding_left: Some(true),
        padding_right: Some(true),
        data: None,
    };
    Ok(Some(hints.into_iter().map(hint).collect()))
}

/// Returns the lenses "simulate" and "debug" above each deployment, for each scenario beside the program.
/// Without a scenario, the lens is "swarm".
pub(super) fn lenses(
    server: &Server<'_>,
    document: &lsp::TextDocumentIdentifier,
) -> RequestResult<Option<Vec<lsp::CodeLens>>> {
    let path = server.path(&document.uri);
    let Some(text) = server.workspace.text(&path) else {
        return Ok(None);
    };
    let lines = Lines::new(text);
    let mut lenses = Vec::new();
    for runnable in server.workspace.runnables(&path) {
        let range = convert::range(&lines, runnable.range);
        let lens = |title: String, command: &str, file: &Path| lsp::CodeLens {
            range,
            command: Some(lsp::Command {
                title,
                command: command.to_owned(),
                arguments: Some(vec![json!(file)]),
            }),
            data: None,
        };
        for scenario in server.files.scenarios(&runnable.program) {
            let name = scenario.file_name().unwrap_or_default().to_string_lossy();
            lenses.push(lens(format!("simulate {name}"), "hawser.simulate", &scenario));
            lenses.push(lens(format!("debug {name}"), "hawser.debug", &scenario));
        }
        if lenses.is_empty() {
            lenses.push(lens("swarm".to_owned(), "hawser.swarm", &runnable.program));
        }
    }
    Ok(Some(lenses))
}
