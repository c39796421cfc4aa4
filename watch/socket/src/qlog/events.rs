//! The mapping of signals to the events of qlog.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};

use super::milliseconds;
use crate::record::{FlowRecord, Named, Signal};

/// The result of mapping a signal.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) name: String,
    pub(super) data: Value,
}

fn mapped(name: &str, data: Value) -> Mapped {
    Mapped { name: name.to_owned(), data }
}

/// Makes the event `connection_started`, if both addresses are known.
pub(super) fn started(flow: &FlowRecord) -> Option<Value> {
    let address = |text: &Option<String>| text.as_deref()?.parse::<SocketAddr>().ok();
    let (local, remote) = (address(&flow.local)?, address(&flow.remote)?);
    Some(json!({
        "ip_version": if local.is_ipv4() { "v4" } else { "v6" },
        "src_ip": local.ip().to_string(),
        "dst_ip": remote.ip().to_string(),
        "src_port": local.port(),
        "dst_port": remote.port(),
        "protocol": flow.provider,
    }))
}

/// Maps a signal to standard events, or to one of our own if there is none. `congestion` is the last written
/// state of the congestion controller.
pub(super) fn map(signal: &Signal, kinds: &[Named], congestion: &mut Option<&'static str>) -> Vec<Mapped> {
    let field = |name: &str| signal.fields.get(name).copied().unwrap_or(0);
    let mut enters = |state| congestion_state(congestion, state);
    match signal.short() {
        "established" => {
            let mut out: Vec<_> = enters("slow_start").into_iter().collect();
            out.extend(latest_rtt(field("rtt"), None));
            out
        }
        "acked" => {
            let left = field("flight").saturating_sub(field("bytes"));
            latest_rtt(field("rtt"), Some(left)).into_iter().collect()
        }
        "sent" => vec![mapped(
            "transport:packet_sent",
            packet(field("at"), field("bytes")),
        )],
        "retransmitted" => {
            let frames = [stream(field("at"), field("bytes"))];
            vec![mapped(
                "recovery:marked_for_retransmit",
                json!({ "frames": frames }),
            )]
        }
        "segment_lost" => vec![lost(field("at"), field("by_timeout") != 0)],
        "timeout" => {
            let data = json!({ "event_type": "expired", "timer_type": "pto" });
            let timer = mapped("recovery:loss_timer_updated", data);
            [Some(timer), enters("slow_start")]
                .into_iter()
                .flatten()
                .collect()
        }
        "recovery_began" => enters("recovery").into_iter().collect(),
        "recovery_ended" | "avoidance_began" => enters("congestion_avoidance").into_iter().collect(),
        "closed" => vec![mapped("connectivity:connection_closed", json!({}))],
        "state_changed" => vec![state(signal, kinds).unwrap_or_else(|| own(signal, kinds))],
        _ => vec![own(signal, kinds)],
    }
}

fn congestion_state(last: &mut Option<&'static str>, new: &'static str) -> Option<Mapped> {
    let old = last.replace(new);
    if old == Some(new) {
        return None;
    }
    let data = match old {
        Some(old) => json!({ "old": old, "new": new }),
        None => json!({ "new": new }),
    };
    Some(mapped("recovery:congestion_state_updated", data))
}

fn latest_rtt(rtt: u64, flight: Option<u64>) -> Option<Mapped> {
    let mut data = Map::new();
    if rtt > 0 {
        data.insert("latest_rtt".into(), milliseconds(rtt).into());
    }
    if let Some(flight) = flight {
        data.insert("bytes_in_flight".into(), flight.into());
    }
    (!data.is_empty()).then(|| mapped("recovery:metrics_updated", Value::Object(data)))
}

/// TCP has no packet numbers: the sequence number of the first byte stands for one.
fn packet(at: u64, bytes: u64) -> Value {
    json!({ "header": header(at), "frames": [stream(at, bytes)], "raw": { "payload_length": bytes } })
}

fn header(at: u64) -> Value {
    json!({ "packet_type": "unknown", "packet_number": at })
}

fn stream(at: u64, bytes: u64) -> Value {
    json!({ "frame_type": "stream", "stream_id": 0, "offset": at, "length": bytes })
}

fn lost(at: u64, by_timeout: bool) -> Mapped {
    let mut data = json!({ "header": header(at) });
    if by_timeout {
        data["trigger"] = "pto_expired".into();
    }
    mapped("recovery:packet_lost", data)
}

/// Maps a connection's states to the names of RFC 9293; qlog itself has only those of QUIC.
fn state(signal: &Signal, kinds: &[Named]) -> Option<Mapped> {
    let of = |name: &str| {
        let kind = kinds.iter().find(|kind| kind.name == name)?;
        standard_state(kind.label(*signal.fields.get(name)?)?)
    };
    let new = of("to")?;
    let data = match of("from") {
        Some(old) => json!({ "old": old, "new": new }),
        None => json!({ "new": new }),
    };
    Some(mapped("connectivity:connection_state_updated", data))
}

fn standard_state(name: &str) -> Option<&'static str> {
    match name {
        "SYN_SENT" => Some("attempted"),
        "SYN_RECEIVED" => Some("handshake_started"),
        "ESTABLISHED" => Some("handshake_complete"),
        "FIN_WAIT_1" | "FIN_WAIT_2" | "CLOSE_WAIT" | "CLOSING" | "LAST_ACK" => Some("closing"),
        "TIME_WAIT" => Some("draining"),
        _ => None,
    }
}

/// Makes an event of our own: it has the signal's fields unchanged, times in nanoseconds, and numbers of
/// enums by name.
fn own(signal: &Signal, kinds: &[Named]) -> Mapped {
    let named = |(name, value): (&String, &u64)| {
        let label = kinds
            .iter()
            .find(|kind| kind.name == *name)
            .and_then(|kind| kind.label(*value));
        (
            name.clone(),
            label.map_or_else(|| Value::from(*value), Value::from),
        )
    };
    let data: Map<String, Value> = signal.fields.iter().map(named).collect();
    Mapped { name: format!("hawser:{}", signal.event), data: Value::Object(data) }
}
