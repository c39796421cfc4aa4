//! `hawser check --target`: reports where a program's chains run on a target, and which capabilities are
//! missing there.

use std::fmt::Write as _;
use std::path::Path;

use hawser::lang::capabilities::{Capabilities, Placed, Reason, lacks, pins, placements};
use hawser::lang::{Compilation, SourceMap};
use serde_json::{Value, json};

use crate::exit::Exit;

/// A target and its capabilities.
pub(super) struct CheckTarget {
    name: String,
    capabilities: Capabilities,
}

/// The report on one program.
pub(super) struct TargetReport {
    pub(super) table: String,
    /// The capabilities that the target lacks, as text; empty if the program runs there.
    pub(super) lacks: String,
    pub(super) json: Value,
}

impl CheckTarget {
    pub(super) fn named(name: &str) -> Result<CheckTarget, Exit> {
        Ok(CheckTarget {
            name: name.to_owned(),
            capabilities: Capabilities::for_target(name).map_err(Exit::usage)?,
        })
    }

    /// Reports on a program without errors. Returns `None` if the program has errors.
    pub(super) fn report(&self, file: &Path, compilation: &Compilation) -> Option<TargetReport> {
        let module = compilation.module.as_ref()?;
        let sources = &compilation.sources;
        let placed = placements(module, &self.capabilities);
        let lacks = lacks(module, &self.capabilities);
        let pins = pins(module);
        let others = Capabilities::targets().filter(|name| {
            let other = Capabilities::for_target(name);
            other.is_ok_and(|other| hawser::lang::capabilities::lacks(module, &other).is_empty())
        });
        let instead: Vec<&str> = others.collect();
        let name = |placed: &Placed| module.events[placed.event.0 as usize].name.as_str();
        let chains = placed.iter().map(|placed| {
            json!({
                "chain": name(placed),
                "place": placed.placement.name(),
                "reasons": reasons_json(&placed.reasons, sources),
            })
        });
        let mut json = json!({
            "file": file,
            "target": self.name,
            "chains": chains.collect::<Vec<_>>(),
            "lacks": reasons_json(&lacks, sources),
            "one_shard": reasons_json(&pins, sources),
        });
        if !lacks.is_empty() {
            json["instead"] = json!(instead);
        }
        let rows: Vec<(&str, &Placed)> = placed.iter().map(|placed| (name(placed), placed)).collect();
        Some(TargetReport {
            table: format!(
                "  its chains on the target {}:\n{}{}",
                self.name,
                table(&rows, sources),
                shards(&pins, sources)
            ),
            lacks: self.complaint(file, &lacks, &instead, sources),
            json,
        })
    }

    fn complaint(&self, file: &Path, lacks: &[Reason], instead: &[&str], sources: &SourceMap) -> String {
        if lacks.is_empty() {
            return String::new();
        }
        let mut out = format!(
            "hawser: {} does not run on the target {}:\n",
            file.display(),
            self.name
        );
        for reason in lacks {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {}", sentence(reason, sources));
        }
        out += &match instead {
            [] => "  no target has that\n".to_owned(),
            [one] => format!("  the target {one} takes it\n"),
            [others @ .., last] => format!("  the targets {} and {last} take it\n", others.join(", ")),
        };
        out
    }
}

/// Formats a table with a row for each reason. Only the first row of a chain shows its name and place.
fn table(rows: &[(&str, &Placed)], sources: &SourceMap) -> String {
    let width = rows
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0)
        .max("chain".len());
    let mut out = format!("  {:width$}  place   reason\n", "chain");
    for (name, placed) in rows {
        let (mut name, mut place) = (*name, placed.placement.name());
        for reason in &placed.reasons {
            let _ = writeln!(out, "  {name:width$}  {place:6}  {}", sentence(reason, sources));
            (name, place) = ("", "");
        }
    }
    out
}

/// Describes the number of shards that a program may use, and the reasons that pin it to one.
fn shards(pins: &[Reason], sources: &SourceMap) -> String {
    if pins.is_empty() {
        return "  it runs in any number of shards\n".to_owned();
    }
    let mut out = "  it runs in one shard:\n".to_owned();
    for reason in pins {
        let _ = writeln!(out, "    {}", sentence(reason, sources));
    }
    out
}

/// Formats a reason with its source lines: `it calls … (FILE:12, 14, OTHER:3)`.
fn sentence(reason: &Reason, sources: &SourceMap) -> String {
    let mut lines = String::new();
    let mut last = None;
    for (file, line) in lines_of(reason, sources) {
        if !lines.is_empty() {
            lines += ", ";
        }
        let _ = match last == Some(file) {
            true => write!(lines, "{line}"),
            false => write!(lines, "{file}:{line}"),
        };
        last = Some(file);
    }
    match lines.is_empty() {
        true => reason.text.clone(),
        false => format!("{} ({lines})", reason.text),
    }
}

fn lines_of<'a>(reason: &Reason, sources: &'a SourceMap) -> Vec<(&'a str, u32)> {
    let lines = reason.spans.iter().map(|span| {
        let path = sources.file(span.file).path.as_str();
        (path, sources.line_column(span.file, span.start).0)
    });
    let mut lines: Vec<_> = lines.collect();
    lines.dedup();
    lines
}

fn reasons_json(reasons: &[Reason], sources: &SourceMap) -> Value {
    let reasons = reasons.iter().map(|reason| {
        let lines = lines_of(reason, sources).into_iter();
        let lines: Vec<Value> = lines
            .map(|(file, line)| json!({"file": file, "line": line}))
            .collect();
        json!({"text": reason.text, "lines": lines})
    });
    reasons.collect()
}
