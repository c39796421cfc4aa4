//! Frames through ports: they arrive whole and in order, and their payload is not copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser_dpdk::DpdkWire;
use hawser_engine::wire::{Csum, PayRef, TxFrame, Wire};
use hawser_host::peer::Peer;
use hawser_testing::{Need, TestResult, has, internet_checksum};

/// The maximum duration of any step.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a device name that no other port of this process has.
fn named(driver: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{driver}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Returns a frame for experiments (IEEE 802, 9.2.4) whose payload is in pieces.
fn frame(pieces: &[&[u8]]) -> TxFrame {
    let mut head = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    head.extend([0x88, 0xb5]);
    TxFrame {
        head,
        payload: pieces.iter().map(|piece| PayRef::from(piece.to_vec())).collect(),
        ..TxFrame::default()
    }
}

fn bytes_of(frame: &TxFrame) -> Vec<u8> {
    let payload = frame.payload.iter().map(PayRef::bytes);
    std::iter::once(&frame.head[..])
        .chain(payload)
        .collect::<Vec<_>>()
        .concat()
}

/// Sends all frames, and receives as many at the other end.
fn carry(from: &mut DpdkWire, to: Option<&mut DpdkWire>, frames: &[TxFrame]) -> TestResult<Vec<Vec<u8>>> {
    let (begin, mut sent, mut received) = (Instant::now(), 0, Vec::new());
    let mut to = to;
    while received.len() < frames.len() {
        if from.room() > 0 {
            sent += from.transmit(&frames[sent..])?;
        }
        let wire = match &mut to {
            Some(to) => &mut **to,
            None => &mut *from,
        };
        for i in 0..wire.receive(64)? {
            let frame = wire.frame(i);
            received.push([frame.head, frame.tail].concat());
        }
        wire.release();
        if to.is_some() {
            // Frames that found no room leave when the wire is polled.
            assert_eq!(from.receive(64)?, 0, "nobody sends to it");
        }
        if begin.elapsed() > TIMEOUT {
            return Err(format!("{sent} of {} frames left, {} came", frames.len(), received.len()).into());
        }
    }
    Ok(received)
}

/// Returns frames of every length, each with different bytes.
fn many(count: usize) -> Vec<TxFrame> {
    (0..count)
        .map(|n| {
            let bytes: Vec<u8> = (0..n * 37 % 1487).map(|at| (at * 31 + n) as u8).collect();
            let (first, second) = bytes.split_at(bytes.len() / 3);
            frame(&[first, second])
        })
        .collect()
}

/// Only `net_ring` returns a port's own frames to it.
pub(crate) fn a_ring_returns_what_it_is_sent() -> TestResult {
    let mut wire = DpdkWire::open(&named("net_ring"))?;
    let frames = many(5000);
    let expected: Vec<Vec<u8>> = frames.iter().map(bytes_of).collect();
    assert!(carry(&mut wire, None, &frames)? == expected);
    assert_eq!(wire.counters().refused, 0);
    Ok(())
}

/// Payload that counts when it is dropped.
struct Counted(Vec<u8>, Arc<AtomicU64>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// In a ring, a received frame has the sent payload itself, which is dropped once the frame has been received
/// and released.
pub(crate) fn payload_is_kept_until_it_is_sent() -> TestResult {
    let mut wire = DpdkWire::open(&named("net_ring"))?;
    let ended = Arc::new(AtomicU64::new(0));
    let payload = Counted(vec![7; 1000], ended.clone());
    let mut sent = frame(&[]);
    sent.payload = vec![PayRef::from(Bytes::from_owner(payload))];
    assert_eq!(wire.transmit(std::slice::from_ref(&sent))?, 1);
    drop(sent);
    assert_eq!(ended.load(Ordering::Relaxed), 0, "it is under way");
    assert_eq!(wire.receive(64)?, 1);
    assert_eq!(wire.frame(0).tail, [7; 1000]);
    assert_eq!(ended.load(Ordering::Relaxed), 0, "it is being read");
    wire.release();
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    Ok(())
}

/// Two ports in shared memory (memif), one for each end.
pub(crate) fn shared_memory_carries_frames_in_order() -> TestResult {
    let folder = hawser_documents::temporary::Folder::new()?;
    let socket = folder.join("socket");
    let socket = socket.display();
    let open = |role: &str| DpdkWire::open(&format!("{},role={role},socket={socket}", named("net_memif")));
    let (mut server, mut client) = (open("server")?, open("client")?);
    let frames = many(5000);
    let expected: Vec<Vec<u8>> = frames.iter().map(bytes_of).collect();
    assert!(carry(&mut client, Some(&mut server), &frames)? == expected);
    assert!(carry(&mut server, Some(&mut client), &frames)? == expected);
    Ok(())
}

/// Queues of ports in shared memory: frames sent by one queue arrive by the queue of the same number at the
/// other end.
pub(crate) fn queues_carry_frames_apart() -> TestResult {
    let folder = hawser_documents::temporary::Folder::new()?;
    let socket = folder.join("socket");
    let socket = socket.display();
    let open = |role: &str| {
        DpdkWire::open_queues(
            &format!("{},role={role},socket={socket}", named("net_memif")),
            &[],
            3,
        )
    };
    let (mut server, mut client) = (open("server")?, open("client")?);
    carry(&mut client[0], Some(&mut server[0]), &many(1))?;
    let named: Vec<TxFrame> = (0..3u8).map(|number| frame(&[&[number; 400]])).collect();
    for (queue, frame) in client.iter_mut().zip(&named) {
        assert_eq!(queue.transmit(std::slice::from_ref(frame))?, 1);
    }
    for (queue, frame) in server.iter_mut().zip(&named).rev() {
        let begin = Instant::now();
        while queue.receive(64)? == 0 {
            assert!(begin.elapsed() < TIMEOUT, "nothing came");
        }
        assert_eq!(queue.frame(0).head, bytes_of(frame));
        queue.release();
        assert_eq!(queue.receive(64)?, 0, "it is another's");
    }
    // A port exists until the last of its queues is gone.
    client.remove(1);
    let frames = many(100);
    assert_eq!(carry(&mut client[0], Some(&mut server[0]), &frames)?.len(), 100);
    Ok(())
}

/// Returns a super-segment of TCP over IPv4 (RFC 9293, 3.1; RFC 791, 3.1) with `len` bytes of payload, whose
/// checksum covers only the pseudo-header.
fn super_segment(len: usize) -> TxFrame {
    let mut sent = frame(&[]);
    sent.head[12..].copy_from_slice(&[0x08, 0x00]);
    sent.head.extend([0x45, 0]);
    sent.head.extend(((20 + 20 + len) as u16).to_be_bytes());
    sent.head
        .extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = internet_checksum(&[&sent.head[14..]]);
    sent.head[24..26].copy_from_slice(&sum);
    sent.head
        .extend([0, 80, 1, 2, 0, 0, 0, 9, 0, 0, 0, 5, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    let stated = (20 + len as u16).to_be_bytes();
    let pseudo = internet_checksum(&[&sent.head[26..34], &[0, 6], &stated]);
    sent.head[50..52].copy_from_slice(&pseudo.map(|byte| !byte));
    sent.csum = Some((34, 50));
    sent.gso_size = 1448;
    let bytes: Vec<u8> = (0..len).map(|at| (at * 31) as u8).collect();
    let (first, second) = bytes.split_at(len / 3);
    sent.payload = [first, second].map(|piece| PayRef::from(piece.to_vec())).into();
    sent
}

/// Returns the ends of a shared ring of virtio (vhost-user): the server and its user.
fn virtio(arguments: &str) -> TestResult<(DpdkWire, DpdkWire)> {
    let folder = hawser_documents::temporary::Folder::new()?;
    let socket = folder.join("socket");
    let socket = socket.display();
    let server = DpdkWire::open(&format!("{},iface={socket}{arguments}", named("net_vhost")))?;
    let user = DpdkWire::open(&format!("{},path={socket}", named("net_virtio_user")))?;
    Ok((server, user))
}

/// A super-segment that one port cuts and another joins again passes as one frame, with its partial checksum
/// unchanged.
pub(crate) fn super_segments_cross_a_ring_of_virtio() -> TestResult {
    let (mut server, mut user) = virtio(",tso=1")?;
    assert_eq!((user.caps().gso_max, server.caps().gso_max), (65_535, 0));
    for len in [1449, 40_000, 65_495] {
        let sent = super_segment(len);
        let begin = Instant::now();
        assert_eq!(user.transmit(std::slice::from_ref(&sent))?, 1);
        while server.receive(64)? == 0 {
            assert_eq!(user.receive(64)?, 0, "nobody sends to it");
            assert!(begin.elapsed() < TIMEOUT, "{len} bytes did not arrive");
        }
        let received = server.frame(0);
        assert_eq!((received.seg_size, received.csum), (1448, Csum::Complete));
        assert!(
            [received.head, received.tail].concat() == bytes_of(&sent),
            "{len} bytes"
        );
        server.release();
    }
    assert_eq!(user.counters().refused, 0);
    Ok(())
}

/// Frames pass in both directions, and none are joined if the server accepts no super-segments.
pub(crate) fn a_ring_of_virtio_carries_frames_in_order() -> TestResult {
    let (mut server, mut user) = virtio("")?;
    assert_eq!(user.caps().gso_max, 0);
    let frames = many(5000);
    let expected: Vec<Vec<u8>> = frames.iter().map(bytes_of).collect();
    assert!(carry(&mut user, Some(&mut server), &frames)? == expected);
    assert!(carry(&mut server, Some(&mut user), &frames)? == expected);
    Ok(())
}

/// Frames that were not received are freed with their port.
pub(crate) fn a_closed_port_frees_its_frames() -> TestResult {
    let ended = Arc::new(AtomicU64::new(0));
    for _ in 0..20 {
        let mut wire = DpdkWire::open(&named("net_ring"))?;
        let mut sent = frame(&[]);
        sent.payload = vec![PayRef::from(Bytes::from_owner(Counted(
            vec![7; 1000],
            ended.clone(),
        )))];
        assert_eq!(wire.transmit(&[sent])?, 1);
    }
    assert_eq!(ended.load(Ordering::Relaxed), 20);
    Ok(())
}

/// The checksum of a protocol that no port completes, behind the header of an IPv4 packet. With its field in
/// place, the bytes sum to all ones (RFC 1071).
pub(crate) fn sums_that_a_port_does_not_know_are_completed() -> TestResult {
    let (mut server, mut user) = virtio(",tso=1")?;
    assert!(user.caps().tx_csum);
    let mut sent = frame(&[&[9; 301], &[5; 300]]);
    sent.head[12..].copy_from_slice(&[0x08, 0x00]);
    // The protocol is one for experiments (RFC 3692); its header consists of ports and a checksum.
    sent.head.extend([
        0x45, 0, 2, 0x75, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    sent.head.extend([1, 2, 3, 4, 0, 0, 0, 0]);
    sent.csum = Some((34, 38));
    let len = sent.len();
    assert_eq!(user.transmit(&[sent])?, 1);
    let begin = Instant::now();
    while server.receive(64)? == 0 {
        assert_eq!(user.receive(64)?, 0, "nobody sends to it");
        assert!(begin.elapsed() < TIMEOUT, "the frame did not arrive");
    }
    let received = [server.frame(0).head, server.frame(0).tail].concat();
    assert_eq!(received.len(), len);
    assert_ne!(received[38..40], [0, 0]);
    assert_eq!(internet_checksum(&[&received[34..]]), [0, 0]);
    Ok(())
}

/// A datagram (RFC 768) whose pieces have odd lengths: a port that completes checksums sums them as one.
pub(crate) fn pieces_of_odd_lengths_are_summed_as_one() -> TestResult {
    let mut sent = frame(&[&[9; 301], &[5; 301], &[7; 99]]);
    sent.head[12..].copy_from_slice(&[0x08, 0x00]);
    sent.head.extend([
        0x45, 0, 2, 0xd9, 0, 0, 0, 0, 64, 17, 0x64, 0x12, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    let pseudo = internet_checksum(&[&sent.head[26..34], &[0, 17, 2, 0xc5]]);
    sent.head.extend([1, 2, 3, 4, 2, 0xc5]);
    sent.head.extend(pseudo.map(|byte| !byte));
    sent.csum = Some((34, 40));
    if !has("checksums through a TAP device", &[Need::Tun]) {
        return Ok(());
    }
    let mut tap = DpdkWire::open(&format!("{},iface=sums0", named("net_tap")))?;
    let (mut peer, begin) = (Peer::open("sums0")?, Instant::now());
    if !tap.caps().tx_csum {
        // The stack does not ask such a port to complete checksums.
        let sum = internet_checksum(&[&bytes_of(&sent)[34..]]);
        sent.head[40..42].copy_from_slice(&sum);
        sent.csum = None;
    }
    assert_eq!(tap.transmit(&[sent])?, 1);
    while begin.elapsed() < TIMEOUT {
        if let Some(frame) = peer.receive()?
            && frame[..12] == [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]
        {
            assert_eq!(frame.len(), 14 + 20 + 8 + 701);
            let sum = internet_checksum(&[&frame[26..34], &[0, 17], &frame[38..40], &frame[34..]]);
            assert_eq!(sum, [0, 0]);
            return Ok(());
        }
    }
    Err("the frame did not arrive".into())
}

pub(crate) fn frames_a_port_cannot_send_are_refused() -> TestResult {
    let mut wire = DpdkWire::open(&named("net_ring"))?;
    assert_eq!(wire.caps().mtu, 1500);
    let long = frame(&[&[1; 1501]]);
    let segments = TxFrame { gso_size: 100, ..frame(&[&[1; 300]]) };
    let none = TxFrame::default();
    let whole = frame(&[&[1; 1500]]);
    assert_eq!(wire.transmit(&[long, segments, none, whole])?, 4);
    assert_eq!(wire.counters().refused, 3);
    assert_eq!(wire.receive(64)?, 1);
    Ok(())
}
