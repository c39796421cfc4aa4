//! TCP options: `<mss 1460,nop,wscale 7>`.

use super::script::Defines;
use super::text::{ScriptParse, TokenCursor};
use super::tree::{SegmentOptions, TcpOption};

/// The maximum number of bytes of options in a header (RFC 9293, 3.1).
const MAX_OPTION_BYTES: usize = 40;

/// Parses `<…>`, if present.
pub(super) fn options(cursor: &mut TokenCursor<'_>, defines: &Defines) -> ScriptParse<SegmentOptions> {
    if !cursor.take("<") {
        return Ok(SegmentOptions::List(Vec::new()));
    }
    if cursor.take("...") {
        cursor.expect(">", "")?;
        return Ok(SegmentOptions::Any);
    }
    let mut list = Vec::new();
    loop {
        list.push(option(cursor, defines)?);
        if list.len() > MAX_OPTION_BYTES {
            return cursor.error("too many options", "a header has room for 40 bytes of them");
        }
        if !cursor.take(",") {
            cursor.expect(">", "options are separated by commas and end with `>`")?;
            return Ok(SegmentOptions::List(list));
        }
    }
}

fn option(cursor: &mut TokenCursor<'_>, defines: &Defines) -> ScriptParse<TcpOption> {
    cursor.skip_blank();
    let before = cursor.clone();
    Ok(match cursor.word() {
        "eol" => TcpOption::Eol,
        "nop" => TcpOption::Nop,
        "mss" => TcpOption::Mss(defined(cursor, defines, "a maximum segment size")?),
        "wscale" => TcpOption::Wscale(defined(cursor, defines, "a shift")?),
        "sackOK" => TcpOption::SackOk,
        "sack" => TcpOption::Sack(blocks(cursor)?),
        "TS" => {
            if !cursor.take_word("val") {
                return cursor.expected("`val`", "timestamps are written TS val 100 ecr 200");
            }
            let val = cursor.number("a timestamp")?;
            if !cursor.take_word("ecr") {
                return cursor.expected("`ecr`", "timestamps are written TS val 100 ecr 200");
            }
            TcpOption::Timestamp { val, ecr: cursor.number("a timestamp")? }
        }
        "md5" => TcpOption::Md5(bytes(cursor, defines)?),
        "FO" => TcpOption::FastOpen(bytes(cursor, defines)?, false),
        "FOEXP" => TcpOption::FastOpen(bytes(cursor, defines)?, true),
        "ECN" => TcpOption::AccEcn(counters(cursor)?),
        name => {
            return before.error(
                format!("`{name}` is not a known option"),
                "eol, nop, mss, wscale, sackOK, sack, TS, md5, FO, FOEXP or ECN; or <...> for any",
            );
        }
    })
}

/// Parses a number, or a defined word for one.
fn defined<T: TryFrom<u64> + std::str::FromStr>(
    cursor: &mut TokenCursor<'_>,
    defines: &Defines,
    what: &str,
) -> ScriptParse<T> {
    if let Some(value) = defines
        .get(cursor.peek_word())
        .and_then(|value| value.parse().ok())
    {
        cursor.word();
        return Ok(value);
    }
    cursor.number(what)
}

fn blocks(cursor: &mut TokenCursor<'_>) -> ScriptParse<Vec<(u32, u32)>> {
    let mut blocks = Vec::new();
    while cursor.peek_word().starts_with(|c: char| c.is_ascii_digit()) {
        let from = cursor.number("a sequence number")?;
        cursor.expect(":", "SACK blocks are written first:last")?;
        blocks.push((from, cursor.number("a sequence number")?));
    }
    match blocks.len() {
        1..=4 => Ok(blocks),
        _ => cursor.error("SACK takes one to four blocks", "write sack 1001:2001 3001:4001"),
    }
}

/// Parses hexadecimal digits, two for each byte, or a defined word for some. There may be none.
fn bytes(cursor: &mut TokenCursor<'_>, defines: &Defines) -> ScriptParse<Vec<u8>> {
    cursor.skip_blank();
    let before = cursor.clone();
    let word = cursor.word();
    let digits = defines.get(word).map_or(word, String::as_str);
    let byte = |at: usize| {
        digits
            .get(at..at + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    match bytes {
        Some(bytes) if bytes.len() <= MAX_OPTION_BYTES => Ok(bytes),
        _ => before.error(
            format!("`{word}` is not a sequence of bytes"),
            "bytes are an even number of hexadecimal digits, 80 at most, or a word given with -D NAME=DIGITS",
        ),
    }
}

fn counters(cursor: &mut TokenCursor<'_>) -> ScriptParse<Vec<(String, u32)>> {
    let mut counters = Vec::new();
    while matches!(cursor.peek_word(), "e0b" | "e1b" | "ceb") && counters.len() < 3 {
        let name = cursor.word().to_owned();
        counters.push((name, cursor.number("a counter")?));
    }
    Ok(counters)
}
