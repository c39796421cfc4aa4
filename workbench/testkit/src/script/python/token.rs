//! Tokens of a block of code.

use crate::script::syntax::text::{ScriptParse, TokenCursor};
use crate::script::syntax::{ScriptPosition, ScriptSyntaxError};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name or keyword, which may contain dots.
    Name(String),
    Integer(i128),
    Float(f64),
    Text(String),
    /// An operator or a bracket.
    Sign(&'static str),
    /// The end of a statement: a line end outside brackets, or `;`.
    End,
}

/// The signs, longer ones first.
const SIGNS: &[&str] = &[
    "**=", "//=", "<<=", ">>=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "**",
    "//", "<<", ">>", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">", "=", "(", ")", "[", "]", ",",
    ".", ":",
];

/// Returns all tokens of a text that begins at `start`, with their places. [`Token::End`] is the last.
pub(super) fn tokens(text: &str, start: ScriptPosition) -> ScriptParse<Vec<(ScriptPosition, Token)>> {
    let mut cursor = TokenCursor::new(text, start);
    let mut tokens = Vec::new();
    let mut depth = 0_i32;
    loop {
        cursor.run(|c| matches!(c, ' ' | '\t' | '\r'));
        let place = cursor.anchor();
        let rest = cursor.rest();
        let Some(first) = rest.chars().next() else { break };
        match first {
            '#' => {
                cursor.line();
            }
            '\\' if rest[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => {
                cursor.run(|c| c != '\n');
                cursor.run_one();
            }
            '\n' | ';' => {
                cursor.run_one();
                if depth <= 0 || first == ';' {
                    tokens.push((place, Token::End));
                }
            }
            '"' | '\'' => {
                cursor.run_one();
                let text = cursor.until(if first == '"' { "\"" } else { "'" }, "text")?;
                tokens.push((place, Token::Text(text.to_owned())));
            }
            _ if first.is_ascii_digit() => tokens.push((place, number(&mut cursor)?)),
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let name = cursor.run(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
                tokens.push((place, Token::Name(name.to_owned())));
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => {
                    cursor.advance(sign);
                    depth += i32::from(matches!(*sign, "(" | "[")) - i32::from(matches!(*sign, ")" | "]"));
                    tokens.push((place, Token::Sign(sign)));
                }
                None => return cursor.error(format!("`{first}` is not supported here"), ""),
            },
        }
    }
    tokens.push((cursor.place(), Token::End));
    Ok(tokens)
}

fn number(cursor: &mut TokenCursor<'_>) -> ScriptParse<Token> {
    let place = cursor.place();
    let word = cursor
        .run(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        .replace('_', "");
    let wrong = || ScriptSyntaxError {
        place,
        message: format!("`{word}` is not a number"),
        hint: String::new(),
    };
    if let Some(hex) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return i128::from_str_radix(hex, 16)
            .map(Token::Integer)
            .map_err(|_| wrong());
    }
    if word.contains('.') || word.contains(['e', 'E']) {
        return word.parse().map(Token::Float).map_err(|_| wrong());
    }
    word.parse().map(Token::Integer).map_err(|_| wrong())
}
