//! The right edges of windows among the numbers of packets, as in a time–sequence diagram.
//!
//! They are found by the names of context fields in RFC 9293 and RFC 5681, whatever the program. `cwnd`,
//! `window` and `snd_wnd` lie above `una` or `snd_una`; `edge` and `snd_edge` are edges themselves. Windows
//! that do not fit the numbers of the packets are not drawn.

use std::collections::BTreeMap;

use crate::drawing::picture::{Field, Packet, Picture, Window};
use crate::drawing::series::Series;

/// Names of numbers that count payload. The first one that the packets have is drawn.
const NUMBERS: [&str; 4] = ["seq", "packet_number", "number", "offset"];
const BASES: [&str; 2] = ["una", "snd_una"];
const WIDTHS: [&str; 3] = ["cwnd", "window", "snd_wnd"];
const EDGES: [&str; 2] = ["edge", "snd_edge"];
/// Initial numbers above this are random. They are drawn as 0.
const LARGE: u64 = 1 << 24;

/// Returns the packet number that is drawn by default, as an index into the names.
pub(crate) fn number(picture: &Picture) -> Option<usize> {
    let place = |name: &&str| picture.names.iter().position(|known| known == name);
    NUMBERS.iter().find_map(place)
}

impl Picture {
    /// Returns a flow's packets with one of their numbers. A large initial number counts as 0, separately for
    /// each sender. A packet without payload whose number exceeds all payload carries a number of the other
    /// end, and is omitted.
    #[must_use]
    pub fn numbers(&self, flow: usize, name: usize) -> Vec<(&Packet, u64)> {
        let mut firsts = BTreeMap::new();
        let of_flow = self.packets.iter().filter(|packet| packet.flow == Some(flow));
        let numbered = of_flow.filter_map(|packet| {
            let value = packet.number(name)?;
            let first = *firsts.entry(packet.from).or_insert(first_of(value));
            Some((packet, since(first, value)))
        });
        let mut numbered: Vec<_> = numbered.collect();
        let carrying = numbered.iter().filter(|(packet, _)| packet.payload > 0);
        let ends = carrying.map(|(packet, value)| value + packet.payload as u64);
        if let Some(highest) = ends.max() {
            numbered.retain(|(_, value)| *value <= highest + 1);
        }
        numbered
    }
}

fn first_of(value: u64) -> u64 {
    if value > LARGE { value } else { 0 }
}

/// Returns the distance of a number from an initial one. Numbers on the wire wrap at 32 bits, and those of a
/// context do not.
fn since(first: u64, value: u64) -> u64 {
    if first > 0 {
        u64::from((value as u32).wrapping_sub(first as u32))
    } else {
        value
    }
}

/// Returns whether a field has a number yet.
fn is_known(shift: u64, value: u64) -> bool {
    shift == 0 || value > 0
}

/// Returns the windows of all flows.
pub(crate) fn windows(picture: &Picture) -> Vec<Window> {
    let Some(number) = picture.number else {
        return Vec::new();
    };
    let flows = picture.flows.iter().enumerate();
    let senders = flows.flat_map(|(flow, of)| of.hosts.map(|host| (flow, host)));
    senders
        .flat_map(|(flow, host)| of_sender(picture, number, flow, host))
        .collect()
}

fn of_sender(picture: &Picture, number: usize, flow: usize, host: usize) -> Vec<Window> {
    let Some(sent) = SentData::from_picture(picture, number, flow, host) else {
        return Vec::new();
    };
    let mut contexts: BTreeMap<&str, Vec<&Field>> = BTreeMap::new();
    let mine = |field: &&Field| field.host == host && field.flow == Some(flow);
    for field in picture.fields.iter().filter(mine) {
        contexts.entry(&field.context).or_default().push(field);
    }
    let mut windows = Vec::new();
    for fields in contexts.values() {
        let called = |names: &[&str]| {
            let is_one = |field: &&&Field| names.contains(&last_part(&field.name));
            fields.iter().filter(is_one).copied().collect::<Vec<_>>()
        };
        let Some(base) = called(&BASES).first().copied() else {
            continue;
        };
        let Some(shift) = sent.fits(base) else { continue };
        let edges = called(&EDGES).into_iter().map(|edge| {
            let points = edge.points.points().iter();
            let known = points.filter(|(_, value)| is_known(shift, *value));
            (
                edge.name.clone(),
                known.map(|(at, value)| (*at, since(shift, *value))).collect(),
            )
        });
        let widths = called(&WIDTHS).into_iter().map(|width| {
            let name = format!("{} above {}", width.name, base.name);
            (name, above(base, shift, width, sent.unit(width)))
        });
        for (name, points) in widths.chain(edges) {
            windows.push(Window { host, flow, name, points: series(points) });
        }
    }
    windows
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn series(points: Vec<(u64, u64)>) -> Series {
    let mut series = Series::default();
    points.into_iter().for_each(|(at, value)| series.push(at, value));
    series
}

/// Returns the sum of both fields over time.
fn above(base: &Field, shift: u64, width: &Field, unit: u64) -> Vec<(u64, u64)> {
    let lefts = base
        .points
        .points()
        .iter()
        .map(|(at, value)| (*at, Some(*value), None));
    let widths = width
        .points
        .points()
        .iter()
        .map(|(at, value)| (*at, None, Some(*value)));
    let mut changes: Vec<_> = lefts.chain(widths).collect();
    changes.sort_by_key(|(at, ..)| *at);
    let (mut left, mut wide) = (None, None);
    let mut edges = Vec::new();
    for (at, to_left, to_wide) in changes {
        (left, wide) = (to_left.or(left), to_wide.or(wide));
        if let (Some(left), Some(wide)) = (left, wide)
            && is_known(shift, left)
        {
            edges.push((at, since(shift, left).saturating_add(wide.saturating_mul(unit))));
        }
    }
    edges
}

/// The data of a flow that a host sent.
struct SentData {
    /// The initial number, if it is random; otherwise 0.
    first: u64,
    lowest: u64,
    /// The end of the sent data, by time.
    highest: Vec<(u64, u64)>,
    /// The largest payload.
    payload: u64,
}

impl SentData {
    /// Returns `None` if the host sent no payload.
    fn from_picture(picture: &Picture, number: usize, flow: usize, host: usize) -> Option<SentData> {
        let mut sent = SentData { first: 0, lowest: u64::MAX, highest: Vec::new(), payload: 0 };
        let numbers = picture.numbers(flow, number).into_iter();
        let mut mine = numbers.filter(|(packet, _)| packet.from == host).peekable();
        sent.first = first_of(mine.peek()?.0.number(number)?);
        for (packet, value) in mine.filter(|(packet, _)| packet.payload > 0) {
            let payload = packet.payload as u64;
            let before = sent.highest.last().map_or(0, |(_, end)| *end);
            sent.highest.push((packet.at_ns, before.max(value + payload)));
            (sent.lowest, sent.payload) = (sent.lowest.min(value), sent.payload.max(payload));
        }
        (sent.payload > 0).then_some(sent)
    }

    /// Returns the offset between a field and the drawn numbers, either 0 or the initial number. Returns
    /// `None` for a field that would acknowledge unsent data.
    fn fits(&self, base: &Field) -> Option<u64> {
        let points = base.points.points();
        let fits = |shift: &u64| {
            let known = points.iter().filter(|(_, value)| *value > 0);
            let mut values = known.map(|(at, value)| (*at, since(*shift, *value))).peekable();
            let is_low = values.peek().is_some_and(|(_, value)| *value + 1 >= self.lowest);
            is_low && values.all(|(at, value)| value <= self.before(at))
        };
        [self.first, 0].into_iter().find(fits)
    }

    /// Returns the highest number that may be acknowledged by then: all sent data, and the end of the stream,
    /// which may have its own number.
    fn before(&self, at: u64) -> u64 {
        let sent = self.highest.partition_point(|(sent_at, _)| *sent_at <= at);
        1 + sent.checked_sub(1).map_or(0, |last| self.highest[last].1)
    }

    /// Returns the unit of a window. A window that is never as wide as a packet's payload counts packets.
    fn unit(&self, width: &Field) -> u64 {
        let widest = width.points.points().iter().map(|(_, value)| *value).max();
        if widest.unwrap_or(0) < self.payload {
            self.payload
        } else {
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::picture::DrawnFlow;

    fn field(name: &str, points: &[(u64, u64)]) -> Field {
        Field {
            host: 0,
            flow: Some(0),
            context: "conn".to_owned(),
            name: name.to_owned(),
            unit: "number",
            points: series(points.to_vec()),
        }
    }

    /// Creates a run in which host 0 sends packets with these numbers and 100 bytes each, one every 10 ns.
    fn run(numbers: &[u64], fields: Vec<Field>) -> Picture {
        let packet = |(place, number): (usize, &u64)| Packet {
            number: place as u64 + 1,
            at_ns: place as u64 * 10,
            from: 0,
            to: 1,
            flow: Some(0),
            fate: "delivered",
            end_ns: place as u64 * 10 + 5,
            line: None,
            blueprint: "P".to_owned(),
            text: String::new(),
            numbers: vec![(0, *number)],
            payload: 100,
        };
        let flow = DrawnFlow { name: "bulk".to_owned(), hosts: [0, 1] };
        Picture {
            hosts: vec!["a".to_owned(), "b".to_owned()],
            flows: vec![flow],
            names: vec!["number".to_owned()],
            number: Some(0),
            packets: numbers.iter().enumerate().map(packet).collect(),
            fields,
            ..Picture::default()
        }
    }

    fn edges(picture: &Picture) -> Vec<(String, Vec<(u64, u64)>)> {
        let windows = windows(picture).into_iter();
        windows
            .map(|window| (window.name, window.points.points().to_vec()))
            .collect()
    }

    #[test]
    fn an_edge_is_the_acknowledged_position_plus_the_window() {
        let una = field("una", &[(6, 0), (7, 100), (17, 200)]);
        let cwnd = field("cc.cwnd", &[(6, 300), (17, 400)]);
        let expected = vec![(6, 300), (7, 400), (17, 600)];
        assert_eq!(
            edges(&run(&[0, 100], vec![una, cwnd])),
            [("cc.cwnd above una".to_owned(), expected)]
        );
    }

    #[test]
    fn a_window_below_one_payload_counts_packets() {
        let una = field("una", &[(6, 0), (7, 100)]);
        let window = field("window", &[(6, 2), (7, 3)]);
        assert_eq!(edges(&run(&[0], vec![una, window]))[0].1, [(6, 200), (7, 400)]);
    }

    /// Numbers on the wire wrap at 32 bits, and those of a context do not.
    #[test]
    fn a_random_first_number_is_taken_off() {
        let first = u64::from(u32::MAX) - 49;
        let una = field(
            "snd_una",
            &[(3, 0), (6, first), (7, first + 100), (17, first + 200)],
        );
        let window = field("snd_wnd", &[(2, 1_000)]);
        assert_eq!(
            edges(&run(&[first, 50], vec![una, window]))[0].1,
            [(6, 1_000), (7, 1_100), (17, 1_200)]
        );
        // No offset is needed for a context that counts from 0.
        let (una, edge) = (field("una", &[(7, 100)]), field("edge", &[(7, 700)]));
        assert_eq!(
            edges(&run(&[first, 50], vec![una, edge])),
            [("edge".to_owned(), vec![(7, 700)])]
        );
    }

    #[test]
    fn inconsistent_values_yield_no_window() {
        let cwnd = || field("cwnd", &[(2, 1_000)]);
        // Data that is acknowledged before it was sent, and a number that belongs to no drawn data.
        for una in [field("una", &[(7, 150)]), field("una", &[(7, 5_000)])] {
            assert_eq!(edges(&run(&[0, 100], vec![una, cwnd()])), []);
        }
        assert_eq!(edges(&run(&[5_000], vec![field("una", &[(7, 1)]), cwnd()])), []);
        assert_eq!(edges(&run(&[0], vec![cwnd()])), []);
    }
}
