//! `hawser lsp` in dialogue with an editor. The expected answers are looked up in the source files.

mod editor;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use editor::{Editor, about, find, position, range, uri};

fn tcp() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/tcp");
    folder.canonicalize().expect("TCP is there")
}

/// Returns the path and the text of a file of TCP.
fn tcp_file(name: &str) -> (PathBuf, String) {
    let path = tcp().join(name);
    let text = fs::read_to_string(&path).expect("a program");
    (path, text)
}

/// Creates a folder for a test with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lsp").join(name);
    fs::create_dir_all(&folder).expect("the folder for tests can be written");
    for (file, text) in files {
        fs::write(folder.join(file), text).expect("a file");
    }
    folder.canonicalize().expect("it is there")
}

/// A small program with an error: `lenn`.
const BROKEN: &str = "\
event seg : NET_EVENT { uint32 len; }
context conn { uint64 bytes; }
void count(seg ev, conn c) { c.bytes += ev.lenn; }
dispatch d { seg -> {count}; }
";

#[test]
fn tcp_has_no_diagnostics_and_its_names_have_definitions() {
    let mut editor = Editor::start(&tcp());
    let (input, text) = tcp_file("cookies.mtp");
    editor.open(&input, &text);
    assert_eq!(editor.diagnostics(&input, 1), Vec::<Value>::new());

    // A header field that is used in one file and declared in another.
    let (header, declared) = tcp_file("header.mtp");
    let byte = find(&text, "h.seq") + 2;
    let place = editor.ask("textDocument/definition", about(&input, &text, byte));
    let field = find(&declared, "pkt_bp TCPBP");
    let field = field + find(&declared[field..], "seq, ack;");
    assert_eq!(place["uri"], uri(&header));
    assert_eq!(place["range"]["start"], position(&declared, field));

    let hover = editor.ask("textDocument/hover", about(&input, &text, byte));
    let shown = hover["contents"]["value"].as_str().expect("a text");
    assert!(shown.contains("seq<32> seq"), "{shown}");
    // RFC 9293, section 3.1: the 32-bit sequence number follows the two ports.
    assert!(shown.contains("bytes 4 to 7"), "{shown}");
    assert!(shown.contains("modulo 2^32"), "{shown}");

    let mut with_context = about(&header, &declared, field);
    with_context["context"] = json!({ "includeDeclaration": true });
    editor.open(&header, &declared);
    let places = editor.ask("textDocument/references", with_context);
    let here = json!({ "uri": uri(&input), "range": range(&text, byte, byte + 3) });
    assert!(places.as_array().expect("a list").contains(&here), "{places}");
    editor.end();
}

#[test]
fn a_mistake_is_diagnosed_while_typing_and_fixed_by_its_hint() {
    let folder = folder("mended", &[("broken.mtp", BROKEN)]);
    let path = folder.join("broken.mtp");
    let mut editor = Editor::start(&folder);
    editor.open(&path, BROKEN);
    let found = editor.diagnostics(&path, 1);
    assert_eq!(found.len(), 1, "{found:?}");
    let wrong = find(BROKEN, "lenn");
    assert_eq!(found[0]["range"], range(BROKEN, wrong, wrong + 4));
    assert_eq!(found[0]["severity"], 1);

    let actions = editor.ask(
        "textDocument/codeAction",
        json!({
            "textDocument": { "uri": uri(&path) },
            "range": found[0]["range"],
            "context": { "diagnostics": found },
        }),
    );
    assert_eq!(actions[0]["title"], "Replace by `len`");
    let edit = &actions[0]["edit"]["changes"][uri(&path)][0];
    assert_eq!(edit["range"], found[0]["range"]);
    let text = editor.edit(
        &path,
        2,
        BROKEN,
        "lenn",
        edit["newText"].as_str().expect("a text"),
    );
    assert_eq!(editor.diagnostics(&path, 2), Vec::<Value>::new());

    // A missing semicolon and its fix.
    let text = editor.edit(&path, 3, &text, "ev.len;", "ev.len");
    let found = editor.diagnostics(&path, 3);
    assert_eq!(found[0]["code"], "E0102", "{found:?}");
    let gap = find(&text, "ev.len") + 6;
    assert_eq!(found[0]["range"], range(&text, gap, gap));
    editor.end();
}

#[test]
fn importers_are_checked_with_the_unsaved_part() {
    let part = "struct cc_t { uint64 cwnd; }\n";
    let whole = "import \"part.mtp\";\ncontext conn { part cc_t cc; }\nvoid f(conn c) { c.cc.cwnd = 1; }\n";
    let folder = folder("imports", &[("part.mtp", part), ("whole.mtp", whole)]);
    let (part_at, whole_at) = (folder.join("part.mtp"), folder.join("whole.mtp"));
    let mut editor = Editor::start(&folder);
    editor.open(&part_at, part);
    assert_eq!(editor.diagnostics(&part_at, 1), Vec::<Value>::new());
    editor.edit(&part_at, 2, part, "cwnd", "window");
    let found = loop {
        if let Some(params) = editor.published.get(&uri(&whole_at)) {
            break params["diagnostics"].clone();
        }
        editor.next();
    };
    let wrong = find(whole, "cwnd");
    assert_eq!(found[0]["range"], range(whole, wrong, wrong + 4), "{found}");
    editor.end();
}

#[test]
fn a_name_of_the_library_leads_to_a_file_that_can_be_read() {
    let text = "import \"std/rtt.mtp\";\nvoid f(rtt_t r) { back_off(r, 1s); }\n";
    let folder = folder("library", &[("a.mtp", text)]);
    let path = folder.join("a.mtp");
    let mut editor = Editor::start(&folder);
    editor.open(&path, text);
    let place = editor.ask(
        "textDocument/definition",
        about(&path, text, find(text, "back_off")),
    );
    let file = place["uri"]
        .as_str()
        .expect("a URI")
        .strip_prefix("file://")
        .expect("a file");
    let library = fs::read_to_string(file).expect("it can be read");
    let declared = find(&library, "back_off");
    assert_eq!(
        place["range"],
        range(&library, declared, declared + "back_off".len())
    );
    editor.end();
    assert!(!Path::new(file).exists(), "it goes with the server");
}

#[test]
fn the_editor_formats_as_the_command_does() {
    let ugly = BROKEN.replace("lenn", "len").replace("{ ", "{\n\n  ");
    let folder = folder("formatted", &[("ugly.mtp", &ugly)]);
    let path = folder.join("ugly.mtp");
    let mut editor = Editor::start(&folder);
    editor.open(&path, &ugly);
    let options = json!({ "tabSize": 4, "insertSpaces": true });
    let edits = editor.ask(
        "textDocument/formatting",
        json!({ "textDocument": { "uri": uri(&path) }, "options": options }),
    );
    assert_eq!(edits[0]["range"], range(&ugly, 0, ugly.len()));
    let done = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .arg("fmt")
        .arg(&path)
        .status();
    assert!(done.expect("hawser starts").success());
    assert_eq!(edits[0]["newText"], fs::read_to_string(&path).expect("a text"));
    editor.end();
}

#[test]
fn a_cancelled_request_gets_the_cancelled_error() {
    let mut editor = Editor::start(&tcp());
    let (path, text) = tcp_file("tcp.mtp");
    editor.open(&path, &text);
    // Both messages are one write, so that the cancellation is available when the request is taken up.
    // Opening takes a while.
    let request = json!({
        "jsonrpc": "2.0", "id": 77, "method": "textDocument/hover", "params": about(&path, &text, 0),
    });
    let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 77 } });
    let frames: Vec<String> = [request, cancel]
        .iter()
        .map(|message| format!("Content-Length: {}\r\n\r\n{message}", message.to_string().len()))
        .collect();
    editor.raw(frames.concat().as_bytes());
    let answer = loop {
        let message = editor.next();
        if message["id"] == 77 {
            break message;
        }
    };
    // The request is answered exactly once: either before the cancellation was read, or as cancelled.
    let cancelled = answer["error"]["code"] == -32800;
    assert!(cancelled || answer.get("result").is_some(), "{answer}");
    editor.end();
}

#[test]
fn the_order_of_the_conversation_is_kept() {
    let mut editor = Editor::silent();
    let error = editor
        .try_ask("textDocument/hover", json!({}))
        .expect_err("too early");
    assert_eq!(error["code"], -32002);
    editor.ask("initialize", json!({ "capabilities": {} }));
    let error = editor
        .try_ask("initialize", json!({ "capabilities": {} }))
        .expect_err("a second one");
    assert_eq!(error["code"], -32600);
    let error = editor.try_ask("nosuch/method", json!({})).expect_err("not known");
    assert_eq!(error["code"], -32601);
    editor.ask("shutdown", Value::Null);
    let error = editor
        .try_ask("textDocument/hover", json!({}))
        .expect_err("too late");
    assert_eq!(error["code"], -32600);
    let (code, _) = editor.hang_up();
    assert_eq!(code, Some(0));
}

#[test]
fn malformed_input_ends_the_server_with_an_error() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"Content-Length: 99999999999999999999\r\n\r\n{}",
        b"Content-Length: 4000000000\r\n\r\n{}",
        b"Content-Length: 10\r\n\r\n{}",
        b"\xff\xfe\x00\x01",
        b"",
    ] {
        let mut editor = Editor::silent();
        editor.raw(bytes);
        let (code, printed) = editor.hang_up();
        assert_eq!(code, Some(5), "{bytes:?}: {printed}");
        assert!(
            printed.starts_with("hawser: the connection to the editor ended"),
            "{printed}"
        );
    }
}

#[test]
fn hostile_messages_are_answered_or_passed_over() {
    let folder = folder("hostile", &[("a.mtp", BROKEN)]);
    let path = folder.join("a.mtp");
    let mut editor = Editor::start(&folder);
    editor.open(&path, BROKEN);
    editor.raw(b"Content-Length: 5\r\n\r\n{bad}");
    editor.say("textDocument/didChange", json!({ "textDocument": 5 }));
    editor.say("textDocument/didOpen", json!([]));
    editor.say("$/cancelRequest", json!({ "id": { "x": [] } }));
    let far = json!({ "line": u32::MAX, "character": u32::MAX });
    let document = json!({ "uri": uri(&path) });
    for method in ["hover", "definition", "documentHighlight", "references"] {
        let mut params = json!({ "textDocument": document, "position": far });
        params["context"] = json!({ "includeDeclaration": true });
        editor.ask(&format!("textDocument/{method}"), params);
    }
    // A range that ends before it begins, one past the end, and a text beyond the language's limit.
    let backwards = json!({ "start": far, "end": { "line": 0, "character": 0 } });
    let huge = "context é𝄞 { }\n".repeat(200_000);
    for (version, change) in [
        (2, json!({ "range": backwards, "text": "é𝄞" })),
        (
            3,
            json!({ "range": { "start": { "line": 0, "character": 3 }, "end": far }, "text": "" }),
        ),
        (4, json!({ "text": huge })),
        (5, json!({ "text": "{".repeat(100_000) })),
        (6, json!({ "text": "context c { uint32 x; }\nvoid f(c c) { c." })),
        (7, json!({ "text": BROKEN })),
    ] {
        let params = json!({
            "textDocument": { "uri": uri(&path), "version": version }, "contentChanges": [change],
        });
        editor.say("textDocument/didChange", params);
        let found = editor.diagnostics(&path, version);
        assert!(!found.is_empty(), "{version}");
        editor.ask("textDocument/hover", about(&path, "", 0));
    }
    let unsaved = json!({ "uri": "untitled:One", "languageId": "mtp", "version": 1, "text": BROKEN });
    editor.say("textDocument/didOpen", json!({ "textDocument": unsaved }));
    while !editor.published.contains_key("untitled:One") {
        editor.next();
    }
    editor.end();
}

/// Prints the time from an edit to its diagnostics, in TCP with all its files: the median and the 95th of
/// 100.
#[test]
fn an_edit_of_tcp_is_diagnosed_soon() {
    let mut editor = Editor::start(&tcp());
    let (path, mut text) = tcp_file("recovery.mtp");
    editor.open(&path, &text);
    editor.diagnostics(&path, 1);
    let word = "uint64 ";
    let mut took = Vec::new();
    for version in 2..102 {
        // Alternates between a name that does not exist and the correct one.
        let (old, new) = if version % 2 == 0 {
            (word, "uint65 ")
        } else {
            ("uint65 ", word)
        };
        let begun = Instant::now();
        text = editor.edit(&path, version, &text, old, new);
        let found = editor.diagnostics(&path, version);
        took.push(begun.elapsed());
        assert_eq!(found.is_empty(), new == word, "{found:?}");
    }
    took.sort();
    println!(
        "an edit of TCP: median {:?}, 95th of 100 {:?}",
        took[50], took[95]
    );
    editor.end();
}

/// Returns the places of a word in the files of TCP, by URI.
fn places_of(word: &str) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    let mut files: Vec<PathBuf> = fs::read_dir(tcp())
        .expect("TCP")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    for path in files
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "mtp"))
    {
        let text = fs::read_to_string(path).expect("a program");
        let is_part =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        for (start, _) in text.match_indices(word) {
            let end = start + word.len();
            let before = start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
            if !is_part(before) && !is_part(text.as_bytes().get(end)) {
                places.push((uri(path), range(&text, start, end)));
            }
        }
    }
    places
}

#[test]
fn a_field_is_renamed_in_all_files_unless_the_name_clashes() {
    let mut editor = Editor::start(&tcp());
    let (path, text) = tcp_file("input.mtp");
    editor.open(&path, &text);
    let byte = find(&text, "snd_wl1");
    let word = editor.ask("textDocument/prepareRename", about(&path, &text, byte));
    assert_eq!(word, range(&text, byte, byte + 7));
    let rename = |new: &str| {
        let mut params = about(&path, &text, byte);
        params["newName"] = json!(new);
        params
    };
    let edits = editor.ask("textDocument/rename", rename("window_from"));
    let mut found = Vec::new();
    for (uri, edits) in edits["changes"].as_object().expect("a map") {
        for edit in edits.as_array().expect("a list") {
            assert_eq!(edit["newText"], "window_from");
            found.push((uri.clone(), edit["range"].clone()));
        }
    }
    found.sort_by_key(|(uri, range)| (uri.clone(), range.to_string()));
    let mut expected = places_of("snd_wl1");
    expected.sort_by_key(|(uri, range)| (uri.clone(), range.to_string()));
    assert_eq!(found, expected);
    for (new, why) in [
        ("snd_wl2", "clashes"),
        ("if", "cannot be a name"),
        ("uint32", "word of the language"),
        ("two words", "cannot be a name"),
        ("self", "word of the language"),
        ("", "cannot be a name"),
    ] {
        let error = editor.try_ask("textDocument/rename", rename(new)).expect_err(new);
        assert!(
            error["message"].as_str().expect("a text").contains(why),
            "{new}: {error}"
        );
    }
    editor.end();
}

/// Returns the names of a completion.
fn proposed(answer: &Value) -> Vec<String> {
    let items = answer.as_array().expect("a list").iter();
    items
        .map(|item| item["label"].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn a_statement_of_tcp_is_completed_while_it_is_written() {
    let mut editor = Editor::start(&tcp());
    let (path, text) = tcp_file("input.mtp");
    editor.open(&path, &text);
    let anchor = "if (!fin_acknowledged(c)) return;\n";
    let cases = [
        (
            "    c.",
            &["snd_una", "self", "state", "cc"][..],
            &["timer_start", "if"][..],
        ),
        ("    c.persist.", &["armed"], &["snd_una"]),
        ("    emit ", &["pkt_gen", "timer_start", "notify"], &["if", "min"]),
        ("    emit ti", &["timer_start", "timer_stop"], &["if"]),
        (
            "    s.window = m",
            &["min", "c", "s", "ev", "fin_acknowledged"],
            &["pkt_gen"],
        ),
        ("    emit raise(", &["c", "ev"], &["pkt_gen"]),
    ];
    for (version, (written, expected, absent)) in (2..).zip(cases) {
        let before = find(&text, anchor) + anchor.len();
        let now = format!("{}{written}\n{}", &text[..before], &text[before..]);
        let document = json!({ "uri": uri(&path), "version": version });
        let params = json!({ "textDocument": document, "contentChanges": [{ "text": now }] });
        editor.say("textDocument/didChange", params);
        let answer = editor.ask(
            "textDocument/completion",
            about(&path, &now, before + written.len()),
        );
        let names = proposed(&answer);
        for name in expected {
            assert!(
                names.contains(&(*name).to_owned()),
                "`{written}`: no {name} in {names:?}"
            );
        }
        for name in absent {
            assert!(
                !names.contains(&(*name).to_owned()),
                "`{written}`: {name} in {names:?}"
            );
        }
    }
    editor.end();
}

#[test]
fn a_call_shows_its_parameters() {
    let text = "\
event late : TIMER_EVENT { }
context conn { uint64 sent; timer_t again -> late; }
// The room that is left.
uint64 room(conn c, uint64 window) { return sat_sub(c.sent + window, 1); }
void wait(late ev, conn c) {
    c.sent = room(c, min(1, 2));
    emit timer_start(c.again, 5ms);
}
";
    let folder = folder("signature", &[("calls.mtp", text)]);
    let path = folder.join("calls.mtp");
    let mut editor = Editor::start(&folder);
    editor.open(&path, text);
    for (place, form, active) in [
        ("room(c, m", "uint64 room(conn c, uint64 window)", 1),
        ("room(", "uint64 room(conn c, uint64 window)", 0),
        ("min(1, ", "min(a, b)", 1),
        ("timer_start(c.again, ", "timer_start(timer, duration)", 1),
    ] {
        let call = find(text, "c.sent = ");
        let byte = call + find(&text[call..], place) + place.len();
        let help = editor.ask("textDocument/signatureHelp", about(&path, text, byte));
        let signature = &help["signatures"][0];
        assert_eq!(
            (&signature["label"], &help["activeParameter"]),
            (&json!(form), &json!(active)),
            "{place}"
        );
        let label = &signature["parameters"][active]["label"];
        let bytes = |at: usize| label[at].as_u64().expect("a number") as usize;
        let shown = &form[bytes(0)..bytes(1)];
        assert!(
            ["uint64 window", "conn c", "b", "duration"].contains(&shown),
            "{shown}"
        );
    }
    let help = editor.ask(
        "textDocument/signatureHelp",
        about(&path, text, find(text, "emit")),
    );
    assert_eq!(help, Value::Null);
    editor.end();
}

/// Returns the names of declarations that begin at the start of a line.
fn declared_names(text: &str) -> Vec<String> {
    let words = [
        "struct",
        "event",
        "context",
        "pkt_bp",
        "opt_t",
        "enum",
        "signal",
        "dispatch",
        "seg_rule",
        "opt_union",
    ];
    let mut names = Vec::new();
    for line in text.lines() {
        let mut parts = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if words.contains(&parts.next().unwrap_or_default()) {
            names.push(parts.next().expect("a name").to_owned());
        }
    }
    names
}

#[test]
fn symbols_of_tcp_are_its_declarations() {
    let mut editor = Editor::start(&tcp());
    for file in ["header.mtp", "state.mtp", "tcp.mtp"] {
        let (path, text) = tcp_file(file);
        editor.open(&path, &text);
        let symbols = editor.ask(
            "textDocument/documentSymbol",
            json!({ "textDocument": { "uri": uri(&path) } }),
        );
        let symbols = symbols.as_array().expect("a list");
        let expected = declared_names(&text);
        assert!(!expected.is_empty());
        for name in expected {
            let symbol = symbols.iter().find(|symbol| symbol["name"] == *name);
            let symbol = symbol.unwrap_or_else(|| panic!("{file}: no {name}"));
            let found = editor.ask("workspace/symbol", json!({ "query": name }));
            let found = found.as_array().expect("a list");
            let is_it = |found: &&Value| {
                found["name"] == *name && found["location"]["range"] == symbol["selectionRange"]
            };
            assert!(found.iter().any(|found| is_it(&found)), "{name}: {found:?}");
        }
    }
    editor.end();
}

#[test]
fn semantic_tokens_follow_the_kind_of_each_name() {
    let mut editor = Editor::start(&tcp());
    let (path, text) = tcp_file("cookies.mtp");
    editor.open(&path, &text);
    let answer = editor.ask(
        "textDocument/semanticTokens/full",
        json!({ "textDocument": { "uri": uri(&path) } }),
    );
    let data: Vec<usize> = answer["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|n| n.as_u64().expect("a number") as usize)
        .collect();
    let lines: Vec<&str> = text.lines().collect();
    let (mut line, mut start) = (0, 0);
    let mut coloured: HashMap<&str, usize> = HashMap::new();
    for token in data.chunks(5) {
        start = if token[0] == 0 { start + token[1] } else { token[1] };
        line += token[0];
        // Comments may contain other characters, but code is ASCII.
        if let Some(word) = lines[line].get(start..start + token[2]) {
            coloured.insert(word, token[3]);
        }
    }
    let legend = [
        "keyword",
        "comment",
        "number",
        "string",
        "type",
        "function",
        "enumMember",
        "variable",
        "enum",
        "struct",
    ];
    for (word, colour) in [
        ("TCPBP", "struct"),
        ("return", "keyword"),
        ("uint64", "type"),
        ("keyed_hash", "function"),
    ] {
        assert_eq!(coloured.get(word).map(|at| legend[*at]), Some(colour), "{word}");
    }
    editor.end();
}

/// The largest figure equals the one that `hawser check` prints.
#[test]
fn hints_show_the_worst_case_of_each_chain() {
    let mut editor = Editor::start(&tcp());
    let (path, text) = tcp_file("tcp.mtp");
    editor.open(&path, &text);
    let params = json!({ "textDocument": { "uri": uri(&path) }, "range": range(&text, 0, text.len()) });
    let hints = editor.ask("textDocument/inlayHint", params);
    let hints = hints.as_array().expect("a list");
    let steps =
        |label: &str| -> Option<u64> { label.strip_prefix("at most ")?.split(' ').next()?.parse().ok() };
    let labels = hints.iter().map(|hint| hint["label"].as_str().expect("a text"));
    let largest = labels.filter_map(steps).max().expect("a chain");
    let checked = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .arg("check")
        .arg(&path)
        .output()
        .expect("hawser starts");
    let printed = String::from_utf8(checked.stdout).expect("a text");
    assert!(
        printed.contains(&format!("at most {largest} steps")),
        "{largest}: {printed}"
    );
    // The hint follows the event of its chain.
    let entry = find(&text, "tcp_seg -> {") + "tcp_seg".len();
    assert!(
        hints
            .iter()
            .any(|hint| hint["position"] == position(&text, entry)),
        "{hints:?}"
    );
    editor.end();
}

#[test]
fn a_program_is_run_from_above_its_deployment() {
    let mut editor = Editor::start(&tcp());
    let examples = tcp().join("../../examples").canonicalize().expect("examples");
    let lens = |editor: &mut Editor, path: &Path| {
        let text = fs::read_to_string(path).expect("a program");
        editor.open(path, &text);
        let lenses = editor.ask(
            "textDocument/codeLens",
            json!({ "textDocument": { "uri": uri(path) } }),
        );
        let deploy = find(&text, "\ndeploy {") + 1;
        assert_eq!(lenses[0]["range"]["start"], position(&text, deploy));
        lenses
    };
    let lenses = lens(&mut editor, &examples.join("stop-and-wait.mtp"));
    let scenario = examples.join("scenarios/stop-and-wait.toml");
    assert_eq!(lenses[0]["command"]["command"], "hawser.simulate");
    assert_eq!(lenses[0]["command"]["arguments"], json!([scenario]));
    assert_eq!(lenses[1]["command"]["command"], "hawser.debug");
    let program = tcp().join("tcp.mtp");
    let lenses = lens(&mut editor, &program);
    assert_eq!(lenses[0]["command"]["command"], "hawser.swarm");
    assert_eq!(lenses[0]["command"]["arguments"], json!([program]));
    editor.end();
}

#[test]
fn every_feature_answers_on_a_broken_file() {
    let text =
        format!("{BROKEN}void more(seg ev, conn c) {{\n    c.bytes += count(ev, \n}}\nenum {{ A, B \n");
    let folder = folder("every", &[("broken.mtp", &text)]);
    let path = folder.join("broken.mtp");
    let mut editor = Editor::start(&folder);
    editor.open(&path, &text);
    assert!(!editor.diagnostics(&path, 1).is_empty());
    let bytes = find(&text, "c.bytes") + 2;
    let hover = editor.ask("textDocument/hover", about(&path, &text, bytes));
    assert!(
        hover["contents"]["value"]
            .as_str()
            .expect("a text")
            .contains("uint64 bytes"),
        "{hover}"
    );
    let place = editor.ask("textDocument/definition", about(&path, &text, bytes));
    assert_eq!(place["range"]["start"], position(&text, find(&text, "bytes;")));
    let mut params = about(&path, &text, bytes);
    params["newName"] = json!("octets");
    let refused = editor
        .try_ask("textDocument/rename", params)
        .expect_err("it has errors");
    assert!(
        refused["message"]
            .as_str()
            .expect("a text")
            .contains("correct them first"),
        "{refused}"
    );
    let open = find(&text, "count(ev, ") + "count(ev, ".len();
    let help = editor.ask("textDocument/signatureHelp", about(&path, &text, open));
    assert_eq!(help["signatures"][0]["label"], "void count(seg ev, conn c)");
    let names = proposed(&editor.ask("textDocument/completion", about(&path, &text, bytes)));
    assert!(names.contains(&"bytes".to_owned()), "{names:?}");
    let document = json!({ "textDocument": { "uri": uri(&path) } });
    let symbols = editor.ask("textDocument/documentSymbol", document.clone());
    assert_eq!(symbols[0]["name"], "seg");
    let tokens = editor.ask("textDocument/semanticTokens/full", document.clone());
    assert!(!tokens["data"].as_array().expect("a list").is_empty());
    let lenses = editor.ask("textDocument/codeLens", document.clone());
    assert_eq!(lenses, json!([]));
    let mut within = document.clone();
    within["range"] = range(&text, 0, text.len());
    assert_eq!(editor.ask("textDocument/inlayHint", within), json!([]));
    let mut options = document;
    options["options"] = json!({ "tabSize": 4, "insertSpaces": true });
    assert_eq!(editor.ask("textDocument/formatting", options), Value::Null);
    editor.end();
}
