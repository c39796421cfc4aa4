//! Reports of files that do not pass: the place, the expected and the actual behaviour, and the difference.

use hawser_testkit::step::parse;

use super::steps;

const BEGIN: &str = "\
program stop-and-wait.mtp
param RTO = 100ms
every < SW{sport: 7001, dport: 40000}
connect 7001 from 40000
send 100
";

/// Returns the explanation of a file whose failure follows a common beginning.
fn failure(rest: &str) -> String {
    let report = steps(&format!("{BEGIN}{rest}"));
    assert!(!report.passed(), "{rest}");
    report.explain("f.steps")
}

#[test]
fn a_differing_packet_is_shown_beside_the_expected_one() {
    let text = failure("> SW{kind: DATA, seq: 4, data: 100}\n");
    let expected = "\
f.steps:6:1: at 0s
  6 | > SW{kind: DATA, seq: 4, data: 100}
    | ^
  expected: > SW{kind: DATA, seq: 4, data: 100}
  happened: > SW{sport: 40000, dport: 7001, kind: DATA, zero: 0, seq: 0, data: 100@0} at 0s
            seq is 0, not 4
            sent by ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("stop-and-wait.mtp:59\n  until then:\n"), "{text}");
}

#[test]
fn each_kind_of_difference_is_named() {
    for (rest, needle) in [
        ("> SW{kind: ACK}", "kind is DATA, not ACK"),
        ("> SW{data: 99}", "data is 100@0, not 99"),
        ("> SW{data: 100@4}", "data is 100@0, not 100@4"),
        ("> SW{data: \"x\"}", "data is 100@0, not \"x\""),
        ("> ip{ecn: 3} SW{}", "ip.ecn is 0, not 3"),
        ("> SW{}\n+50ms > SW{}", "no packet left until 50ms"),
        ("> SW{}\n+150ms > SW{}", "it left at 100ms, not at 150ms"),
        ("> SW{}\n> nothing until 1s", "no packet until 1s"),
        (
            "+50ms close",
            "happened: > SW{sport: 40000, dport: 7001, kind: DATA",
        ),
        (
            "> SW{}\nassert conn.flight == 99 && conn.seq.x == 1",
            "has no member `seq`",
        ),
        (
            "> SW{}\nassert conn.flight == 99 || !conn.rtx.armed",
            "conn.flight is 100, conn.rtx.armed",
        ),
        ("> SW{}\nassert conn.flight", "7:8: this is not a condition"),
        ("> SW{}\nnotify EOF", "happened: notify CONNECTED"),
        ("> SW{}\nrecv 5", "happened: recv 0"),
        ("> SW{}\ngone", "it is there"),
        ("> SW{}\nb: accept", "no handle is named `listener`"),
        ("> SW{}\nb: send 1", "no handle is named `b`"),
        (
            "> SW{}\nother: connect 7001 from 40000",
            "it failed with EADDRINUSE",
        ),
        ("> SW{}\nlisten 80 fails EADDRINUSE", "it did not fail"),
        (
            "> SW{}\nlisten 80 fails EVERYTHING",
            "`EVERYTHING` is not an error",
        ),
        ("< SW{kind: AC}", "`AC` is not a kind_t: DATA, ACK, FIN"),
        ("< SW{seq: 4294967296}", "`4294967296` is not a number of 32 bits"),
        ("< SW{sequence: 5}", "`SW` has no field `sequence`"),
        ("< SV{seq: 5}", "the program has no blueprint `SV`"),
        ("< SW{seq: wrong}", "`seq` is not computed"),
        ("< SW{seq: $iss}", "`$iss` has no value yet"),
        ("< SW{data: 70000}", "longer than an IP packet can be"),
        ("< SW{seq: 10ms}", "is not a number of 32 bits"),
        ("0s > SW{}\n+1ms close\n0.5ms close", "this time is in the past"),
    ] {
        let text = failure(rest);
        assert!(text.contains(needle), "{rest}\n{text}");
    }
}

#[test]
fn syntax_errors_are_reported_with_their_place() {
    for (line, place, needle) in [
        ("sned 5", "2:1", "`sned` begins no step"),
        ("+5 close", "2:1", "`5` is no time"),
        ("< SW", "2:3", "a packet is written as its blueprint with fields"),
        ("< SW{seq 5}", "2:6", "expected a field's name and `:`"),
        ("< SW{seq: 5, seq: 6}", "2:14", "the field `seq` occurs twice"),
        ("< SW{seq: }", "2:11", "expected a value"),
        ("< SW{seq: 5", "2:12", "expected `,` or `}`"),
        ("< SW{seq: 5} now", "2:14", "unexpected `"),
        ("> nothing", "2:10", "expected `for` or `until`"),
        ("> 0 x SW{}", "2:3", "the number of packets"),
        ("send \"a", "2:6", "the text has no end"),
        ("assert", "2:7", "expected a condition"),
        ("notify HELLO", "2:1", "`HELLO` is no notice"),
        ("listen 0", "2:8", "`0` is not a port"),
        ("connect here", "2:9", "`here` is no port"),
        ("every SW{}", "2:7", "expected `<` or `>`"),
    ] {
        let error = parse(&format!("program tcp\n{line}\n")).expect_err(line);
        assert_eq!(error.place.to_string(), place, "{line}: {error}");
        assert!(error.to_string().contains(needle), "{line}: {error}");
    }
}
