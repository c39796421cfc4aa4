//! The events and variables that a lab's links offer.

use crate::spec::Rules;
use crate::units::{DataSize, Rate, Share, TimeSpan};
use crate::{LOSSES, Link, Statistics};
use hawser_bus::{Access, EventType, Field, Schema, ValueKind, Variable};

/// The unit of shares of frames: a billionth, so that no lease changes a share by rounding.
const BILLION: f64 = 1e9;

/// The events, in the order of [`Event`].
const EVENTS: [(&str, &[&str]); 5] = [
    ("lab.link.up", &[]),
    ("lab.link.down", &[]),
    ("lab.link.changed", &["rate", "delay", "loss", "silent"]),
    ("lab.link.rebound", &[]),
    ("lab.link.lost", &["frames", "cause"]),
];

/// An event's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Event {
    Up,
    Down,
    Changed,
    Rebound,
    Lost,
}

/// The origin of a variable's value.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// A counter of the direction.
    Counted(fn(&Statistics) -> u64),
    /// A rule of the direction, and its conversion from a value.
    Ruled(fn(&Rules) -> u64, fn(u64) -> Rules),
    /// The state of the link, which both directions share: up or down.
    Up,
}

/// The variables: the name after `lab.link.`, the kind, the largest settable value, and the origin.
pub(super) const VARIABLES: [(&str, ValueKind, u64, Of); 13] = [
    ("carrier", ValueKind::Bool, 1, Of::Up),
    (
        "silent",
        ValueKind::Bool,
        1,
        Of::Ruled(silent, |value| Rules { silent: Some(value != 0), ..rules() }),
    ),
    (
        "rate",
        ValueKind::Number,
        u64::MAX,
        Of::Ruled(rate, |value| Rules { rate: Some(Rate(value)), ..rules() }),
    ),
    (
        "delay",
        ValueKind::Duration,
        HOUR,
        Of::Ruled(delay, |value| Rules { delay: Some(TimeSpan(value)), ..rules() }),
    ),
    (
        "jitter",
        ValueKind::Duration,
        HOUR,
        Of::Ruled(jitter, |value| Rules { jitter: Some(TimeSpan(value)), ..rules() }),
    ),
    (
        "loss",
        ValueKind::Number,
        BILLION as u64,
        Of::Ruled(loss, |value| Rules { loss: Some(share(value)), ..rules() }),
    ),
    (
        "queue",
        ValueKind::Number,
        u64::MAX,
        Of::Ruled(queue, |value| Rules { queue: Some(DataSize(value)), ..rules() }),
    ),
    ("sent", ValueKind::Number, 0, Of::Counted(|done| done.sent)),
    (
        "sent_bytes",
        ValueKind::Number,
        0,
        Of::Counted(|done| done.sent_bytes),
    ),
    (
        "delivered",
        ValueKind::Number,
        0,
        Of::Counted(|done| done.delivered),
    ),
    (
        "delivered_bytes",
        ValueKind::Number,
        0,
        Of::Counted(|done| done.delivered_bytes),
    ),
    (
        "queued_bytes",
        ValueKind::Number,
        0,
        Of::Counted(|done| done.queued_bytes),
    ),
    (
        "dropped",
        ValueKind::Number,
        0,
        Of::Counted(|done| done.lost.values().sum()),
    ),
];

/// Descriptions of events, fields and variables, for people.
const ABOUT: [(&str, &str); 24] = [
    ("up", "the link was restored"),
    ("down", "the link was cut"),
    ("changed", "the direction follows other rules from now on"),
    ("changed.rate", "bits per second, 0: no limit"),
    ("changed.delay", "delay of a frame"),
    ("changed.loss", "share of frames lost, billionths"),
    ("changed.silent", "whether all frames are lost"),
    ("rebound", "the translator forgot its bindings"),
    ("lost", "frames were lost"),
    ("lost.frames", "number of frames"),
    ("lost.cause", "cause of the loss"),
    ("carrier", "whether the link is up"),
    ("silent", "whether all frames of this direction are lost"),
    ("rate", "bits per second, 0: no limit"),
    ("delay", "delay of a frame"),
    ("jitter", "largest addition to the delay"),
    ("loss", "share of frames lost, billionths"),
    ("queue", "maximum that may wait, bytes, 0: no limit"),
    ("sent", "frames that came in"),
    ("sent_bytes", "bytes that came in"),
    ("delivered", "frames that came out"),
    ("delivered_bytes", "bytes that came out"),
    ("queued_bytes", "bytes that wait"),
    ("dropped", "frames lost, for any reason"),
];

/// A limit in nanoseconds that is above any reasonable delay.
const HOUR: u64 = 3_600_000_000_000;

fn rules() -> Rules {
    Rules::default()
}

fn share(billionths: u64) -> Share {
    Share(billionths as f64 / BILLION)
}

fn silent(rules: &Rules) -> u64 {
    rules.silent.unwrap_or(false).into()
}

fn rate(rules: &Rules) -> u64 {
    rules.rate.map_or(0, |rate| rate.0)
}

fn delay(rules: &Rules) -> u64 {
    rules.delay.map_or(0, |delay| delay.0)
}

fn jitter(rules: &Rules) -> u64 {
    rules.jitter.map_or(0, |jitter| jitter.0)
}

fn loss(rules: &Rules) -> u64 {
    rules.loss.map_or(0, |share| (share.0 * BILLION).round() as u64)
}

fn queue(rules: &Rules) -> u64 {
    rules.queue.map_or(0, |bytes| bytes.0)
}

/// Returns the schema of a lab's links.
pub(super) fn schema() -> Schema {
    let causes = || {
        ValueKind::Enum(
            (0..)
                .zip(LOSSES.map(str::to_owned))
                .chain([(OTHER, "other".into())])
                .collect(),
        )
    };
    let field = |name: &&str| Field {
        name: (*name).to_owned(),
        kind: match *name {
            "delay" => ValueKind::Duration,
            "silent" => ValueKind::Bool,
            "cause" => causes(),
            _ => ValueKind::Number,
        },
    };
    let event = |(name, fields): (&str, &[&str])| EventType {
        name: name.to_owned(),
        fields: fields.iter().map(field).collect(),
    };
    let variable = |(name, kind, max, of): (&str, ValueKind, u64, Of)| Variable {
        name: format!("lab.link.{name}"),
        kind,
        access: match of {
            Of::Counted(_) => Access::Observable,
            Of::Ruled(..) | Of::Up => Access::Modifiable { min: 0, max },
        },
    };
    let about = ABOUT.map(|(name, text)| (format!("lab.link.{name}"), text.to_owned()));
    Schema::new("lab", EVENTS.map(event).into(), VARIABLES.map(variable).into())
        .expect("the tables are within a provider's bounds")
        .described(about)
}

/// The number of causes that have no name of their own.
const OTHER: u64 = LOSSES.len() as u64;

/// Returns the number of a cause of loss.
pub(super) fn cause(name: &str) -> u64 {
    LOSSES
        .iter()
        .position(|known| *known == name)
        .map_or(OTHER, |at| at as u64)
}

/// Returns the fields of [`Event::Changed`] for new rules.
pub(super) fn new_rules(rules: &Rules) -> [u64; 4] {
    [rate(rules), delay(rules), loss(rules), silent(rules)]
}

/// Takes a link down or brings it up.
pub(super) fn set_up(link: Link<'_>, up: bool) -> Result<(), crate::LabError> {
    if up { link.up() } else { link.down() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_reads_back_as_set() {
        assert_eq!(schema().events().len(), EVENTS.len());
        assert_eq!(schema().undescribed(), [""; 0]);
        assert_eq!(EVENTS[Event::Lost as usize].0, "lab.link.lost");
        for (name, _, max, of) in VARIABLES {
            let Of::Ruled(read, write) = of else { continue };
            for value in [0, 1, max.min(123_456)] {
                assert_eq!(read(&write(value)), value, "{name}");
            }
        }
        assert_eq!((cause("nat"), cause("overrun"), cause("gremlins")), (0, 11, 12));
    }
}
