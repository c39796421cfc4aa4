//! The differences between two runs, in the program's own names.

use std::fmt::Write as _;

use hawser_ir::buf::RecordBuf;
use hawser_ir::{LIST_HEADER, Layout, Module, OPTION_TAG, StructId, Ty, WINDOW_HEADER};

use crate::values::member_sizes;

/// The maximum number of lines of one kind that are shown.
const LINES: usize = 12;

/// Lists the differing bytes of a structure by field; empty if the structures are equal.
#[must_use]
pub fn memory(module: &Module, name: &str, body: Option<StructId>, left: &[u8], right: &[u8]) -> String {
    let mut out = String::new();
    if left.len() != right.len() {
        return format!("{name}: {} bytes, {} bytes\n", left.len(), right.len());
    }
    let differing: Vec<usize> = (0..left.len()).filter(|i| left[*i] != right[*i]).collect();
    let mut shown: Vec<String> = Vec::new();
    for at in differing {
        let (path, start, size) = body.map_or((String::new(), at, 1), |id| {
            in_struct(module, id, at).unwrap_or((format!(" byte {at}"), at, 1))
        });
        let path = format!("{name}{path}");
        if shown.contains(&path) {
            continue;
        }
        let end = (start + size).min(left.len());
        if shown.len() < LINES {
            let _ = writeln!(
                out,
                "{path}: {} | {}",
                value(&left[start..end]),
                value(&right[start..end])
            );
        }
        shown.push(path);
    }
    if shown.len() > LINES {
        let _ = writeln!(out, "… and {} more", shown.len() - LINES);
    }
    out
}

/// Formats a value as a number, or as bytes if it is not a number.
fn value(bytes: &[u8]) -> String {
    if bytes.len() <= 8 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let number = u64::from_ne_bytes(word);
        return format!("{number} ({number:#x})");
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the field that contains a byte: its path, its offset and its size.
fn in_struct(module: &Module, id: StructId, at: usize) -> Option<(String, usize, usize)> {
    let structure = module.structure(id);
    let fields = structure.fields.iter();
    let field = fields
        .filter(|f| f.offset as usize <= at)
        .max_by_key(|f| f.offset)?;
    let start = field.offset as usize;
    let (path, inner, size) = in_value(module, &field.ty, at - start)?;
    Some((format!(".{}{path}", field.name), start + inner, size))
}

fn in_value(module: &Module, ty: &Ty, at: usize) -> Option<(String, usize, usize)> {
    let sizes = member_sizes(module);
    let layout = Layout { structs: &module.structs, member_size: &sizes };
    let whole = layout.size(ty) as usize;
    if at >= whole {
        return None;
    }
    let element = |stride: usize, header: usize, inner: &dyn Fn(usize) -> Option<(String, usize, usize)>| {
        if at < header {
            return Some((".len".to_owned(), 0, 4));
        }
        let index = (at - header) / stride;
        let start = header + index * stride;
        let (path, offset, size) = inner(at - start).unwrap_or((String::new(), 0, stride));
        Some((format!("[{index}]{path}"), start + offset, size))
    };
    match ty {
        Ty::Struct(id) => in_struct(module, *id, at),
        Ty::Array { elem, .. } => {
            let stride = layout.stride(elem) as usize;
            element(stride, 0, &|at| in_value(module, elem, at))
        }
        Ty::List { elem, .. } | Ty::Sorted { elem, .. } => {
            let stride = layout.stride(elem) as usize;
            element(stride, LIST_HEADER as usize, &|at| in_value(module, elem, at))
        }
        Ty::Options { list, .. } => {
            let stride = layout.option_stride(*list) as usize;
            element(stride, LIST_HEADER as usize, &|at| {
                let word = at / OPTION_TAG as usize * OPTION_TAG as usize;
                Some((
                    if at < OPTION_TAG as usize {
                        ".tag".to_owned()
                    } else {
                        format!("+{word}")
                    },
                    word,
                    8,
                ))
            })
        }
        Ty::Window { .. } if at < 8 => Some((".head".to_owned(), 0, 8)),
        Ty::Window { .. } if at < WINDOW_HEADER as usize => Some((".runs".to_owned(), 8, 4)),
        Ty::Window { .. } => {
            let run = (at - WINDOW_HEADER as usize) / 16;
            let (end, word) = if at % 16 < 8 { (".from", 0) } else { (".to", 8) };
            Some((
                format!("[{run}]{end}"),
                WINDOW_HEADER as usize + run * 16 + word,
                8,
            ))
        }
        _ => Some((String::new(), 0, whole)),
    }
}

/// Lists the differing records: their kinds and the first differing bytes.
#[must_use]
pub fn records(left: &RecordBuf, right: &RecordBuf) -> String {
    let mut out = String::new();
    let (mut a, mut b) = (left.iter(), right.iter());
    for index in 0.. {
        let line = match (a.next(), b.next()) {
            (None, None) => break,
            (Some(x), Some(y)) if x.bytes == y.bytes => continue,
            (Some(x), Some(y)) if x.kind == y.kind && x.bytes.len() == y.bytes.len() => {
                let at = (0..x.bytes.len())
                    .find(|i| x.bytes[*i] != y.bytes[*i])
                    .unwrap_or(0);
                let word = at / 8 * 8..(at / 8 * 8 + 8).min(x.bytes.len());
                let (x_word, y_word) = (value(&x.bytes[word.clone()]), value(&y.bytes[word]));
                format!(
                    "{:?} (on {} | {}), from byte {at}: {x_word} | {y_word}",
                    x.kind, x.on, y.on
                )
            }
            (x, y) => format!("{:?} | {:?}", x.map(|r| r.kind), y.map(|r| r.kind)),
        };
        if index < LINES {
            let _ = writeln!(out, "record {index}: {line}");
        }
    }
    out
}
