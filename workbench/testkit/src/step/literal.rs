//! The written form of values and packets: `SW{kind: DATA, seq: 5, data: 100}`.

use std::fmt;

use crate::step::cursor::{Error, LineCursor, LineParse};

/// The maximum nesting of values.
const MAX_DEPTH: usize = 8;
/// The maximum number of fields or elements of one value.
const MAX_ITEMS: usize = 256;

/// The written form of a value, whose meaning depends on the type of the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    /// `5`, `0xff`, `100ms`, `DATA`, `10.0.0.1`, `100@1400`, `$iss+1`, `wrong`.
    Word(String),
    /// `"hello"`.
    Text(String),
    /// `{from: 1, to: 2}`.
    Fields(Vec<Field>),
    /// `window_scale{shift: 7}`.
    Named(String, Vec<Field>),
    /// `[1, 2]`; the flag is true if a final `...` stands for any further elements.
    List(Vec<ValueLiteral>, bool),
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueLiteral {
    pub(crate) column: u32,
    pub(crate) literal: Literal,
}

/// A field with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) column: u32,
    pub(crate) value: ValueLiteral,
}

/// A packet: fields of its IP header, its blueprint, and the blueprint's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketLiteral {
    pub(crate) column: u32,
    pub(crate) ip: Vec<Field>,
    pub(crate) blueprint: String,
    pub(crate) fields: Vec<Field>,
}

impl PacketLiteral {
    /// Parses `SW{seq: 5}`, or `ip{ecn: 3} SW{seq: 5}`.
    pub(crate) fn read(cursor: &mut LineCursor<'_>) -> LineParse<PacketLiteral> {
        let column = cursor.column();
        let (mut name, mut found) = named(cursor)?;
        let mut ip = Vec::new();
        if name == "ip" {
            ip = found;
            (name, found) = named(cursor)?;
        }
        Ok(PacketLiteral { column, ip, blueprint: name, fields: found })
    }
}

/// Parses `SW{seq: 5}`.
fn named(cursor: &mut LineCursor<'_>) -> LineParse<(String, Vec<Field>)> {
    let column = cursor.column();
    let name = cursor.word();
    if name.is_empty() || !cursor.take("{") {
        return Err(
            Error::new(column, "a packet is written as its blueprint with fields")
                .hint("as in `SW{kind: DATA, seq: 5, data: 100}`"),
        );
    }
    let name = name.to_owned();
    Ok((name, fields(cursor, 0)?))
}

/// Parses fields alone: `{id: 1, len: 100}`.
pub(crate) fn record(cursor: &mut LineCursor<'_>) -> LineParse<Vec<Field>> {
    if cursor.take("{") {
        return fields(cursor, 0);
    }
    Err(Error::new(cursor.column(), "expected fields").hint("as in `{id: 1, len: 100}`"))
}

/// Parses the fields after an opening brace.
fn fields(cursor: &mut LineCursor<'_>, depth: usize) -> LineParse<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    loop {
        if cursor.take("}") {
            return Ok(fields);
        }
        let column = cursor.column();
        let name = cursor.name();
        if name.is_empty() || !cursor.take(":") {
            return Err(Error::new(column, "expected a field's name and `:`, or `}`")
                .hint("as in `{kind: DATA, seq: 5}`"));
        }
        if fields.iter().any(|field| field.name == name) {
            return Err(Error::new(column, format!("the field `{name}` occurs twice")));
        }
        let name = name.to_owned();
        let value = value(cursor, depth)?;
        fields.push(Field { name, column, value });
        separator(cursor, "}", fields.len())?;
    }
}

/// Parses a comma, or checks that the items end here.
fn separator(cursor: &mut LineCursor<'_>, end: &str, items: usize) -> LineParse<()> {
    if items > MAX_ITEMS {
        return Err(Error::new(
            cursor.column(),
            format!("more than {MAX_ITEMS} items"),
        ));
    }
    if cursor.take(",") || cursor.starts_with(end) {
        return Ok(());
    }
    Err(Error::new(cursor.column(), format!("expected `,` or `{end}`")))
}

fn value(cursor: &mut LineCursor<'_>, depth: usize) -> LineParse<ValueLiteral> {
    let column = cursor.column();
    if depth >= MAX_DEPTH {
        return Err(Error::new(
            column,
            format!("values in values more than {MAX_DEPTH} deep"),
        ));
    }
    let literal = if cursor.take("{") {
        Literal::Fields(fields(cursor, depth + 1)?)
    } else if cursor.take("[") {
        list(cursor, depth)?
    } else if cursor.starts_with("\"") {
        Literal::Text(cursor.text()?)
    } else {
        let word = cursor.word().to_owned();
        if word.is_empty() {
            return Err(Error::new(column, "expected a value")
                .hint("a number, a name, an address, \"text\", {fields} or [elements]"));
        }
        if cursor.take("{") {
            Literal::Named(word, fields(cursor, depth + 1)?)
        } else {
            Literal::Word(word)
        }
    };
    Ok(ValueLiteral { column, literal })
}

fn list(cursor: &mut LineCursor<'_>, depth: usize) -> LineParse<Literal> {
    let mut items = Vec::new();
    loop {
        if cursor.take("]") {
            return Ok(Literal::List(items, false));
        }
        if cursor.take("...") {
            return match cursor.take("]") {
                true => Ok(Literal::List(items, true)),
                false => Err(Error::new(cursor.column(), "expected `]`: `...` ends a list")),
            };
        }
        items.push(value(cursor, depth + 1)?);
        separator(cursor, "]", items.len())?;
    }
}

/// Parses the argument of `send` and `recv`, and of a `data_t`: `100`, `100@1400`, `"hello"`, `0x00ff`.
pub(crate) fn data(cursor: &mut LineCursor<'_>) -> LineParse<ValueLiteral> {
    value(cursor, MAX_DEPTH - 1)
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Word(word) => f.write_str(word),
            Literal::Text(text) => {
                write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Literal::Fields(fields) => show(f, fields),
            Literal::Named(name, fields) => {
                f.write_str(name)?;
                show(f, fields)
            }
            Literal::List(items, more) => {
                f.write_str("[")?;
                for (number, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if number > 0 { ", " } else { "" }, item.literal)?;
                }
                match (more, items.is_empty()) {
                    (false, _) => f.write_str("]"),
                    (true, true) => f.write_str("...]"),
                    (true, false) => f.write_str(", ...]"),
                }
            }
        }
    }
}

fn show(f: &mut fmt::Formatter<'_>, fields: &[Field]) -> fmt::Result {
    f.write_str("{")?;
    for (number, field) in fields.iter().enumerate() {
        let comma = if number > 0 { ", " } else { "" };
        write!(f, "{comma}{}: {}", field.name, field.value.literal)?;
    }
    f.write_str("}")
}

impl fmt::Display for PacketLiteral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.ip.is_empty() {
            f.write_str("ip")?;
            show(f, &self.ip)?;
            f.write_str(" ")?;
        }
        f.write_str(&self.blueprint)?;
        show(f, &self.fields)
    }
}
