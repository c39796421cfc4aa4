//! Hovers over names of TCP. The source file itself gives the expected contents.

use std::path::Path;

use crate::workspace::{find, in_memory, opened};

/// Returns the hover over a word of a file of TCP that follows another text.
fn shown(file: &str, behind: &str, word: &str) -> String {
    let (workspace, paths) = opened("transports/tcp");
    let path = paths
        .iter()
        .find(|path| path.ends_with(file))
        .expect("it is there");
    let text = workspace.text(path).expect("it is open");
    let from = find(text, behind, 0);
    let byte = from + find(&text[from..], word, 0);
    workspace
        .hover(path, byte)
        .unwrap_or_else(|| panic!("nothing of {word}"))
        .text
}

#[test]
fn the_section_that_a_line_obeys_is_shown_with_a_link() {
    let text = shown("input.mtp", "c.snd_wnd = s.window;", "snd_wnd");
    assert!(
        text.contains("[RFC9293 3.10.7.4 (fifth, window update)]"),
        "{text}"
    );
    assert!(
        text.contains("(https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4)"),
        "{text}"
    );
}

#[test]
fn hover_shows_the_quotation_of_a_requirement() {
    let text = shown("receive.mtp", "start(c.delayed_ack, ", "DELAYED_ACK");
    assert!(text.contains("[RFC9293 3.8.6.3]"), "{text}");
    assert!(
        text.contains("\n\n> A TCP endpoint SHOULD implement a delayed ACK"),
        "{text}"
    );
    assert!(text.contains("at most 500 ms"), "{text}");
}

#[test]
fn the_comment_beside_a_declaration_is_shown() {
    let text = shown("input.mtp", "c.snd_wl1 < s.seq", "snd_wl1");
    assert!(
        text.contains("sequence and ack number of the last window update"),
        "{text}"
    );
    assert!(text.contains("A field of `tcp_conn`"), "{text}");
}

#[test]
fn hover_shows_units_of_durations_and_sequence_numbers() {
    let text = shown("congestion.mtp", "duration_t srtt;", "srtt");
    assert!(text.contains("In nanoseconds."), "{text}");
    let text = shown("header.mtp", "seq<32> seq, ack;", "ack;");
    assert!(text.contains("Counts modulo 2^32."), "{text}");
    // RFC 9293, section 3.1: the acknowledgement number is the third word of 32 bits.
    assert!(text.contains("bytes 8 to 11"), "{text}");
}

#[test]
fn an_event_shows_the_worst_case_of_its_chain() {
    let text = shown("tcp.mtp", "tcp_seg -> {", "tcp_seg");
    assert!(text.contains("Its chain: at most "), "{text}");
    assert!(text.contains("event tcp_seg : NET_EVENT"), "{text}");
}

#[test]
fn words_of_the_language_show_their_form() {
    let text = "void f(uint24 n) { emit del_ctx(); uint64 m = min(n, 5); }\ndeploy { register_ev_parser(f, connect); }\n";
    let workspace = in_memory(&[("a.mtp", text)]);
    for (word, form) in [
        ("uint24", "An unsigned integer of 24 bits."),
        ("del_ctx", "Removes the keyed context"),
        ("min", "min(a, b)"),
        ("connect", "The application connects."),
        ("register_ev_parser", "What feeds a parser"),
    ] {
        let hover = workspace
            .hover(Path::new("a.mtp"), find(text, word, 0))
            .expect(word);
        assert!(hover.text.contains(form), "{word}: {}", hover.text);
    }
}
