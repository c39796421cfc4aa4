//! From pieces to lines: the places of line breaks, and the indentation.

use super::MAX_COLUMNS;
use super::conditional;
use super::pieces::{Piece, PieceKind};
use super::spacing::spaces;
use crate::parser::SignRole;
use crate::token::{Keyword, TokenKind};

const INDENT: usize = 4;

/// Lays out the whole text. The result ends with a line end unless it is empty.
pub(super) fn lay_out(pieces: &[Piece<'_>]) -> String {
    let mut layout = Layout {
        pieces,
        expanded: pieces
            .iter()
            .enumerate()
            .map(|(at, piece)| expands(pieces, at, piece))
            .collect(),
        separators: vec![false; pieces.len()],
        bodies: Vec::new(),
        brackets: Vec::new(),
        top: Body::at(0),
        lines: Vec::new(),
    };
    for (at, piece) in pieces.iter().enumerate().skip(1) {
        if piece.newlines > 0 && layout.breaks_before(at) {
            layout.ends_before(at);
        }
    }
    let mut at = 0;
    while at < pieces.len() {
        at = layout.line(at);
    }
    super::trailing::write(&layout.lines)
}

/// A line of the result.
pub(super) struct Line {
    /// True if a blank line stands before it.
    pub(super) blank: bool,
    /// Indentation and code; comments on lines of their own count as code.
    pub(super) code: String,
    /// A comment behind the code.
    pub(super) comment: Option<String>,
    /// The number of spaces before the statement that begins or continues here.
    pub(super) indent: usize,
}

/// True if the body that opens here has its braces on lines of their own. This is so if the author broke a
/// line in it, if it holds a comment that needs one, or if several statements stand in it.
fn expands(pieces: &[Piece<'_>], at: usize, piece: &Piece<'_>) -> bool {
    piece.is(TokenKind::LeftBrace)
        && piece.is_body()
        && piece.partner > at + 1
        && (at + 1..=piece.partner).any(|inner| {
            let members = pieces[inner]
                .parent
                .is_some_and(|open| pieces[open].role == SignRole::Members);
            pieces[inner].newlines > 0
                || pieces[inner].text.contains('\n')
                || (!members && begins_statement(pieces, inner))
        })
}

/// True if a statement or member ended before this piece and another begins with it, or with the comments in
/// front of it.
fn begins_statement(pieces: &[Piece<'_>], at: usize) -> bool {
    let (before, piece) = (&pieces[at - 1], &pieces[at]);
    let after_body = before.is(TokenKind::RightBrace) && before.is_body();
    let continues = match piece.kind {
        PieceKind::Token(TokenKind::Keyword(Keyword::Else)) => after_body,
        PieceKind::Token(kind) => kind == TokenKind::Semicolon || piece.closes(),
        PieceKind::LineComment => true,
        PieceKind::BlockComment => pieces
            .get(at + 1)
            .is_none_or(|next| next.newlines > 0 || next.closes()),
    };
    let inside_body = piece.inside.is_none_or(|open| pieces[open].is_body());
    (after_body || before.is(TokenKind::Semicolon)) && inside_body && !continues
}

/// The state of the body around the next piece.
struct Body {
    /// The indentation of its contents.
    inner: usize,
    /// True if a statement or member begins with the next piece.
    at_start: bool,
    /// The number of `if`, `else` and `for` without braces around the next piece.
    heads: usize,
    /// For each `if` that an `else` may follow, the number of heads around it.
    ifs: Vec<usize>,
    /// True if commas end its members, as in an enum.
    commas: bool,
    /// The brackets that are open outside of it.
    brackets: usize,
}

impl Body {
    fn at(inner: usize) -> Body {
        Body {
            inner,
            at_start: true,
            heads: 0,
            ifs: Vec::new(),
            commas: false,
            brackets: 0,
        }
    }

    fn statement_indent(&self) -> usize {
        self.inner + INDENT * self.heads
    }
}

/// An open bracket.
struct Bracket {
    /// True if its line ends directly behind it. Its contents are indented, and its partner stands alone.
    hanging: bool,
    /// The indentation of its line.
    indent: usize,
    /// The column behind it.
    column: usize,
    /// True for the parenthesis of an `if` or `for`.
    head: bool,
}

struct Layout<'p, 'a> {
    pieces: &'p [Piece<'a>],
    /// For each body's opening brace: true if its braces stand on lines of their own.
    expanded: Vec<bool>,
    /// For each `?` or `:` of a conditional: true if it begins a line.
    separators: Vec<bool>,
    bodies: Vec<Body>,
    brackets: Vec<Bracket>,
    top: Body,
    lines: Vec<Line>,
}

impl Layout<'_, '_> {
    fn body(&mut self) -> &mut Body {
        self.bodies.last_mut().unwrap_or(&mut self.top)
    }

    /// Lays out the line that begins with this piece, and returns the first piece of the next line.
    fn line(&mut self, first: usize) -> usize {
        let indent = self.indent(first);
        let body = self.body();
        let statement_indent = if body.at_start {
            indent
        } else {
            body.statement_indent()
        };
        let blank = self.blank_before(first);
        let end = self.line_end(first, indent);
        let mut code = " ".repeat(indent);
        let mut column = indent;
        let mut comment = None;
        for at in first..end {
            let piece = &self.pieces[at];
            if at > first && piece.kind == PieceKind::LineComment {
                comment = Some(piece.text.to_owned());
            } else {
                let gap = if at > first {
                    spaces(&self.pieces[at - 1], piece)
                } else {
                    0
                };
                code.extend(std::iter::repeat_n(' ', gap));
                push_trimmed(&mut code, piece.text);
                column = piece.end_column(column + gap);
            }
            self.pass(at, indent, column, at + 1 == end);
        }
        self.lines
            .push(Line { blank, code, comment, indent: statement_indent });
        end
    }

    /// Returns the end of the line that begins with this piece. Lines end at the author's breaks and at
    /// mandatory breaks. A line that would be too long ends at the best place.
    fn line_end(&mut self, first: usize, indent: usize) -> usize {
        loop {
            // Each piece takes at least one column, so pieces beyond this window cannot be on this line.
            // Without this bound, the cost of a text on one line would grow with the square of its length.
            let window = (first + 2 * MAX_COLUMNS).min(self.pieces.len());
            let end = (first + 1..window)
                .find(|at| self.breaks_before(*at))
                .unwrap_or(window);
            if self.width(first, end, indent) <= MAX_COLUMNS {
                return end;
            }
            let inline = (first..end).find(|at| {
                let piece = &self.pieces[*at];
                piece.is(TokenKind::LeftBrace)
                    && piece.is_body()
                    && !self.expanded[*at]
                    && piece.partner > at + 1
            });
            let Some(open) = inline else {
                let Some(at) = self.wrap(first, end, indent) else {
                    return self.next_break(first);
                };
                self.ends_before(at);
                return at;
            };
            self.expanded[open] = true;
        }
    }

    /// Records the consequences of a line end before this piece.
    fn ends_before(&mut self, at: usize) {
        for separator in conditional::separators(self.pieces, at) {
            self.separators[separator] = true;
        }
    }

    /// Returns the width of these pieces on one line, in columns. A comment at its end does not count.
    fn width(&self, first: usize, end: usize, indent: usize) -> usize {
        let mut width = indent;
        for at in first..end {
            let piece = &self.pieces[at];
            if at > first {
                if piece.kind == PieceKind::LineComment {
                    break;
                }
                width += spaces(&self.pieces[at - 1], piece);
            }
            width = piece.end_column(width);
        }
        width
    }

    /// Breaks a line within a statement, inside the fewest brackets possible and then as late as possible.
    fn wrap(&self, first: usize, end: usize, indent: usize) -> Option<usize> {
        let mut depth = 0_usize;
        let mut depths = vec![0; end - first];
        for at in first..end {
            let piece = &self.pieces[at];
            if piece.closes() {
                depth = depth.saturating_sub(1);
            }
            depths[at - first] = depth;
            if piece.opens() {
                depth += 1;
            }
        }
        let best = |at: usize| self.wrap_rank(at).map(|rank| (depths[at - first], rank));
        let fitting = (first + 2..end).take_while(|at| self.width(first, *at, indent) <= MAX_COLUMNS);
        // Among the best places, the last one is wanted, but `min_by_key` returns the first.
        let places: Vec<usize> = fitting.filter(|at| best(*at).is_some()).collect();
        places.into_iter().rev().min_by_key(|at| best(*at))
    }

    /// Returns the end of a line that cannot be broken.
    fn next_break(&self, first: usize) -> usize {
        (first + 1..self.pieces.len())
            .find(|at| self.breaks_before(*at))
            .unwrap_or(self.pieces.len())
    }

    /// Returns the rank of a break in a long line before this piece, 0 being the best. Returns `None` if the
    /// line must not be broken there. The weakest operators break first.
    fn wrap_rank(&self, at: usize) -> Option<u8> {
        let piece = &self.pieces[at];
        if self.pieces[at - 1].is(TokenKind::Comma) {
            return (!piece.is_comment()).then_some(0);
        }
        let PieceKind::Token(kind) = piece.kind else {
            return None;
        };
        match kind {
            TokenKind::Question => Some(1),
            TokenKind::Colon if piece.role == SignRole::Spaced => Some(1),
            TokenKind::OrOr => Some(2),
            TokenKind::AndAnd => Some(3),
            TokenKind::Plus => Some(4),
            TokenKind::Minus if piece.role != SignRole::Unary => Some(4),
            _ => None,
        }
    }

    /// True if a line ends before this piece.
    fn breaks_before(&self, at: usize) -> bool {
        let before = &self.pieces[at - 1];
        let piece = &self.pieces[at];
        if before.kind == PieceKind::LineComment {
            return true;
        }
        if piece.kind == PieceKind::LineComment && piece.newlines == 0 {
            return false;
        }
        if before.is_body() && before.is(TokenKind::LeftBrace) {
            return self.expanded[at - 1];
        }
        if piece.is_body() && piece.is(TokenKind::RightBrace) {
            return self.expanded[piece.partner];
        }
        if self.sticks(at) {
            return false;
        }
        if before.is_body() && before.is(TokenKind::RightBrace) && self.expanded[before.partner] {
            return !piece.is_comment() || piece.newlines > 0;
        }
        let hanging = piece
            .inside
            .is_some_and(|open| !self.pieces[open].is_body() && self.hangs(open));
        let item = hanging && (before.is(TokenKind::Comma) || piece.closes());
        let lines = piece.parent.is_none_or(|parent| self.expanded[parent]);
        piece.newlines > 0 || item || self.separators[at] || (lines && begins_statement(self.pieces, at))
    }

    /// True if this piece belongs on the line of the one before, regardless of the author's layout.
    fn sticks(&self, at: usize) -> bool {
        let before = &self.pieces[at - 1];
        let piece = &self.pieces[at];
        if before.is_comment() {
            return false;
        }
        let PieceKind::Token(kind) = piece.kind else {
            return false;
        };
        if matches!(
            before.kind,
            PieceKind::Token(TokenKind::Dot | TokenKind::ColonColon | TokenKind::DotDot)
        ) || before.role == SignRole::Unary
            || before.role == SignRole::Access
        {
            return true;
        }
        match kind {
            TokenKind::Semicolon
            | TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::DotDot
            | TokenKind::ColonColon => true,
            TokenKind::Arrow => piece.role == SignRole::Access,
            TokenKind::LeftParen | TokenKind::LeftBracket => piece.role == SignRole::Attached,
            TokenKind::Greater | TokenKind::GreaterEq if piece.role == SignRole::Attached => true,
            TokenKind::Less => piece.role == SignRole::Type,
            TokenKind::RightParen | TokenKind::RightBracket | TokenKind::Greater if piece.closes() => {
                !self.hangs(piece.partner)
            }
            TokenKind::RightBrace if piece.role == SignRole::List => !self.hangs(piece.partner),
            TokenKind::LeftBrace if piece.role == SignRole::List => true,
            // The `{` of a body stands behind its head; a block of its own begins a statement.
            TokenKind::LeftBrace => {
                let alone = before.is(TokenKind::Semicolon) || before.is_body();
                !alone
            }
            TokenKind::Keyword(Keyword::Else) => before.is(TokenKind::RightBrace) && before.is_body(),
            TokenKind::Keyword(Keyword::If) => before.is(TokenKind::Keyword(Keyword::Else)),
            _ => false,
        }
    }

    /// True if this bracket is the last piece on its line.
    fn hangs(&self, open: usize) -> bool {
        let next = open + 1;
        self.pieces[open].partner > next
            && (self.pieces[next].newlines > 0 || self.pieces[next].kind == PieceKind::LineComment)
            && self.pieces[open].role != SignRole::Type
    }

    /// True if the author's blank line before this piece is kept.
    fn blank_before(&self, first: usize) -> bool {
        let Some(before) = first.checked_sub(1) else {
            return false;
        };
        let (before, piece) = (&self.pieces[before], &self.pieces[first]);
        let body = self.bodies.last().unwrap_or(&self.top);
        piece.newlines > 1
            && !(before.is(TokenKind::LeftBrace) && before.is_body())
            && !(piece.is(TokenKind::RightBrace) && piece.is_body())
            && (body.at_start || piece.is_comment())
    }

    /// Returns the indentation of a line that begins with this piece.
    fn indent(&mut self, first: usize) -> usize {
        let piece = &self.pieces[first];
        let closes_body = piece.is(TokenKind::RightBrace) && piece.is_body();
        let outside = self.body().brackets;
        let open = &self.brackets[outside..];
        match open.last() {
            Some(bracket) if bracket.hanging && piece.closes() => return bracket.indent,
            Some(bracket) if bracket.hanging => {
                let item = bracket.indent + INDENT;
                return item + if self.continues_item(first) { INDENT } else { 0 };
            }
            Some(bracket) if bracket.column <= MAX_COLUMNS / 2 => return bracket.column,
            Some(_) | None => {}
        }
        if let Some(hanging) = open.iter().rfind(|bracket| bracket.hanging) {
            return hanging.indent + 2 * INDENT;
        }
        let body = self.body();
        if closes_body {
            return body.inner.saturating_sub(INDENT);
        }
        body.statement_indent() + if body.at_start { 0 } else { INDENT }
    }

    /// True if an item of a list began before this piece and continues with it.
    fn continues_item(&self, at: usize) -> bool {
        let mut before = self.pieces[..at].iter().rev();
        before
            .find(|piece| !piece.is_comment())
            .is_some_and(|before| !before.opens() && !before.is(TokenKind::Comma))
    }

    /// Updates the surrounding state by this piece.
    fn pass(&mut self, at: usize, line_indent: usize, column: usize, last_on_line: bool) {
        let piece = self.pieces[at];
        let PieceKind::Token(kind) = piece.kind else {
            return;
        };
        if piece.is_body() && kind == TokenKind::LeftBrace {
            let mut inner = Body::at(self.body().statement_indent() + INDENT);
            inner.commas = piece.role == SignRole::Variants;
            inner.brackets = self.brackets.len();
            self.bodies.push(inner);
            return;
        }
        if piece.is_body() && kind == TokenKind::RightBrace {
            self.bodies.pop();
            self.statement_ended(at);
            return;
        }
        self.body().at_start = false;
        if piece.opens() {
            let hanging = last_on_line && piece.role != SignRole::Type;
            let head = at > 0
                && (self.pieces[at - 1].is(TokenKind::Keyword(Keyword::If))
                    || self.pieces[at - 1].is(TokenKind::Keyword(Keyword::For)));
            self.brackets
                .push(Bracket { hanging, indent: line_indent, column, head });
        } else if piece.closes() && self.brackets.pop().is_some_and(|bracket| bracket.head) {
            self.head_ended(at);
        }
        match kind {
            TokenKind::Semicolon => self.statement_ended(at),
            TokenKind::Comma if self.body().commas && self.brackets.len() == self.body().brackets => {
                self.body().at_start = true;
            }
            TokenKind::Keyword(Keyword::If) => {
                let heads = self.body().heads;
                self.body().ifs.push(heads);
            }
            TokenKind::Keyword(Keyword::Else) => self.head_ended(at),
            _ => {}
        }
    }

    /// Returns the next piece that is not a comment.
    fn next_token(&self, at: usize) -> Option<&Piece<'_>> {
        self.pieces[at + 1..].iter().find(|piece| !piece.is_comment())
    }

    /// Handles the end of `if (…)`, `for (…)` or `else`. A statement without braces behind it is indented on
    /// a line of its own.
    fn head_ended(&mut self, at: usize) {
        let braced = self
            .next_token(at)
            .is_some_and(|next| next.is(TokenKind::LeftBrace));
        let chained = self.pieces[at].is(TokenKind::Keyword(Keyword::Else))
            && self
                .next_token(at)
                .is_some_and(|next| next.is(TokenKind::Keyword(Keyword::If)));
        if braced {
            return;
        }
        let body = self.body();
        body.at_start = true;
        body.heads += usize::from(!chained);
    }

    /// Handles `;` or `}`. All heads end with it unless `else` follows.
    fn statement_ended(&mut self, at: usize) {
        let otherwise = self
            .next_token(at)
            .is_some_and(|next| next.is(TokenKind::Keyword(Keyword::Else)));
        let body = self.body();
        body.at_start = true;
        if otherwise {
            body.heads = body.ifs.pop().unwrap_or(0);
        } else {
            body.ifs.clear();
            body.heads = 0;
        }
    }
}

/// Returns the width of the last line in columns.
pub(super) fn width_of_last_line(code: &str) -> usize {
    code.rsplit('\n').next().unwrap_or_default().chars().count()
}

/// Appends a piece's text. The lines of a comment lose their trailing blanks.
fn push_trimmed(code: &mut String, text: &str) {
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            code.push('\n');
        }
        code.push_str(if text.contains('\n') {
            line.trim_end()
        } else {
            line
        });
    }
}
