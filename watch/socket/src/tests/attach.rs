//! Attachments at the socket.

use super::*;

const CAP: &str = "void cap(event_t ev, tcp_conn c) {\n    if (c.cc.cwnd > 20000) c.cc.cwnd = 20000;\n}\n\
    attach cap after cc;";

fn attach(name: &str, text: &str) -> Value {
    json!({ "attach": { "source": 0, "name": name, "text": text } })
}

fn detach(name: &str) -> Value {
    json!({ "detach": { "source": 0, "name": name } })
}

/// Returns the name, the subscriber and the first place of each attachment.
fn list(client: &mut Client) -> Vec<(String, String, String)> {
    let answer = ask(client, &json!({ "attachments": {} }));
    let all = answer["attachments"][0]["attached"]
        .as_array()
        .expect("a list")
        .clone();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    all.iter()
        .map(|one| (text(&one["name"]), text(&one["who"]), text(&one["places"][0])))
        .collect()
}

#[test]
fn an_attachment_outlives_its_subscriber() {
    let place = TestServer::new();
    let mut first = place.client("first", 1);
    assert_eq!(
        ask(&mut first, &attach("cap", CAP)),
        json!({ "attached": { "source": 0, "name": "cap" } })
    );
    drop(first);
    let mut second = place.client("second", 1);
    let there = |who: &str, at: &str| [("cap".to_owned(), who.to_owned(), at.to_owned())];
    assert_eq!(list(&mut second), there("first", "cap after cc"));
    ask(&mut second, &attach("cap", &CAP.replace("after", "before")));
    assert_eq!(
        list(&mut second),
        there("second", "cap before cc"),
        "it is replaced"
    );
    assert_eq!(
        ask(&mut second, &detach("cap")),
        json!({ "detached": { "source": 0, "name": "cap" } })
    );
    assert_eq!(list(&mut second), []);
    let acts = [
        ("first", "attached", 1),
        ("second", "attached", 1),
        ("second", "detached", 1),
    ];
    assert_eq!(
        place.acts(),
        acts.map(|(who, act, count)| (who.to_owned(), act, count))
    );
    let audit = ask(&mut second, &json!({ "audit": {} }));
    assert_eq!(
        (&audit["audit"][2]["variable"], &audit["audit"][2]["flow"]),
        (&json!("cap"), &json!("0:ffffffffffffffff"))
    );
}

#[test]
fn a_text_that_is_wrong_is_refused_with_its_place() {
    let place = TestServer::new();
    let mut client = place.client("some", 1);
    for (text, parts) in [
        (
            CAP.replace("after cc", "after cb"),
            &["E0201", "cap.mtp:4:18", "`cb` is unknown"][..],
        ),
        (CAP.replace("20000;", "\"much\";"), &["cap.mtp:2:"]),
        ("context mine { uint64 n; }".to_owned(), &["E0711", "cap.mtp:1:1"]),
        ("{".repeat(30_000), &["cap.mtp:1:"]),
    ] {
        let error = refusal(&mut client, &attach("cap", &text));
        parts
            .iter()
            .for_each(|part| assert!(error.contains(part), "no {part} in {error}"));
        judge(&json!({ "error": error }));
    }
    assert_eq!(
        refusal(&mut client, &detach("cap")),
        "`cap` is not attached; no file is attached"
    );
    assert_eq!(
        refusal(&mut client, &attach("../cap", CAP)),
        "`../cap` is not a valid name: expected 1 to 64 letters, digits, `-`, `_` and `.`"
    );
    let elsewhere = json!({ "attach": { "source": 9, "name": "cap", "text": CAP } });
    assert_eq!(refusal(&mut client, &elsewhere), "the source 9 does not exist");
    assert_eq!(list(&mut client), []);
    let audit = ask(&mut client, &json!({ "audit": {} }));
    let why = audit["audit"][0]["why"].as_str().expect("a reason");
    assert!(
        why.starts_with("[E0201]") && why.len() <= 210 && !why.contains('\n'),
        "{why}"
    );
}

#[test]
fn a_client_without_the_right_cannot_attach() {
    let rules = "[[rule]]\nname = \"may\"\nobserve = [\"*\"]\nattach = true\n[[rule]]\nobserve = [\"*\"]";
    let place = TestServer::with(Rules::parse(rules).expect("rules"));
    let (mut may, mut other) = (place.client("may", 1), place.client("other", 1));
    ask(&mut may, &attach("cap", CAP));
    for request in [attach("cap", "wrong"), detach("cap")] {
        assert_eq!(
            refusal(&mut other, &request),
            "`other` has no right to attach to a program or to detach: an operator can grant it in the rights file"
        );
    }
    assert_eq!(list(&mut other).len(), 1, "it is there still");
    assert!(
        place.acts().contains(&("other".to_owned(), "refused", 2)),
        "{:?}",
        place.acts()
    );
}

/// The check of a text takes a while; other requests and signals do not wait for it.
#[test]
fn other_clients_are_served_during_a_check() {
    let place = TestServer::new();
    let socket = place.socket();
    let busy = std::thread::spawn(move || {
        let mut client = Client::connect(&socket, "busy", 1).expect("it is served");
        for n in 0..20 {
            ask(
                &mut client,
                &attach("cap", &CAP.replace("20000", &format!("{}", 20_000 + n))),
            );
        }
    });
    let mut client = place.client("other", 1);
    let (mut answers, mut slowest) = (0, Duration::ZERO);
    while !busy.is_finished() {
        let begin = Instant::now();
        ask(&mut client, &json!({ "flows": {} }));
        slowest = slowest.max(begin.elapsed());
        answers += 1;
    }
    busy.join().expect("no panic");
    assert!(answers > 40, "{answers} answers, the slowest in {slowest:?}");
}

/// An empty file has no places, and neither has one whose processors are never referred to.
#[test]
fn a_text_without_attachment_points_is_refused() {
    let place = TestServer::new();
    let mut client = place.client("some", 1);
    for text in ["", "// Nothing.\n", "void cap(event_t ev, tcp_conn c) { }\n"] {
        let why = refusal(
            &mut client,
            &json!({ "attach": { "source": 0, "name": "cap", "text": text } }),
        );
        assert!(
            why.contains("cap.mtp attaches no processor: state the place of one"),
            "{text:?}: {why}"
        );
    }
    assert_eq!(
        place
            .bus
            .audit()
            .0
            .iter()
            .map(|entry| entry.act.name())
            .collect::<Vec<_>>(),
        ["refused"; 3][..1]
    );
}

#[test]
fn checker_warnings_are_returned_with_the_answer() {
    let place = TestServer::new();
    let mut client = place.client("some", 1);
    let text = "void cap(event_t ev, tcp_conn c) { int8 unused = 5; }\nattach cap after cc;\n";
    let answer = ask(
        &mut client,
        &json!({ "attach": { "source": 0, "name": "cap", "text": text } }),
    );
    let warnings = answer["attached"]["warnings"].as_str().unwrap_or_default();
    assert!(warnings.contains("`unused` is not used"), "{answer}");
}
