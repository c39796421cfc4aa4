//! Every name of a program leads to a declaration of the same name.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use hawser_ide::{Colour, Coloured, Workspace};
use hawser_syntax::lexer::lex;
use hawser_syntax::token::{PLACE_WORDS, TokenKind};

use crate::workspace::{find, in_memory, opened};

/// Words that have a fixed meaning in their place, without a declaration.
const FIXED: &[&str] = &[
    "FLOW",
    "SHARD",
    "GLOBAL",
    "PRIO",
    "FIFO",
    "RANK",
    "RATE",
    "PER_FLOW",
    "CONNECTED",
    "EOF",
    "CLOSED",
    "ACCEPTED",
    "FAILED",
    "pseudo",
    "type_select",
    "len",
    "add",
    "valid",
    "data",
    "NONE",
    "INF",
    "this",
    "prev",
];

/// Returns the names of a file that lead to no declaration.
fn lost(workspace: &Workspace, path: &Path, text: &str) -> Vec<String> {
    let constants: Vec<&str> = hawser_check::vocabulary::constants()
        .map(|(name, _)| name)
        .collect();
    // A name without a declaration and without an entry in the language's lists is only known to be a
    // constant.
    let is_unknown = |piece: &Coloured| piece.colour == Colour::Constant;
    let unknown: HashSet<usize> = workspace
        .colours(path)
        .into_iter()
        .filter(is_unknown)
        .map(|piece| piece.range.0)
        .collect();
    let mut texts: HashMap<PathBuf, String> = HashMap::new();
    let mut lost = Vec::new();
    for token in lex(text, 0).tokens {
        let (start, end) = (token.start as usize, token.end as usize);
        let name = &text[start..end];
        let is_kind = name.to_ascii_lowercase().ends_with("_event") || name == "EVENT";
        let fixed = FIXED.contains(&name) || PLACE_WORDS.contains(&name) || constants.contains(&name);
        let selects = text[..start].ends_with("select ") || text[..start].ends_with("select ev.");
        if token.kind != TokenKind::Ident || fixed || is_kind || selects {
            continue;
        }
        let line = text[..start].lines().count();
        let declared = workspace.definition(path, start).map(|place| {
            let read = || workspace.any_text(&place.path).expect("its text");
            let declared = texts.entry(place.path.clone()).or_insert_with(read);
            declared[place.range.0..place.range.1].to_owned()
        });
        match declared {
            Some(declared) if declared == name => {}
            Some(declared) => lost.push(format!(
                "{}:{line}: `{name}` leads to `{declared}`",
                path.display()
            )),
            None if unknown.contains(&start) => {
                lost.push(format!("{}:{line}: `{name}` leads nowhere", path.display()));
            }
            None => {}
        }
    }
    lost
}

#[test]
fn every_name_of_the_programs_leads_to_its_declaration() {
    let mut all = Vec::new();
    for folder in ["transports/tcp", "lang/tests/pass", "examples"] {
        let (workspace, paths) = opened(folder);
        for path in paths {
            let text = workspace.text(&path).expect("it is open");
            all.extend(lost(&workspace, &path, text));
        }
    }
    assert!(all.is_empty(), "{} names:\n{}", all.len(), all.join("\n"));
}

const BROKEN: &str = "\
struct cc_t { uint64 cwnd; }
event seg : NET_EVENT { uint32 len; }
context conn { part cc_t cc; }
void grow(seg ev, conn c) {
    uint64 more = ev.len;
    c.cc.cwnd += more +;
}
";

#[test]
fn names_of_a_file_with_an_error_lead_to_their_declarations() {
    let workspace = in_memory(&[("broken.mtp", BROKEN)]);
    let path = Path::new("broken.mtp");
    let use_of_len = find(BROKEN, "ev.len", 0) + 3;
    let place = workspace.definition(path, use_of_len).expect("`len` is declared");
    assert_eq!(place.range.0, find(BROKEN, "len;", 0));
}

#[test]
fn a_local_variable_goes_before_a_global_name() {
    let text = "const uint32 n = 1;\nuint32 twice(uint32 n) { return n + n; }\nuint32 one() { return n; }\n";
    let workspace = in_memory(&[("a.mtp", text)]);
    let path = Path::new("a.mtp");
    let parameter = find(text, "n) {", 0);
    let within = workspace
        .definition(path, find(text, "n + n", 0))
        .expect("a parameter");
    assert_eq!(within.range.0, parameter);
    let outside = workspace
        .definition(path, find(text, "return n; }", 0) + 7)
        .map(|place| place.range.0);
    assert_eq!(outside, Some(find(text, "n = 1", 0)));
    assert_eq!(workspace.references(path, parameter, true).len(), 3);
    assert_eq!(workspace.references(path, parameter, false).len(), 2);
}

#[test]
fn references_span_all_programs_that_import_the_file() {
    let part = "struct cc_t { uint64 cwnd = 14000; }\n";
    let one = "import \"cc.mtp\";\ncontext conn { part cc_t cc; }\nvoid a(conn c) { c.cc.cwnd += 1; }\n";
    let two = "import \"cc.mtp\";\ncontext flow { part cc_t cc; }\nvoid b(flow f) { f.cc.cwnd = 0; }\n";
    let workspace = in_memory(&[("cc.mtp", part), ("one.mtp", one), ("two.mtp", two)]);
    let places = workspace.references(Path::new("cc.mtp"), find(part, "cwnd", 0), true);
    let files: Vec<String> = places
        .iter()
        .map(|place| place.path.display().to_string())
        .collect();
    assert_eq!(files, ["cc.mtp", "one.mtp", "two.mtp"]);
}

#[test]
fn a_name_of_the_library_has_a_hover_and_is_not_renamed() {
    let text = "import \"std/rtt.mtp\";\nvoid f(rtt_t r) { back_off(r, 1s); }\n";
    let workspace = crate::workspace::in_memory(&[("a.mtp", text)]);
    let byte = crate::workspace::find(text, "back_off", 0);
    assert!(workspace.hover(Path::new("a.mtp"), byte).is_some());
    assert_eq!(workspace.renameable(Path::new("a.mtp"), byte), None);
    let refused = workspace.rename(Path::new("a.mtp"), byte, "double");
    assert!(refused.is_err_and(|why| why.contains("library")));
    let own = crate::workspace::find(text, "f(", 0);
    assert!(workspace.rename(Path::new("a.mtp"), own, "g").is_ok());
}

/// Both structures name the field, and the copy names none: a rename of one side alone would lose the copy.
#[test]
fn a_rename_that_changes_a_copy_by_name_is_refused() {
    let text = "struct from_t { uint32 size, seen, both; }\nstruct to_t { uint32 size, kept, both; }\n\
                void f(from_t a, to_t b, to_t c) {\n    b = {a};\n    c = {b};\n    c.kept = a.seen;\n}\n";
    let workspace = in_memory(&[("a.mtp", text)]);
    let rename =
        |what: &str, nth, new: &str| workspace.rename(Path::new("a.mtp"), find(text, what, nth), new);
    for (nth, new) in [(0, "length"), (1, "length")] {
        let refused = rename("size", nth, new);
        assert!(
            refused
                .as_ref()
                .is_err_and(|why| why.contains("copied by name") && why.contains("line 4")),
            "{refused:?}"
        );
    }
    // A new common field would be copied, too.
    let refused = rename("seen", 0, "kept");
    assert!(
        refused.as_ref().is_err_and(|why| why.contains("copied by name")),
        "{refused:?}"
    );
    // Only the copy between equal structures has this field, and it has it on both sides.
    assert!(rename("kept", 0, "stored").is_ok());
    assert!(rename("seen", 0, "noticed").is_ok());
}

#[test]
fn an_alternative_controller_is_checked_in_its_program() {
    let (workspace, paths) = opened("transports/tcp");
    let other = paths
        .iter()
        .find(|path| path.ends_with("newreno.mtp"))
        .expect("it is there");
    // There are no problems in the other files either, although they have declarations that this one does not
    // need. FAST takes the same place.
    let found = workspace.diagnostics();
    let faulty: Vec<_> = found.iter().filter(|file| !file.problems.is_empty()).collect();
    assert!(faulty.is_empty(), "{faulty:?}");
    assert!(found.iter().any(|file| file.path == *other));
    let text = workspace.text(other).expect("it is open");
    let place = workspace
        .definition(other, find(text, "slow_start", 0))
        .expect("a name of TCP");
    assert!(place.path.ends_with("slowstart.mtp"), "{place:?}");
}

#[test]
fn the_library_is_read_where_its_names_lead() {
    let text = "import \"std/rtt.mtp\";\nvoid f(rtt_t r) { back_off(r, 1s); }\n";
    let workspace = in_memory(&[("a.mtp", text)]);
    let byte = find(text, "back_off", 0);
    let place = workspace
        .definition(Path::new("a.mtp"), byte)
        .expect("it is declared");
    let library = workspace.any_text(&place.path).expect("its text");
    assert_eq!(&library[place.range.0..place.range.1], "back_off");
    let places = workspace.references(Path::new("a.mtp"), byte, false);
    assert!(places.iter().any(|place| place.range.0 == byte), "{places:?}");
}
