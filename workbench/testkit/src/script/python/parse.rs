//! Parses tokens into statements, with Python's precedence.

use super::token::{Token, tokens};
use super::{Block, Comparison, Node, Operator, Statement, StatementKind, Value};
use crate::script::syntax::text::ScriptParse;
use crate::script::syntax::{ScriptPosition, ScriptSyntaxError};

/// The maximum nesting of expressions.
const DEEPEST: usize = 48;

/// Parses a block of code.
pub(crate) fn parse(text: &str, start: ScriptPosition) -> ScriptParse<Block> {
    let mut reader = Reader::new(text, start)?;
    let mut statements = Vec::new();
    while reader.at < reader.tokens.len() {
        if reader.take_end() {
            continue;
        }
        statements.push(reader.statement(text, start)?);
        if !reader.take_end() {
            return reader.expected("the end of the statement");
        }
    }
    Ok(Block(statements))
}

/// Parses one expression.
pub(crate) fn expression(text: &str) -> ScriptParse<Node> {
    let mut reader = Reader::new(text, ScriptPosition { line: 1, column: 1 })?;
    let node = reader.choice(0)?;
    if reader.at + 1 < reader.tokens.len() {
        reader.expected("the end of the expression")
    } else {
        Ok(node)
    }
}

struct Reader {
    tokens: Vec<(ScriptPosition, Token)>,
    at: usize,
}

impl Reader {
    fn new(text: &str, start: ScriptPosition) -> ScriptParse<Reader> {
        Ok(Reader { tokens: tokens(text, start)?, at: 0 })
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(_, token)| token)
    }

    fn place(&self) -> ScriptPosition {
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .map(|(place, _)| *place)
            .unwrap_or_default()
    }

    fn error<T>(&self, message: String, hint: &str) -> ScriptParse<T> {
        Err(ScriptSyntaxError { place: self.place(), message, hint: hint.into() })
    }

    fn expected<T>(&self, wanted: &str) -> ScriptParse<T> {
        let found = match self.peek() {
            Token::Name(name) => format!("`{name}`"),
            Token::Integer(value) => format!("`{value}`"),
            Token::Float(value) => format!("`{value}`"),
            Token::Text(text) => format!("'{text}'"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the line".into(),
        };
        self.error(format!("expected {wanted}, found {found}"), "")
    }

    fn take_end(&mut self) -> bool {
        let found = self.at < self.tokens.len() && *self.peek() == Token::End;
        self.at += usize::from(found);
        found
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(s) if *s == sign);
        self.at += usize::from(found);
        found
    }

    fn take_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(n) if n == name);
        self.at += usize::from(found);
        found
    }

    fn statement(&mut self, text: &str, start: ScriptPosition) -> ScriptParse<Statement> {
        let place = self.place();
        let kind = match self.peek().clone() {
            Token::Name(name) if name == "assert" => {
                self.at += 1;
                let test = self.choice(0)?;
                let message = if self.take(",") {
                    Some(self.choice(0)?)
                } else {
                    None
                };
                StatementKind::Assert(test, message, source(text, start, place))
            }
            Token::Name(name) if matches!(name.as_str(), "import" | "from" | "pass") => {
                while *self.peek() != Token::End {
                    self.at += 1;
                }
                StatementKind::Nothing
            }
            Token::Name(name) if UNKNOWN.contains(&name.as_str()) => {
                return self.error(
                    format!("`{name}` is not supported in the Python of scripts"),
                    "assert, print, assignments and expressions are supported",
                );
            }
            Token::Name(name) => match self.assignment() {
                Some(operator) => StatementKind::Assign(name, operator, self.choice(0)?),
                None => StatementKind::Evaluate(self.choice(0)?),
            },
            _ => StatementKind::Evaluate(self.choice(0)?),
        };
        Ok(Statement { place, kind })
    }

    /// Parses `name =` or `name +=`, if present, and returns the operator.
    fn assignment(&mut self) -> Option<Option<Operator>> {
        let Some((_, Token::Sign(sign))) = self.tokens.get(self.at + 1) else {
            return None;
        };
        let operator = match *sign {
            "=" => None,
            "+=" => Some(Operator::Add),
            "-=" => Some(Operator::Subtract),
            "*=" => Some(Operator::Multiply),
            "/=" => Some(Operator::Divide),
            "//=" => Some(Operator::FloorDivide),
            "%=" => Some(Operator::Modulo),
            "&=" => Some(Operator::And),
            "|=" => Some(Operator::Or),
            "^=" => Some(Operator::Xor),
            "<<=" => Some(Operator::ShiftLeft),
            ">>=" => Some(Operator::ShiftRight),
            _ => return None,
        };
        self.at += 2;
        Some(operator)
    }

    /// Parses `a if b else c` and tighter binding forms.
    fn choice(&mut self, depth: usize) -> ScriptParse<Node> {
        if depth > DEEPEST {
            return self.error("this is nested too deeply".into(), "");
        }
        let then = self.either(depth)?;
        if !self.take_name("if") {
            return Ok(then);
        }
        let test = self.either(depth)?;
        if !self.take_name("else") {
            return self.expected("`else`");
        }
        Ok(Node::Choose(
            Box::new(test),
            Box::new(then),
            Box::new(self.choice(depth + 1)?),
        ))
    }

    fn either(&mut self, depth: usize) -> ScriptParse<Node> {
        let mut left = self.both(depth)?;
        for _ in 0.. {
            if !self.take_name("or") {
                break;
            }
            left = Node::Or(Box::new(left), Box::new(self.both(depth)?));
            self.bounded(&left)?;
        }
        Ok(left)
    }

    fn both(&mut self, depth: usize) -> ScriptParse<Node> {
        let mut left = self.negation(depth)?;
        while self.take_name("and") {
            left = Node::And(Box::new(left), Box::new(self.negation(depth)?));
            self.bounded(&left)?;
        }
        Ok(left)
    }

    fn negation(&mut self, depth: usize) -> ScriptParse<Node> {
        if depth > DEEPEST {
            return self.error("this is nested too deeply".into(), "");
        }
        if self.take_name("not") {
            return Ok(Node::Not(Box::new(self.negation(depth + 1)?)));
        }
        self.comparison(depth)
    }

    fn comparison(&mut self, depth: usize) -> ScriptParse<Node> {
        let first = self.binary(0, depth)?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.comparator() {
            rest.push((comparison, self.binary(0, depth)?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Node::Compare(Box::new(first), rest)
        })
    }

    fn comparator(&mut self) -> Option<Comparison> {
        if self.take_name("in") {
            return Some(Comparison::In);
        }
        if self.take_name("not") {
            return self.take_name("in").then_some(Comparison::NotIn);
        }
        if self.take_name("is") {
            return Some(if self.take_name("not") {
                Comparison::Differs
            } else {
                Comparison::Equal
            });
        }
        let found = COMPARISONS.iter().find(|(sign, _)| self.take(sign))?;
        Some(found.1)
    }

    /// Parses binary operators of this level of precedence and above.
    fn binary(&mut self, level: usize, depth: usize) -> ScriptParse<Node> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary(depth);
        };
        let mut left = self.binary(level + 1, depth)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take(sign)) {
            let right = self.binary(level + 1, depth)?;
            left = Node::Binary(*operator, Box::new(left), Box::new(right));
            self.bounded(&left)?;
        }
        Ok(left)
    }

    fn unary(&mut self, depth: usize) -> ScriptParse<Node> {
        if depth > DEEPEST {
            return self.error("this is nested too deeply".into(), "");
        }
        if self.take("-") {
            return Ok(Node::Negate(Box::new(self.unary(depth + 1)?)));
        }
        if self.take("~") {
            return Ok(Node::Invert(Box::new(self.unary(depth + 1)?)));
        }
        if self.take("+") {
            return self.unary(depth + 1);
        }
        let base = self.postfix(depth)?;
        if self.take("**") {
            return Ok(Node::Binary(
                Operator::Power,
                Box::new(base),
                Box::new(self.unary(depth + 1)?),
            ));
        }
        Ok(base)
    }

    fn postfix(&mut self, depth: usize) -> ScriptParse<Node> {
        let mut node = self.atom(depth)?;
        while self.take("[") {
            let index = self.choice(depth + 1)?;
            self.close("]")?;
            node = Node::Index(Box::new(node), Box::new(index));
            self.bounded(&node)?;
        }
        Ok(node)
    }

    fn atom(&mut self, depth: usize) -> ScriptParse<Node> {
        let token = self.peek().clone();
        if token == Token::End {
            return self.expected("a value");
        }
        self.at += 1;
        Ok(match token {
            Token::Integer(value) => Node::Constant(Value::Integer(value)),
            Token::Float(value) => Node::Constant(Value::Float(value)),
            Token::Text(text) => Node::Constant(Value::Text(text)),
            Token::Name(name) => match name.as_str() {
                "True" => Node::Constant(Value::Bool(true)),
                "False" => Node::Constant(Value::Bool(false)),
                "None" => Node::Constant(Value::None),
                _ if self.take("(") => Node::Call(name, self.list(")", depth)?.0),
                _ => Node::Name(name),
            },
            Token::Sign("(") => {
                let (mut items, comma) = self.list(")", depth)?;
                match items.pop() {
                    Some(only) if items.is_empty() && !comma => only,
                    last => Node::List(items.into_iter().chain(last).collect()),
                }
            }
            Token::Sign("[") => Node::List(self.list("]", depth)?.0),
            _ => {
                self.at -= 1;
                return self.expected("a value");
            }
        })
    }

    /// Parses values separated by commas up to `end`, and returns whether there was a comma.
    fn list(&mut self, end: &str, depth: usize) -> ScriptParse<(Vec<Node>, bool)> {
        let (mut items, mut comma) = (Vec::new(), false);
        while !self.take(end) {
            items.push(self.choice(depth + 1)?);
            if !self.take(",") {
                self.close(end)?;
                break;
            }
            comma = true;
        }
        Ok((items, comma))
    }

    fn close(&mut self, sign: &str) -> ScriptParse<()> {
        if self.take(sign) {
            Ok(())
        } else {
            self.expected(&format!("`{sign}`"))
        }
    }

    /// Checks the size of an expression. Chains of operators grow to the left and are bounded like nesting.
    fn bounded(&self, node: &Node) -> ScriptParse<()> {
        let mut length = 0;
        let mut node = node;
        while let Node::Binary(_, left, _) | Node::And(left, _) | Node::Or(left, _) | Node::Index(left, _) =
            node
        {
            node = left;
            length += 1;
            if length > DEEPEST {
                return self.error(
                    "this expression is too long".into(),
                    "48 operators in a row are allowed",
                );
            }
        }
        Ok(())
    }
}

/// Returns the line of a statement, for messages.
fn source(text: &str, start: ScriptPosition, place: ScriptPosition) -> String {
    let line = text
        .lines()
        .nth(place.line.saturating_sub(start.line) as usize)
        .unwrap_or("");
    let skip = if place.line == start.line {
        place.column - start.column
    } else {
        place.column - 1
    };
    line.chars()
        .skip(skip as usize)
        .collect::<String>()
        .split(['#', ';'])
        .next()
        .unwrap_or("")
        .trim()
        .to_owned()
}

/// Python statements that scripts may not use.
const UNKNOWN: &[&str] = &[
    "if", "for", "while", "def", "class", "try", "with", "return", "raise", "lambda", "del", "global",
    "yield",
];

const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("!=", Comparison::Differs),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Binary operators, the loosest first.
const LEVELS: &[&[(&str, Operator)]] = &[
    &[("|", Operator::Or)],
    &[("^", Operator::Xor)],
    &[("&", Operator::And)],
    &[("<<", Operator::ShiftLeft), (">>", Operator::ShiftRight)],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[
        ("*", Operator::Multiply),
        ("//", Operator::FloorDivide),
        ("/", Operator::Divide),
        ("%", Operator::Modulo),
    ],
];
