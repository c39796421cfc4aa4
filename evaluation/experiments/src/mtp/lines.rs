//! `mtp-loc`: the length of the built-in programs, beside that of the programs in MTP's Table 2.
//!
//! A line counts if it contains anything besides comments and white space. The lines of a program include
//! those of each file that it imports.

use std::collections::BTreeSet;
use std::path::Path;

use hawser_driver::{Instead, MemoryLoader, compile_with, is_library};
use hawser_syntax::SourceFile;
use hawser_syntax::lexer::lex;
use hawser_syntax::token::TokenKind;
use serde_json::json;

use crate::Error;
use crate::experiment::{Context, Outcome};
use crate::plot::{Axes, Group, bars};

/// The transports' files, by their paths below `transports/`: programs, and lists of variants.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/transports.rs"));

/// Table 2: the programs, and the code of the targets that run them.
const PAPER: [(&str, u32); 5] = [
    ("TCP", 753),
    ("Homa", 1_205),
    ("QUIC-Lite", 920),
    ("MTP-DPDK", 15_593),
    ("MTP-XDP", 14_837),
];
/// The number of rows of the table that are programs.
const PROGRAMS: usize = 3;
/// Our programs that implement a protocol of the paper, each with its row in the table.
const SAME: [(&str, usize); 3] = [("tcp", 0), ("homa", 1), ("quic-lite", 2)];

/// A program with its files, and the number of counted lines of each.
struct Program {
    name: String,
    files: Vec<(String, usize)>,
}

impl Program {
    fn lines(&self) -> usize {
        self.files.iter().map(|(_, lines)| lines).sum()
    }

    /// Returns the number of lines in files of the library.
    fn of_library(&self) -> usize {
        let files = self.files.iter().filter(|(path, _)| is_library(path));
        files.map(|(_, lines)| lines).sum()
    }
}

pub(crate) fn lines(_: &Context<'_>) -> Result<Outcome, Error> {
    let programs = programs()?;
    let mut outcome = Outcome::default();
    outcome.lines.push(format!(
        "{:24} {:>6} {:>14} {:>6}  {}",
        "program", "lines", "of the library", "files", "paper"
    ));
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for program in &programs {
        let paper = SAME.iter().find(|(name, _)| *name == program.name);
        let paper = paper.map(|(_, row)| PAPER[*row]);
        let (count, library) = (program.lines(), program.of_library());
        let beside = paper.map_or_else(String::new, |(name, lines)| {
            format!("{name} {lines}: {:.2}", count as f64 / f64::from(lines))
        });
        outcome.lines.push(format!(
            "{:24} {count:6} {library:14} {:6}  {beside}",
            program.name,
            program.files.len()
        ));
        let files: Vec<_> = program
            .files
            .iter()
            .map(|(path, lines)| json!({ "path": path, "lines": lines }))
            .collect();
        rows.push(json!({
            "program": program.name, "lines": count, "of_the_library": library, "files": files,
            "paper": paper.map(|(_, lines)| lines),
            "ratio": paper.map(|(_, lines)| count as f64 / f64::from(lines)),
        }));
        groups.push(group(&program.name, count as f64));
    }
    for (name, lines) in PAPER {
        outcome
            .lines
            .push(format!("{:24} {lines:6}", format!("the paper's {name}")));
    }
    for (name, lines) in &PAPER[..PROGRAMS] {
        groups.push(group(&format!("MTP: {name}"), f64::from(*lines)));
    }
    let axes = Axes {
        title: "Lines of programs, without comments and blank lines",
        x: "",
        y: "lines",
    };
    let kinds = ["lines".to_owned()];
    outcome
        .drawings
        .push(("table-2".into(), bars(&axes, &kinds, &groups)));
    let paper: Vec<_> = PAPER
        .iter()
        .map(|(name, lines)| json!({ "name": name, "lines": lines }))
        .collect();
    outcome.figures = json!({ "programs": rows, "paper": paper });
    Ok(outcome)
}

fn group(name: &str, height: f64) -> Group {
    Group { name: name.to_owned(), bars: vec![(height, height, height)] }
}

/// Returns all programs of `transports/` and their variants, by name.
fn programs() -> Result<Vec<Program>, Error> {
    let texts = MemoryLoader::new(FILES.iter().copied());
    let mut programs = Vec::new();
    let folders: BTreeSet<&str> = FILES
        .iter()
        .filter_map(|(path, _)| path.split('/').next())
        .collect();
    for folder in folders {
        let path = format!("{folder}/{folder}.mtp");
        let main = Path::new(&path);
        programs.push(counted(folder, compile_with(&texts, main))?);
        for (variant, part, other) in variants(folder) {
            let instead = Instead {
                loader: &texts,
                part: &Path::new(folder).join(part),
                other: &Path::new(folder).join(other),
            };
            let name = format!("{folder}-{variant}");
            programs.push(counted(&name, compile_with(&instead, main))?);
        }
    }
    Ok(programs)
}

/// Returns the variants of a folder's program, which differ from it in one file: the name of each, that file,
/// and its replacement.
fn variants(folder: &str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let path = format!("{folder}/variants");
    let file = FILES.iter().find(|(known, _)| *known == path);
    let lines = file.map_or("", |(_, text)| text).lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?, words.next()?))
    })
}

fn counted(name: &str, compilation: hawser_driver::Compilation) -> Result<Program, Error> {
    if compilation.module.is_none() {
        return Err(format!("{name}: {}", compilation.render(false)).into());
    }
    let count = |file: &SourceFile| {
        let path = file.path.as_str();
        let path = path.split_once("/../").map_or(path, |(_, beside)| beside);
        (path.to_owned(), count(&file.text))
    };
    Ok(Program {
        name: name.to_owned(),
        files: compilation.sources.files().iter().map(count).collect(),
    })
}

/// Counts the lines with at least one token.
fn count(text: &str) -> usize {
    let line_of = |byte: u32| text[..byte as usize].matches('\n').count();
    let tokens = lex(text, 0).tokens;
    let tokens = tokens.iter().filter(|token| token.kind != TokenKind::End);
    let lines: BTreeSet<usize> = tokens.map(|token| line_of(token.start)).collect();
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let text = "// a\n\nconst uint8 A = 1; // b\n/* c\n d */\n  \n/* e */ void f() {\n    return;\n}\n";
        assert_eq!(count(text), 4);
        assert_eq!(count(""), 0);
        assert_eq!(count("event a : EVENT { }"), 1);
    }

    /// Counts lines by simple text rules: removes block comments, then line comments, then blank lines.
    fn by_text(text: &str) -> usize {
        let mut rest = text;
        let mut kept = String::new();
        while let Some(at) = rest.find("/*").filter(|at| !rest[..*at].contains("//")) {
            kept += &rest[..at];
            let block = &rest[at..];
            let end = block.find("*/").map_or(block.len(), |end| end + 2);
            kept.extend(block[..end].matches('\n'));
            rest = &block[end..];
        }
        kept += rest;
        let code = kept.lines().map(|line| line.split("//").next().unwrap_or(""));
        code.filter(|line| !line.trim().is_empty()).count()
    }

    #[test]
    fn each_program_has_the_lines_of_its_files() {
        let programs = programs().expect("they pass the checker");
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        let expected: Vec<&str> = hawser_load::names().collect();
        assert_eq!(names, expected);
        for program in &programs {
            for (path, lines) in &program.files {
                let known = FILES.iter().copied().chain(hawser_driver::library());
                let (_, text) = known
                    .into_iter()
                    .find(|(known, _)| *known == path.as_str())
                    .unwrap_or_else(|| panic!("{path} is none of the files"));
                assert_eq!(*lines, by_text(text), "{path}");
            }
        }
        let lines = |name: &str| {
            let found = programs.iter().find(|program| program.name == name);
            found.map_or(0, Program::lines) as i64
        };
        let of_file = |path: &str| {
            let found = FILES.iter().find(|(known, _)| *known == path);
            by_text(found.map_or("", |(_, text)| text)) as i64
        };
        assert_eq!(
            lines("tcp-newreno") - lines("tcp"),
            of_file("tcp/newreno.mtp") - of_file("tcp/cubic.mtp")
        );
        let own = FILES
            .iter()
            .filter(|(path, _)| path.starts_with("tcp/") && path.ends_with(".mtp"));
        assert!(lines("tcp") <= own.map(|(_, text)| by_text(text) as i64).sum::<i64>() + 300);
    }
}
