//! `docs/interact.md` is correct: each conversation in it takes place as written there.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::hostile::ACKED;

const BOOK: &str = include_str!("../../../../docs/interact.md");

#[test]
fn conversations_take_place_as_they_are_written() {
    let conversations: Vec<&str> = BOOK
        .split("```conversation\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(conversations.len() >= 7, "{}", conversations.len());
    conversations.into_iter().for_each(take_place);
}

/// Every keyword of the protocol is in the document.
#[test]
fn every_request_is_documented() {
    let error = crate::parse(br#"{"dance":{}}"#)
        .expect_err("there is no such request")
        .to_string();
    let list = error
        .split("expected one of ")
        .nth(1)
        .and_then(|rest| rest.split("; for instance").next());
    let words: Vec<&str> = list.expect("a list").split('`').skip(1).step_by(2).collect();
    assert!(words.len() >= 14, "{error}");
    for word in words {
        assert!(BOOK.contains(&format!("**{word}**")), "{word}");
        assert!(BOOK.contains(&format!("> {{\"{word}\":")), "{word}");
    }
}

fn take_place(conversation: &str) {
    let place = TestServer::new();
    let mut stream = UnixStream::connect(place.socket()).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a time");
    let mut answers = BufReader::new(stream.try_clone().expect("a file")).lines();
    for line in conversation.lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            (">", request) => {
                judge(&serde_json::from_str(request).expect("JSON"));
                stream
                    .write_all(format!("{request}\n").as_bytes())
                    .expect("it reads");
            }
            ("<", written) => {
                let answer = answers.next().expect("an answer").expect("in time");
                let answer: Value = serde_json::from_str(&answer).expect("JSON");
                judge(&answer);
                let written: Value = serde_json::from_str(written).expect("JSON");
                assert!(
                    is_like(&written, &answer),
                    "written:  {written}\nanswered: {answer}"
                );
            }
            ("!", event) => {
                let words: Vec<u64> = event.split(' ').filter_map(|word| word.parse().ok()).collect();
                place.provider.publish(words[0], ACKED, &words[1..]);
            }
            ("~", _) => soon("the log has it", || place.bus.audit().0.len() == 4),
            _ => panic!("what is `{line}`?"),
        }
    }
}

/// Compares two values, where `…` stands for any value.
fn is_like(written: &Value, answer: &Value) -> bool {
    match (written, answer) {
        (Value::String(any), _) if any == "…" => true,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_like(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_like(a, b)))
        }
        _ => written == answer,
    }
}
