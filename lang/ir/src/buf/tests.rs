//! Tests of the buffers' `commit`: whole events and records are taken over, anything else is refused.

use bytemuck::Zeroable;

use super::*;
use crate::abi::{Id, TimerRec};

/// An event of `size` bytes whose bytes behind the header are `fill`.
fn event(number: u16, size: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![fill; size];
    let header = EventHeader { event: number, ..EventHeader::zeroed() };
    set_event_header(&mut bytes, &header);
    bytes
}

/// Writes bytes as generated code would.
fn write(room: &mut [u64], bytes: &[u8]) {
    cast_slice_mut::<u64, u8>(room)[..bytes.len()].copy_from_slice(bytes);
}

const HEADER: usize = size_of::<EventHeader>();

fn sizes(number: u16) -> Option<usize> {
    [HEADER, HEADER + 8].get(usize::from(number)).copied()
}

#[test]
fn events_written_in_place_are_the_events_pushed() {
    let events = [
        event(1, HEADER + 8, 7),
        event(0, HEADER, 0),
        event(1, HEADER + 8, 9),
    ];
    let (mut pushed, mut written) = (EventBuf::default(), EventBuf::default());
    for _ in 0..2 {
        pushed.clear();
        written.clear();
        events.iter().for_each(|e| pushed.push(event_number_of(e), e));
        written.push(event_number_of(&events[0]), &events[0]);
        let row = [events[1].clone(), events[2].clone()].concat();
        write(written.room(1000), &row);
        assert_eq!(written.commit(row.len(), sizes), Ok(()));
        assert_eq!(written.len(), 3);
        for i in 0..3 {
            assert_eq!(pushed.get(i), written.get(i));
        }
    }
    written.truncate(1);
    assert_eq!((written.len(), written.get(0)), (1, &events[0][..]));
}

fn event_number_of(event: &[u8]) -> EventId {
    EventId(u32::from(event_header(event).event))
}

#[test]
fn malformed_events_are_rejected_and_leave_the_buffer_empty() {
    let good = event(1, HEADER + 8, 7);
    for (bytes, len) in [
        (good.clone(), HEADER),        // a truncated event
        (good.clone(), HEADER + 4),    // no whole words
        (event(2, HEADER, 0), HEADER), // an unknown event number
        (good.clone(), HEADER + 16),   // trailing bytes
        (event(0, HEADER, 0), 8),      // no whole header
        (good, 1 << 20),               // beyond the room
    ] {
        let mut events = EventBuf::default();
        write(events.room(HEADER + 16), &bytes);
        assert_eq!(events.commit(len, sizes), Err(Malformed), "{len}");
        assert!(events.is_empty());
    }
}

#[test]
fn records_written_in_place_are_the_records_pushed() {
    let timer = TimerRec { deadline: 5, timer: 2, ..TimerRec::zeroed() };
    let mut pushed = RecordBuf::default();
    pushed.push(RecordKind::TimerStart, 0, &timer, &[]);
    pushed.push(RecordKind::Signal, 1, &Id::NONE, &[1, 2, 3]);
    let mut written = RecordBuf::default();
    written.push(RecordKind::TimerStart, 0, &timer, &[]);
    let row = pushed.bytes()[written.bytes().len()..].to_vec();
    write(written.room(row.len()), &row);
    assert_eq!(written.commit(row.len()), Ok(()));
    assert_eq!(written.bytes(), pushed.bytes());
}

#[test]
fn padding_is_zero_after_reused_room() {
    let mut records = RecordBuf::default();
    records.room(256).fill(u64::MAX);
    records.push(RecordKind::Signal, 0, &RecordHeader::zeroed(), &[1, 2, 3]);
    assert_eq!(records.bytes()[8..], [1, 2, 3, 0, 0, 0, 0, 0]);
}

#[test]
fn malformed_records_are_rejected_and_leave_the_buffer_empty() {
    let record = |kind, len| RecordHeader { kind, on: 0, global: 0, len };
    for (header, len) in [
        (record(0, 16), 16),  // no kind
        (record(99, 16), 16), // an unknown kind
        (record(1, 0), 16),   // no length: it would never end
        (record(1, 12), 16),  // no whole words
        (record(1, 24), 16),  // beyond what was written
        (record(1, 16), 12),  // half a word
        (record(1, 16), 1 << 20),
    ] {
        let mut records = RecordBuf::default();
        write(records.room(16), bytes_of(&header));
        assert_eq!(records.commit(len), Err(Malformed), "{header:?} {len}");
        assert!(records.bytes().is_empty());
    }
}

#[test]
fn kinds_are_found_by_their_numbers() {
    for n in 0..=255 {
        let expected = (1..=RecordKind::DelRx as u8).contains(&n).then_some(n);
        assert_eq!(RecordKind::from_u8(n).map(|kind| kind as u8), expected);
    }
}
