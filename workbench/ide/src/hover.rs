//! Information about a name: its declaration, type, unit, place on the wire, and the specification sections
//! that it implements.

use std::path::Path;

use hawser_check::index::{Declaration, DefKind, Meaning};
use hawser_ir::Bounds;
use hawser_syntax::Span;
use hawser_syntax::ast::{Field, ItemKind, Member};

use crate::keywords::{self, Sort};
use crate::program::Program;
use crate::{Workspace, scan};

/// The contents of a hover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    /// The byte range that it refers to.
    pub range: (usize, usize),
    /// The text to show, as Markdown.
    pub text: String,
}

/// The maximum number of cited sections that are shown for a function.
const MAX_CITATIONS: usize = 8;

impl Workspace {
    /// Returns the information about the name at a byte.
    #[must_use]
    pub fn hover(&self, path: &Path, byte: usize) -> Option<Hover> {
        let (program, file) = self.program_of(path)?;
        let text = program.text(file);
        let (at, lines) = match program.name_at(file, byte) {
            Some((at, Meaning::Declared(declared))) => {
                let declaration = program.analysis.index.declarations.get(declared)?;
                (at, about(&program, at, declaration))
            }
            Some((at, Meaning::Builtin(_, form))) => {
                let name = program.analysis.compilation.sources.text(at);
                let shown = match form.starts_with(name) {
                    true => form.clone(),
                    false => format!("{form} {name}"),
                };
                (at, vec![code(&shown)])
            }
            None => {
                let at = scan::word_at(text, byte)?;
                let item = program.item_at(Span { file, ..at });
                let in_deploy = item.is_some_and(|item| matches!(item.kind, ItemKind::Deploy { .. }));
                (at, about_word(text, at, in_deploy)?)
            }
        };
        Some(Hover { range: (at.start as usize, at.end as usize), text: lines.join("\n\n") })
    }
}

fn code(text: &str) -> String {
    format!("```mtp\n{text}\n```")
}

/// Describes a word of the language. Registrations and sources are described only in `deploy`.
fn about_word(text: &str, at: Span, in_deploy: bool) -> Option<Vec<String>> {
    let name = text.get(at.start as usize..at.end as usize)?;
    if let Some((bits, signed)) = keywords::integer(name) {
        let signed = if signed { "A signed" } else { "An unsigned" };
        return Some(vec![code(name), format!("{signed} integer of {bits} bits.")]);
    }
    let deploys = |sort| matches!(sort, Sort::Registration | Sort::Source) == in_deploy;
    let word = keywords::word(name, deploys).or_else(|| keywords::word(name, |_| true))?;
    Some(vec![code(word.form), word.meaning.to_owned()])
}

fn about(program: &Program, at: Span, declaration: &Declaration) -> Vec<String> {
    let mut lines = vec![code(&declared_form(program, declaration))];
    lines.extend(fact(declaration));
    lines.extend(wire(program, declaration));
    lines.extend(worst_case(program, declaration));
    lines.extend(comments(program, declaration.at));
    lines.extend(citations(program, at, declaration));
    lines
}

/// Returns the declaration, cut to one line.
pub(crate) fn declared_form(program: &Program, declaration: &Declaration) -> String {
    let sources = &program.analysis.compilation.sources;
    let item = program.item_at(declaration.at);
    let head = |item: &hawser_syntax::ast::Item| {
        let written = sources.text(item.span);
        let head = written.split('{').next().unwrap_or(written).trim_end();
        one_line(head.trim_end_matches(['=', ';', ' ']))
    };
    let (name, ty) = (&declaration.name, &declaration.ty);
    match declaration.kind {
        DefKind::Function
        | DefKind::Extern
        | DefKind::Const
        | DefKind::Table
        | DefKind::Param
        | DefKind::Rule
        | DefKind::Schedule => item.map_or(format!("{ty} {name}"), head),
        DefKind::Event => item.map_or(format!("event {name}"), head),
        DefKind::Variant => match item.map(|item| &item.kind) {
            Some(ItemKind::Enum { variants, .. }) => {
                let value = variants
                    .iter()
                    .find(|(variant, _)| variant.span == declaration.at);
                let value = value.and_then(|(_, value)| value.as_ref());
                let value = value.map_or(String::new(), |value| format!(" = {}", sources.text(value.span)));
                format!("{ty}::{name}{value}")
            }
            _ => format!("{ty}::{name}"),
        },
        DefKind::Field => match item.and_then(|item| field(&item.kind, declaration.at)) {
            Some(field) => field_form(program, field, declaration),
            None => format!("{ty} {name}"),
        },
        DefKind::Part => format!("part {ty} {name}"),
        DefKind::Timer => match item.map(|item| &item.kind) {
            Some(ItemKind::Context { members, .. } | ItemKind::Extend { members, .. }) => {
                timer_form(members, declaration)
            }
            _ => format!("timer_t {name}"),
        },
        DefKind::Queue => format!("{name}: {ty}"),
        DefKind::Parameter | DefKind::Variable if ty.is_empty() => name.clone(),
        DefKind::Parameter | DefKind::Variable | DefKind::Method => format!("{ty} {name}"),
        DefKind::Enum => format!("enum {name} : {ty}"),
        DefKind::Struct => format!("struct {name}"),
        DefKind::Context => format!("context {name}"),
        DefKind::Scratchpad => format!("scratchpad {name}"),
        DefKind::Signal => format!("signal {name}"),
        DefKind::Option => format!("opt_t {name}"),
        DefKind::Blueprint => format!("pkt_bp {name}"),
        DefKind::OptionUnion => format!("opt_union {name}"),
        DefKind::OptionList => format!("opt_list {name}"),
        DefKind::Dispatch => format!("dispatch {name}"),
        DefKind::Chain => format!("chain {name}"),
    }
}

fn timer_form(members: &[Member], declaration: &Declaration) -> String {
    let event = members.iter().find_map(|member| match member {
        Member::Timer { name, event, .. } if name.span == declaration.at => event.as_ref(),
        Member::Timer { .. } | Member::Field(_) | Member::Part { .. } | Member::Invariant { .. } => None,
    });
    let event = event.map_or(String::new(), |event| format!(" -> {}", event.name));
    format!("timer_t {}{event}", declaration.name)
}

/// Returns the declaration of the field whose name stands at a place.
fn field(kind: &ItemKind, at: Span) -> Option<&Field> {
    match kind {
        ItemKind::Struct { fields, .. }
        | ItemKind::Event { fields, .. }
        | ItemKind::Signal { fields, .. }
        | ItemKind::Opt { fields, .. }
        | ItemKind::Blueprint { fields, .. } => fields.iter().find(|field| field.name.span == at),
        ItemKind::Context { members, .. }
        | ItemKind::Scratchpad { members, .. }
        | ItemKind::Extend { members, .. } => members.iter().find_map(|member| match member {
            Member::Field(field) if field.name.span == at => Some(field),
            Member::Field(_) | Member::Timer { .. } | Member::Part { .. } | Member::Invariant { .. } => None,
        }),
        _ => None,
    }
}

fn field_form(program: &Program, field: &Field, declaration: &Declaration) -> String {
    let sources = &program.analysis.compilation.sources;
    let mut form = String::new();
    if field.access.observable {
        form.push_str("observable ");
    }
    if let Some((min, max)) = &field.access.modifiable {
        form = format!(
            "{form}modifiable({}, {}) ",
            sources.text(min.span),
            sources.text(max.span)
        );
    }
    form = format!(
        "{form}{} {}",
        one_line(sources.text(field.ty.span)),
        declaration.name
    );
    if let Some(init) = &field.init {
        form = format!("{form} = {}", one_line(sources.text(init.span)));
    }
    form
}

/// Returns a text in which line breaks and indents are replaced by single spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Describes the owner of a declaration and the unit of its value.
fn fact(declaration: &Declaration) -> Option<String> {
    let owner = declaration.owner.as_ref().map(|owner| {
        let what = match declaration.kind {
            DefKind::Variant => "A variant of",
            DefKind::Timer => "A timer of",
            DefKind::Part => "A part of",
            DefKind::Queue => "A queue of",
            _ => "A field of",
        };
        format!("{what} `{owner}`.")
    });
    let unit = match declaration.ty.as_str() {
        "duration_t" => Some("In nanoseconds.".to_owned()),
        "time_t" => Some("A point in time, in nanoseconds.".to_owned()),
        ty => ty
            .strip_prefix("seq<")
            .and_then(|bits| bits.strip_suffix('>'))
            .map(|bits| format!("Counts modulo 2^{bits}.")),
    };
    let facts: Vec<String> = owner.into_iter().chain(unit).collect();
    (!facts.is_empty()).then(|| facts.join(" "))
}

/// Describes the place of a field in its header.
fn wire(program: &Program, declaration: &Declaration) -> Option<String> {
    let (bit, bits) = declaration.wire?;
    let owner = declaration.owner.as_deref()?;
    let place = match (bit % 8, bits % 8) {
        (0, 0) => match bits / 8 {
            1 => format!("byte {}", bit / 8),
            bytes => format!("bytes {} to {}", bit / 8, bit / 8 + bytes - 1),
        },
        (within, _) if bits == 1 => format!("bit {within} of byte {}", bit / 8),
        (within, _) => format!("{bits} bits from bit {within} of byte {}", bit / 8),
    };
    let module = program.analysis.compilation.module.as_ref();
    let header = module.and_then(|module| module.blueprints.iter().find(|blueprint| blueprint.name == owner));
    let of = header.map_or(String::new(), |header| {
        format!(" of a header of at least {} bytes", header.fixed_len)
    });
    Some(format!("On the wire: {place}{of}."))
}

/// Describes the worst case of an event's chain.
fn worst_case(program: &Program, declaration: &Declaration) -> Option<String> {
    if declaration.kind != DefKind::Event {
        return None;
    }
    let bounds = chain_bounds(program, &declaration.name)?;
    Some(format!("Its chain: {}.", shown_bounds(&bounds)))
}

/// Returns the worst case of an event's chain, if it has one.
pub(crate) fn chain_bounds(program: &Program, event: &str) -> Option<Bounds> {
    let module = program.analysis.compilation.module.as_ref()?;
    let index = module.events.iter().position(|known| known.name == event)?;
    let chain = module.chains.get(index)?;
    (!chain.processors.is_empty()).then_some(chain.bounds)
}

/// Formats bounds, for example as `at most 310 steps, 12 records, 4 packets`.
pub(crate) fn shown_bounds(bounds: &Bounds) -> String {
    let count = |n: u64, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let parts = [
        count(bounds.steps, "step"),
        count(bounds.records.into(), "record"),
        count(bounds.packets.into(), "packet"),
        count(bounds.raises.into(), "event raised")
            .map(|part| part.replace("event raiseds", "events raised")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "does nothing".to_owned(),
        false => format!("at most {}", parts.join(", ")),
    }
}

/// Returns the comments above a declaration and behind it on its line.
pub(crate) fn comments(program: &Program, at: Span) -> Option<String> {
    let text = program.text(at.file);
    let above = lines_above(text, at.start as usize)
        .into_iter()
        .filter(|line| !line.starts_with("//=") && !line.starts_with("//#"))
        .map(|line| line.trim_start_matches('/').trim().to_owned());
    let mut all: Vec<String> = above.collect();
    let line = line_of(text, at.start as usize);
    if let Some((_, comment)) = line.split_once("//")
        && !comment.starts_with('=')
    {
        let comment = comment.split("//=").next().unwrap_or_default().trim();
        all.push(comment.to_owned());
    }
    let joined = all.join(" ").trim().to_owned();
    (!joined.is_empty()).then_some(joined)
}

/// Returns the lines of comments directly above the line of a byte, trimmed.
fn lines_above(text: &str, byte: usize) -> Vec<&str> {
    let start = text[..byte].rfind('\n').unwrap_or(0);
    let above = text[..start].rsplit('\n').map(str::trim);
    let mut lines: Vec<&str> = above.take_while(|line| line.starts_with("//")).collect();
    lines.reverse();
    lines
}

/// Returns the whole line that contains a byte.
fn line_of(text: &str, byte: usize) -> &str {
    let start = text[..byte].rfind('\n').map_or(0, |at| at + 1);
    text[start..].lines().next().unwrap_or_default()
}

/// Returns the sections that are cited beside the place or the declaration, and the sentences quoted above
/// the declaration; for a function, also the sections cited inside it.
fn citations(program: &Program, at: Span, declaration: &Declaration) -> Option<String> {
    let mut cited: Vec<&str> = Vec::new();
    for place in [at, declaration.at] {
        let text = program.text(place.file);
        let line = line_of(text, place.start as usize);
        let here = line.split("//=").nth(1).map(str::trim);
        let above = lines_above(text, place.start as usize);
        let above = above.into_iter().filter_map(|line| line.strip_prefix("//="));
        for citation in here.into_iter().chain(above.map(str::trim)) {
            if !cited.contains(&citation) {
                cited.push(citation);
            }
        }
    }
    if declaration.kind == DefKind::Function
        && let Some(item) = program.item_at(declaration.at)
    {
        let all = &program.analysis.files[item.span.file as usize].citations;
        let within = all
            .iter()
            .filter(|(_, at)| item.span.start <= at.start && at.end <= item.span.end);
        for (citation, _) in within {
            if !cited.contains(&citation.as_str()) && cited.len() < MAX_CITATIONS {
                cited.push(citation);
            }
        }
    }
    let shown: Vec<String> = cited.into_iter().map(shown_citation).collect();
    let above = lines_above(program.text(declaration.at.file), declaration.at.start as usize);
    (!shown.is_empty()).then(|| format!("Obeys {}.{}", shown.join(", "), quotations(&above)))
}

/// Returns the quotations (`//# …`) behind each citation as quotations in Markdown.
fn quotations(lines: &[&str]) -> String {
    let quotation = |lines: &[&str]| {
        let quoted = lines.iter().filter_map(|line| line.strip_prefix("//#"));
        let quoted: Vec<&str> = quoted.map(str::trim).collect();
        (!quoted.is_empty()).then(|| format!("\n\n> {}", quoted.join(" ")))
    };
    let cited = lines.split(|line| line.starts_with("//="));
    cited.filter_map(quotation).collect()
}

/// Formats `RFC9293 3.10.7.4` with a link to the section.
fn shown_citation(citation: &str) -> String {
    let mut words = citation.split_whitespace();
    let rfc = words.next().and_then(|word| word.strip_prefix("RFC"));
    let section = words
        .next()
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    match (rfc, section) {
        (Some(rfc), Some(section)) if rfc.bytes().all(|byte| byte.is_ascii_digit()) => {
            let section = section.trim_end_matches([',', '.', ':']);
            format!("[{citation}](https://www.rfc-editor.org/rfc/rfc{rfc}#section-{section})")
        }
        _ => citation.to_owned(),
    }
}
