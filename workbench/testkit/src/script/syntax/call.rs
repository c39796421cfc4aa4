//! System calls: `+.1...0.2 connect(3, ..., ...) = -1 EAGAIN (why)`.

use super::script::Defines;
use super::text::{ScriptParse, TokenCursor};
use super::tree::{Call, Expression};

/// The maximum nesting of expressions.
const DEEPEST: usize = 32;

/// Parses a call after its time.
pub(super) fn call(cursor: &mut TokenCursor<'_>, defines: &Defines) -> ScriptParse<Call> {
    let until = if cursor.take("...") {
        Some(cursor.seconds()?)
    } else {
        None
    };
    let before = cursor.clone();
    let name = cursor.word().to_owned();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return before.expected(
            "an event",
            "after its time comes a packet (< or >), a call, a `command` or %{ code }%",
        );
    }
    cursor.expect("(", "a system call has its arguments in parentheses")?;
    let arguments = list(cursor, ")", defines, 0)?;
    cursor.expect("=", "a system call has a result: close(3) = 0")?;
    let result = expression(cursor, defines, 0)?;
    let errno = match cursor.peek_word() {
        word if word.starts_with(|c: char| c.is_ascii_uppercase()) => Some(cursor.word().to_owned()),
        _ => None,
    };
    if cursor.take("(") {
        cursor.until(")", "note")?;
    }
    Ok(Call { until, name, arguments, result, errno })
}

/// Parses expressions separated by commas up to `end`. A trailing comma is allowed.
fn list(
    cursor: &mut TokenCursor<'_>,
    end: &str,
    defines: &Defines,
    depth: usize,
) -> ScriptParse<Vec<Expression>> {
    let mut items = Vec::new();
    while !cursor.take(end) {
        items.push(expression(cursor, defines, depth + 1)?);
        if !cursor.take(",") {
            cursor.expect(end, "")?;
            break;
        }
    }
    Ok(items)
}

fn expression(cursor: &mut TokenCursor<'_>, defines: &Defines, depth: usize) -> ScriptParse<Expression> {
    if depth > DEEPEST {
        return cursor.error("this is nested too deeply", "32 levels are allowed");
    }
    let mut value = primary(cursor, defines, depth)?;
    let mut terms = 0;
    while cursor.take("|") {
        terms += 1;
        if terms > DEEPEST {
            return cursor.error("too many terms", "32 are allowed");
        }
        value = Expression::Or(Box::new(value), Box::new(primary(cursor, defines, depth)?));
    }
    Ok(value)
}

fn primary(cursor: &mut TokenCursor<'_>, defines: &Defines, depth: usize) -> ScriptParse<Expression> {
    if cursor.take("...") {
        return Ok(Expression::Anything);
    }
    if cursor.take("\"") {
        let text = cursor.until("\"", "text")?.to_owned();
        let open = cursor.take("...");
        return Ok(Expression::Text(text, open));
    }
    if cursor.take("[") {
        return Ok(Expression::Array(list(cursor, "]", defines, depth)?));
    }
    if cursor.take("{") {
        return Ok(Expression::Struct(list(cursor, "}", defines, depth)?));
    }
    let negative = cursor.take("-");
    if cursor.peek_word().starts_with(|c: char| c.is_ascii_digit()) {
        let value = cursor.unsigned("a number")? as i64;
        return Ok(Expression::Number(if negative {
            value.wrapping_neg()
        } else {
            value
        }));
    }
    let word = cursor.peek_word();
    if word.is_empty() || negative {
        return cursor.expected("a value", "a number, a constant, ..., \"text\", […] or {…}");
    }
    cursor.word();
    let arguments = match cursor.take("(") {
        true => Some(list(cursor, ")", defines, depth)?),
        false => None,
    };
    if cursor.take("=") {
        let value = expression(cursor, defines, depth + 1)?;
        let argument = arguments.and_then(|list| list.into_iter().next()).map(Box::new);
        return Ok(Expression::Field(word.to_owned(), argument, Box::new(value)));
    }
    match arguments {
        Some(arguments) => Ok(Expression::Apply(word.to_owned(), arguments)),
        None => Ok(Expression::Word(
            defines.get(word).map_or(word, String::as_str).to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::ScriptPosition;
    use super::*;

    fn read(text: &str) -> Call {
        call(
            &mut TokenCursor::new(text, ScriptPosition { line: 1, column: 1 }),
            &Defines::new(),
        )
        .expect(text)
    }

    #[test]
    fn results_and_errors_of_calls_are_parsed() {
        let connect = read("...0.200 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)");
        assert_eq!(connect.until, Some(200_000_000));
        assert_eq!(connect.result, Expression::Number(-1));
        assert_eq!(connect.errno.as_deref(), Some("EINPROGRESS"));
        assert_eq!(
            read("fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)").result,
            Expression::Number(2)
        );
    }

    #[test]
    fn structures_are_parsed() {
        let word = |word: &str| Expression::Word(word.into());
        let poll = read("poll([{fd=3, events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 0) = 1");
        let Expression::Array(items) = &poll.arguments[0] else {
            panic!("an array")
        };
        let Expression::Struct(fields) = &items[0] else {
            panic!("a structure")
        };
        let either = Expression::Or(Box::new(word("POLLIN")), Box::new(word("POLLOUT")));
        assert_eq!(
            fields[1],
            Expression::Field("events".into(), None, Box::new(either))
        );
        let send = read("sendmsg(3, {msg_name(...)=..., msg_iov(1)=[{..., 1000}], msg_flags=0}, 0) = 1000");
        let Expression::Struct(fields) = &send.arguments[1] else {
            panic!("a structure")
        };
        assert!(matches!(&fields[1], Expression::Field(name, Some(_), _) if name == "msg_iov"));
        let address = "{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"1.2.3.4\")}";
        assert_eq!(read(&format!("bind(3, {address}, ...) = 0")).arguments.len(), 3);
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!("a({}", "[".repeat(100_000));
        let cursor = &mut TokenCursor::new(&deep, ScriptPosition { line: 1, column: 1 });
        assert!(call(cursor, &Defines::new()).is_err());
    }
}
