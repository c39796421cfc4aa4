//! Names and fields, checked against `docs/schemas/qlog.json`, which follows the drafts.

use super::*;
use crate::record::parse;

const SCHEMA: &str = include_str!("../../../../docs/schemas/qlog.json");

/// A short transfer with a loss, a timeout and a modification.
const LINES: &[&str] = &[
    r#"{"at":0,"header":{"schema":"hawser-watch/1","process":7,"began":1700000000000,"pattern":"*","interval":0}}"#,
    r#"{"at":1,"offers":[{"source":0,"provider":"tcp","variables":[],"events":[{"name":"tcp.state_changed","fields":[
        {"name":"from","kind":"enum","values":[{"value":2,"name":"SYN_RECEIVED"},{"value":3,"name":"ESTABLISHED"}]},
        {"name":"to","kind":"enum","values":[{"value":2,"name":"SYN_RECEIVED"},{"value":3,"name":"ESTABLISHED"}]}]}]}]}"#,
    r#"{"at":2,"flows":[{"flow":"0:1","provider":"tcp","kind":"conn","local":"10.9.0.2:80","remote":"10.9.0.1:5000","label":""}]}"#,
    r#"{"at":1000000,"signal":{"event":"tcp.established","flow":"0:1","time":51000000,"fields":{"rtt":40000000}}}"#,
    r#"{"at":1000000,"signal":{"event":"tcp.state_changed","flow":"0:1","time":51000000,"fields":{"from":2,"to":3}}}"#,
    r#"{"at":2000000,"signal":{"event":"tcp.sent","flow":"0:1","time":52000000,"fields":{"at":1000,"bytes":500}}}"#,
    r#"{"at":3000000,"sample":{"flow":"0:1","time":52500000,"values":{"tcp.conn.cc.cwnd":14600,"tcp.conn.srtt":40500000,
        "tcp.conn.rttvar":1500000,"tcp.conn.cc.ssthresh":18446744073709551615,"tcp.conn.state":3}}}"#,
    r#"{"at":3000000,"sample":{"flow":"0:1","time":52600000,"values":{"tcp.conn.cc.cwnd":14600,"tcp.conn.srtt":41000000}}}"#,
    r#"{"at":4000000,"signal":{"event":"tcp.acked","flow":"0:1","time":53000000,"fields":{"bytes":500,"rtt":0,"flight":700}}}"#,
    r#"{"at":4000000,"signal":{"event":"tcp.recovery_began","flow":"0:1","time":53000000,"fields":{"flight":200}}}"#,
    r#"{"at":4000000,"signal":{"event":"tcp.segment_lost","flow":"0:1","time":53000000,"fields":{"at":1500,"by_timeout":0}}}"#,
    r#"{"at":4000000,"signal":{"event":"tcp.retransmitted","flow":"0:1","time":53000000,"fields":{"at":1500,"bytes":200}}}"#,
    r#"{"at":5000000,"signal":{"event":"tcp.timeout","flow":"0:1","time":54000000,"fields":{"again":1}}}"#,
    r#"{"at":5000000,"signal":{"event":"tcp.segment_lost","flow":"0:1","time":54000000,"fields":{"at":1500,"by_timeout":1}}}"#,
    r#"{"at":5000000,"signal":{"event":"tcp.peer_window_closed","flow":"0:1","time":54500000,"fields":{"at":1700}}}"#,
    r#"{"at":6000000,"audit":[{"first":54600000,"last":54600000,"count":1,"who":"me","flow":"0:1","variable":"tcp.conn.cc.cwnd","act":"set","value":9}]}"#,
];

fn events() -> Vec<QlogEvent> {
    let mut exporter = Exporter::default();
    LINES
        .iter()
        .flat_map(|line| exporter.line(&parse(line).expect("a line")))
        .collect()
}

fn header() -> Header {
    crate::record::parse_header(LINES[0]).expect("a header")
}

fn assert_valid(value: &Value) {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<_> = validator
        .iter_errors(value)
        .map(|error| error.to_string())
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}\n{value:#}");
}

#[test]
fn signals_have_the_drafts_names() {
    let names: Vec<_> = events().iter().map(|event| event.name.clone()).collect();
    assert_eq!(
        names,
        [
            "connectivity:connection_started",
            "recovery:congestion_state_updated",
            "recovery:metrics_updated",
            "connectivity:connection_state_updated",
            "transport:packet_sent",
            "recovery:metrics_updated",
            "recovery:metrics_updated",
            "recovery:metrics_updated",
            "recovery:congestion_state_updated",
            "recovery:packet_lost",
            "recovery:marked_for_retransmit",
            "recovery:loss_timer_updated",
            "recovery:congestion_state_updated",
            "recovery:packet_lost",
            "hawser:tcp.peer_window_closed",
            "hawser:modification",
        ]
    );
}

#[test]
fn values_are_in_the_drafts_units() {
    let events = events();
    let data = |at: usize| events[at].data.clone();
    assert_eq!(data(2), json!({ "latest_rtt": 40.0 }));
    assert_eq!(
        data(3),
        json!({ "old": "handshake_started", "new": "handshake_complete" })
    );
    // There is no threshold yet, for which the variable has its largest value.
    assert_eq!(
        data(5),
        json!({ "congestion_window": 14600, "smoothed_rtt": 40.5, "rtt_variance": 1.5 })
    );
    assert_eq!(
        data(6),
        json!({ "smoothed_rtt": 41.0 }),
        "what did not change is not written again"
    );
    assert_eq!(data(7), json!({ "bytes_in_flight": 200 }));
    assert_eq!(data(8), json!({ "old": "slow_start", "new": "recovery" }));
    assert_eq!(events[4].time, 2_000_000, "since listening began");
}

#[test]
fn documents_follow_the_schema() {
    let mut document = Document::new(header());
    events().into_iter().rev().for_each(|event| document.push(event));
    let document = document.finish();
    assert_valid(&document);
    let traces = document["traces"].as_array().expect("traces");
    assert_eq!(traces.len(), 1);
    assert_eq!(traces[0]["common_fields"]["group_id"], "0:1");
    let events = traces[0]["events"].as_array().expect("events");
    let times: Vec<_> = events
        .iter()
        .map(|e| e["time"].as_f64().expect("a time"))
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    // The fifth event is at 2 ms after the recording began.
    assert_eq!(times[4], 1_700_000_000_002.0, "{times:?}");
}

#[test]
fn sequences_follow_the_schema() {
    let mut sequence = Sequence::new(header());
    assert_valid(&sequence.first());
    let mut before = 0.0;
    for event in events().iter().rev() {
        let record = sequence.event(event);
        assert_valid(&record);
        let time = record["time"].as_f64().expect("a time");
        assert!(time >= before, "times do not go back");
        before = time;
    }
}

#[test]
fn the_qlog_schema_rejects_unknown_values() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let event = |name: &str, data: Value| json!({ "time": 1, "name": name, "data": data, "group_id": "0:1" });
    assert!(validator.is_valid(&event("recovery:metrics_updated", json!({ "ssthresh": 1 }))));
    assert!(!validator.is_valid(&event("recovery:metrics_updated", json!({ "cwnd": 1 }))));
    assert!(!validator.is_valid(&event("recovery:metrics_updated", json!({}))));
    assert!(!validator.is_valid(&event("recovery:lost", json!({}))));
    assert!(!validator.is_valid(&event(
        "recovery:congestion_state_updated",
        json!({ "new": "fast" })
    )));
}
