//! A program's headers, option lists and parsers as tables of Lua.

use std::fmt::Write;

use hawser_ir::{
    Blueprint, Expr, ExprKind, Fill, Module, OptList, ParserInput, SegRule, Ty, WireConstant, WireField,
};

use crate::dissector::Unsupported;
use crate::dissector::expr;
use crate::dissector::parsers::{self, ParserActions};

/// Helpers for the functions in the tables.
const PRELUDE: &str = "\
local function truth(condition) return condition and 1 or 0 end
local function select_(condition, a, b) if condition ~= 0 then return a end return b end
local function divided(a, b) if b == 0 then return 0 end return math.floor(a / b) end
local function remainder(a, b) if b == 0 then return a end return a % b end
";

/// Prints all tables, as the statement `local program = { … }`.
pub(crate) fn tables(module: &Module) -> Result<String, Unsupported> {
    let name = identifier(&module.name);
    let mut text = format!(
        "-- The headers of {} for Wireshark, printed by `hawser build --as wireshark`.\n\n{PRELUDE}\nlocal program = {{\n",
        module.name.escape_default()
    );
    line(&mut text, 1, &format!("name = \"mtp_{name}\","));
    line(&mut text, 1, &format!("title = {},", quoted(&module.name)));
    enums(module, &mut text);
    line(&mut text, 1, "blueprints = {");
    for blueprint in &module.blueprints {
        header(module, blueprint, &mut text)?;
    }
    line(&mut text, 1, "},");
    line(&mut text, 1, "lists = {");
    for list in &module.opt_lists {
        options(module, list, &mut text)?;
    }
    line(&mut text, 1, "},");
    line(&mut text, 1, "parsers = {");
    all_parsers(module, &mut text)?;
    line(&mut text, 1, "},");
    text += "}\n";
    Ok(text)
}

fn enums(module: &Module, text: &mut String) {
    line(text, 1, "enums = {");
    for (index, names) in module.enums.iter().enumerate() {
        // A number on the wire has only the bits of its type, also if it is negative.
        let mask = u64::MAX >> (64 - u32::from(bits_of(module, index)));
        let variants = names.variants.iter();
        let variants = variants.map(|(number, name)| format!("[{}] = {}", number & mask, quoted(name)));
        let variants = variants.collect::<Vec<_>>().join(", ");
        line(text, 2, &format!("{{ {variants} }},"));
    }
    line(text, 1, "},");
}

/// Returns the number of bits of an enum's values.
fn bits_of(module: &Module, enumeration: usize) -> u8 {
    let mut fields = module.structs.iter().flat_map(|structure| &structure.fields);
    let bits = fields.find_map(|field| match field.ty {
        Ty::Enum { index, bits, .. } if index as usize == enumeration => Some(bits),
        _ => None,
    });
    bits.unwrap_or(64).clamp(1, 64)
}

fn header(module: &Module, blueprint: &Blueprint, text: &mut String) -> Result<(), Unsupported> {
    let mut opening = format!("{{ name = {}", quoted(&blueprint.name));
    if let Some(bits) = blueprint
        .header
        .iter()
        .map(WireField::fixed_bits)
        .sum::<Option<u32>>()
    {
        let _ = write!(opening, ", static = {}", bits.div_ceil(8));
    }
    if blueprint.data_at.is_some() {
        opening += ", data = true";
    }
    if let Some(rule) = counting_rule(module, blueprint) {
        let _ = write!(opening, ", sequence = {}", rule.field.offset);
    }
    if let Some(crc) = blueprint.crc() {
        let masked = crc.masked.iter().map(|(at, bits)| format!("{{ {at}, {bits} }}"));
        let masked = masked.collect::<Vec<_>>().join(", ");
        let at = if crc.in_trailer {
            String::new()
        } else {
            format!("at = {}, ", crc.at)
        };
        let _ = write!(
            opening,
            ", crc = {{ {at}invariant = {}, masked = {{ {masked} }} }}",
            crc.invariant
        );
    }
    line(text, 2, &opening);
    for (name, fields) in [("fields", &blueprint.header), ("trailer", &blueprint.trailer)] {
        line(text, 3, &format!(", {name} = {{"));
        for field in fields {
            let row = row(module, blueprint, field)?;
            line(text, 4, &format!("{{ {row} }},"));
        }
        line(text, 3, "}");
    }
    line(text, 2, "},");
    Ok(())
}

/// Returns the segmentation rule by which a sequence number advances with the payload, if a header has one.
fn counting_rule<'m>(module: &'m Module, blueprint: &Blueprint) -> Option<&'m SegRule> {
    let is_of_it = |rule: &&SegRule| module.blueprints[rule.blueprint.0 as usize].name == blueprint.name;
    let goes_on = |rule: &&SegRule| {
        matches!(rule.field.ty, Ty::Seq { .. })
            && matches!(rule.mid.kind, ExprKind::Binary(..) | ExprKind::Cast(_))
    };
    module.seg_rules.iter().filter(is_of_it).find(goes_on)
}

fn row(module: &Module, blueprint: &Blueprint, field: &WireField) -> Result<String, Unsupported> {
    let function = |expr: &Expr| -> Result<String, Unsupported> {
        let value = expr::value(module, expr)
            .ok_or_else(|| Unsupported::Expression { blueprint: blueprint.name.clone() })?;
        Ok(format!("function(m, at, f) return {value} end"))
    };
    let named = |offset: u32| quoted(&name_at(module, blueprint, offset));
    Ok(match field {
        WireField::Bits { name, offset, ty, bits, little, fill } => {
            let kind = match ty {
                Ty::Enum { index, .. } => format!("t = \"enum\", enum = {}", index + 1),
                Ty::Bool => "t = \"bool\"".to_owned(),
                Ty::Seq { .. } => "t = \"seq\"".to_owned(),
                Ty::Int { signed: true, .. } => "t = \"int\"".to_owned(),
                _ => "t = \"uint\"".to_owned(),
            };
            let filled = match fill {
                None => String::new(),
                Some(Fill::HeaderWords) => ", words = true".to_owned(),
                Some(Fill::Checksum16 { pseudo }) => format!(", sum = true, pseudo = {pseudo}"),
                Some(Fill::Crc32 { .. }) => ", crc = true".to_owned(),
                // A value that the dissector cannot compute is shown but not compared: it decides no length.
                Some(Fill::Value(expr)) => {
                    function(expr).map_or_else(|_| String::new(), |text| format!(", value = {text}"))
                }
            };
            format!(
                "k = \"bits\", name = {}, at = {offset}, bits = {bits}, {kind}{}{filled}",
                quoted(name),
                if *little { ", little = true" } else { "" }
            )
        }
        WireField::Varint { name, offset } => {
            format!("k = \"varint\", name = {}, at = {offset}", quoted(name))
        }
        WireField::Bytes { name, offset, len } => {
            let is_address = matches!(type_at(module, blueprint, *offset), Some(Ty::Ip));
            format!(
                "k = \"bytes\", name = {}, at = {offset}, len = {len}, address = {is_address}",
                quoted(name)
            )
        }
        WireField::Opaque { name, offset, cap, count_at, .. } => format!(
            "k = \"opaque\", name = {}, at = {offset}, cap = {cap}, count_at = {count_at}",
            quoted(name)
        ),
        WireField::Nested { blueprint, offset, when } => {
            let when = when.as_ref().map(function).transpose()?;
            let when = when.map_or_else(String::new, |when| format!(", when = {when}"));
            format!(
                "k = \"nested\", name = {}, at = {offset}, blueprint = {}{when}",
                named(*offset),
                blueprint.0 + 1
            )
        }
        WireField::Options { list, offset, cap } => format!(
            "k = \"options\", name = {}, list = {}, cap = {cap}",
            named(*offset),
            list.0 + 1
        ),
        WireField::Repeat { blueprint, offset, cap, count_at, .. } => format!(
            "k = \"repeat\", name = {}, blueprint = {}, cap = {cap}, count_at = {count_at}",
            named(*offset),
            blueprint.0 + 1
        ),
    })
}

fn options(module: &Module, list: &OptList, text: &mut String) -> Result<(), Unsupported> {
    let mut opening = format!("{{ name = {}", quoted(&list.name));
    if let Some(at) = list.unknown_len_at {
        let _ = write!(opening, ", length_at = {at}");
    }
    if let Some(len) = &list.len {
        let len = expr::value(module, len)
            .ok_or_else(|| Unsupported::Expression { blueprint: list.name.clone() })?;
        let _ = write!(opening, ", len = function(m, at, f) return {len} end");
    }
    line(text, 2, &opening);
    line(text, 3, ", members = {");
    for member in &list.members {
        let constants = module.blueprints[member.blueprint.0 as usize].constants();
        let constants = constants.iter().map(|WireConstant { at, bits, value }| {
            format!("{{ at = {at}, bits = {bits}, value = {value} }}")
        });
        line(
            text,
            4,
            &format!(
                "{{ name = {}, blueprint = {}, ends = {}, constants = {{ {} }} }},",
                quoted(&member.name),
                member.blueprint.0 + 1,
                member.ends_list,
                constants.collect::<Vec<_>>().join(", ")
            ),
        );
    }
    line(text, 3, "}");
    line(text, 2, "},");
    Ok(())
}

fn all_parsers(module: &Module, text: &mut String) -> Result<(), Unsupported> {
    let mut any = false;
    for parser in parsers::of_packets(module) {
        let function = &module.funcs[parser.func.0 as usize];
        let ParserActions { headers, key } = parsers::shape(module, function);
        if headers.is_empty() {
            return Err(Unsupported::NoHeader { parser: function.name.clone() });
        }
        let (table, number) = match parser.source {
            ParserInput::Udp(port) => ("udp.port", u32::from(port)),
            ParserInput::Ip(number) => ("ip.proto", u32::from(number)),
            ParserInput::Trimmed(_) | ParserInput::IcmpError | ParserInput::App(_) | ParserInput::Start => {
                continue;
            }
        };
        any = true;
        let key: Vec<String> = key.iter().map(u32::to_string).collect();
        line(
            text,
            2,
            &format!(
                "{{ table = \"{table}\", number = {number}, key = {{ {} }}, headers = {{",
                key.join(", ")
            ),
        );
        for header in &headers {
            let when = header.when.join(" and ");
            let when = if when.is_empty() { "true" } else { &when };
            line(
                text,
                3,
                &format!(
                    "{{ blueprint = {}, at = {}, optional = {}{}, when = function(m) return {when} end }},",
                    header.blueprint.0 + 1,
                    header.at,
                    header.is_optional,
                    header
                        .found
                        .map_or_else(String::new, |at| format!(", found = {at}"))
                ),
            );
        }
        line(text, 2, "} },");
    }
    if any { Ok(()) } else { Err(Unsupported::NoPackets) }
}

fn name_at(module: &Module, blueprint: &Blueprint, offset: u32) -> String {
    let fields = &module.structure(blueprint.body).fields;
    let field = fields.iter().find(|field| field.offset == offset);
    field.map_or_else(|| format!("at_{offset}"), |field| field.name.clone())
}

fn type_at<'m>(module: &'m Module, blueprint: &Blueprint, offset: u32) -> Option<&'m Ty> {
    let fields = &module.structure(blueprint.body).fields;
    fields
        .iter()
        .find(|field| field.offset == offset)
        .map(|field| &field.ty)
}

/// Returns a name in the form that Wireshark accepts: lower-case letters, digits and underscores.
fn identifier(name: &str) -> String {
    let kept = name.chars().map(|letter| match letter {
        'a'..='z' | '0'..='9' => letter,
        'A'..='Z' => letter.to_ascii_lowercase(),
        _ => '_',
    });
    kept.collect()
}

/// Formats a string literal of Lua.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => {
                let _ = write!(quoted, "\\{byte:03}");
            }
        }
    }
    quoted + "\""
}

fn line(text: &mut String, depth: usize, row: &str) {
    text.extend(std::iter::repeat_n("    ", depth));
    *text += row;
    text.push('\n');
}
