//! Unreliable datagrams: their delivery, and the cases in which they are dropped silently.

use hawser_engine::verbs::{
    ConnectionAttributes, Datagrams, Destination, Opcode, QueuePairConfig, QueuePairState, SendRequest,
    Slice, Status, VerbsError, WorkCompletion, WorkOperation,
};
use hawser_load::Engine;

use super::testbed::{Host, SIZE, Testbed, address, program};

/// The key that datagrams to the second host's pair must have.
const KEY: u32 = 0x1234_5678;

/// Returns both hosts with pairs for datagrams; the first one has a different key.
fn stage(engine: Engine) -> Testbed {
    let mut stage = Testbed::unconnected(&program(engine), 3);
    for (host, key) in stage.hosts.iter_mut().zip([7, KEY]) {
        let opened = host
            .device
            .open_datagrams(&mut host.stack, stage.now, host.pair, &Datagrams::new(key));
        opened.expect("it is new");
        host.own.write(0, &(0..=255).collect::<Vec<u8>>());
    }
    stage
}

/// Returns the pair of a host as a destination.
fn to(stage: &Testbed, host: usize) -> Destination {
    Destination { host: address(host), pair: stage.hosts[host].pair.number() }
}

fn post(stage: &mut Testbed, request: &SendRequest) -> Result<(), VerbsError> {
    let now = stage.now;
    let host = &mut stage.hosts[0];
    host.device.post_send(&mut host.stack, now, host.pair, request)
}

/// Posts the second host's own memory from `at` on.
fn receive(stage: &mut Testbed, id: u64, at: u64, len: u64) {
    let now = stage.now;
    let host = &mut stage.hosts[1];
    let slice = host.own.slice(at, len);
    let posted = host
        .device
        .post_receive(&mut host.stack, now, host.pair, id, slice);
    posted.expect("there is room");
}

fn polled(host: &mut Host) -> Vec<WorkCompletion> {
    std::iter::from_fn(|| host.device.poll(host.queue)).collect()
}

/// Returns the completions of both hosts once no more events follow.
fn all_seen(stage: &mut Testbed) -> [Vec<WorkCompletion>; 2] {
    assert!(!stage.run(|_, _| false));
    stage.assert_no_faults();
    let [a, b] = &mut stage.hosts;
    [polled(a), polled(b)]
}

#[test]
fn a_datagram_says_where_it_came_from() {
    for engine in Engine::ALL {
        let mut stage = stage(engine);
        let peer = to(&stage, 1);
        receive(&mut stage, 40, 4096, 100);
        receive(&mut stage, 41, 8192, 100);
        let local = stage.hosts[0].own.slice(5, 13);
        let with_word = SendRequest::new(1, WorkOperation::Datagram { to: peer, key: KEY }, local);
        post(&mut stage, &with_word.immediate(0xcafe_f00d).solicited()).expect("there is room");
        let empty = SendRequest::inline(2, WorkOperation::Datagram { to: peer, key: KEY }, b"");
        post(&mut stage, &empty).expect("there is room");
        let [sent, received] = all_seen(&mut stage);
        let ended: Vec<_> = sent.iter().map(|c| (c.id, c.status, c.opcode, c.len)).collect();
        assert_eq!(
            ended,
            [
                (1, Status::Success, Opcode::Datagram, 13),
                (2, Status::Success, Opcode::Datagram, 0)
            ]
        );
        let arrived: Vec<_> = received
            .iter()
            .map(|c| (c.id, c.len, c.immediate, c.solicited))
            .collect();
        assert_eq!(arrived, [(40, 13, Some(0xcafe_f00d), true), (41, 0, None, false)]);
        let source = Some(to(&stage, 0));
        assert!(received.iter().all(|c| c.source == source), "{received:?}");
        let mut bytes = [0xff; 14];
        stage.hosts[1].own.read(4096, &mut bytes);
        assert_eq!(bytes, [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 0]);
    }
}

/// Wrong keys, missing memory and too little memory are not reported, and the next datagram arrives (IBA,
/// 9.8.3, 9.9.3).
#[test]
fn unacceptable_datagrams_are_dropped_silently() {
    let mut stage = stage(Engine::Interp);
    let peer = to(&stage, 1);
    let send = |stage: &mut Testbed, id, key, len| {
        let local = stage.hosts[0].own.slice(0, len);
        post(
            stage,
            &SendRequest::new(id, WorkOperation::Datagram { to: peer, key }, local),
        )
        .expect("there is room");
        let [sent, received] = all_seen(stage);
        assert_eq!((sent.len(), sent[0].status), (1, Status::Success));
        received.iter().map(|c| (c.id, c.len)).collect::<Vec<_>>()
    };
    assert_eq!(send(&mut stage, 1, KEY, 10), [], "no memory is posted");
    receive(&mut stage, 40, 4096, 9);
    assert_eq!(send(&mut stage, 2, KEY, 10), [], "the memory is too short");
    assert_eq!(send(&mut stage, 3, KEY ^ 1, 9), [], "another key");
    assert_eq!(
        send(&mut stage, 4, 0x8000_0000, 9),
        [],
        "the sender's own key is another"
    );
    assert_eq!(send(&mut stage, 5, KEY, 9), [(40, 9)]);
    let pairs = stage.hosts.iter().map(|host| host.device.state(host.pair));
    assert!(
        pairs
            .into_iter()
            .all(|state| state == Some(QueuePairState::ReadyToSend))
    );
    let nobody = Destination { pair: 99, ..peer };
    let request = SendRequest::inline(6, WorkOperation::Datagram { to: nobody, key: KEY }, b"hello");
    post(&mut stage, &request).expect("there is room");
    assert_eq!(all_seen(&mut stage)[1], []);
}

#[test]
fn unsendable_datagrams_are_refused() {
    let mut stage = stage(Engine::Interp);
    let datagram = WorkOperation::Datagram { to: to(&stage, 1), key: KEY };
    let long = stage.hosts[0].own.slice(0, 1025);
    let error = post(&mut stage, &SendRequest::new(1, datagram, long));
    assert!(matches!(error, Err(VerbsError::Stack(_))), "{error:?}");
    let error = post(
        &mut stage,
        &SendRequest::inline(2, WorkOperation::Send, b"to no peer"),
    );
    assert!(matches!(error, Err(VerbsError::Stack(_))), "{error:?}");
    let far = WorkOperation::Datagram {
        to: Destination { host: std::net::Ipv6Addr::LOCALHOST.into(), pair: 5 },
        key: KEY,
    };
    let error = post(&mut stage, &SendRequest::inline(3, far, b"without a route"));
    assert!(matches!(error, Err(VerbsError::Stack(_))), "{error:?}");
    assert_eq!(all_seen(&mut stage), [vec![], vec![]]);
}

/// A sender without a right to its memory stops (SQE), and continues after `to_ready_to_send`; the work
/// behind it is flushed.
#[test]
fn a_failed_datagram_stops_its_sender_alone() {
    let mut stage = stage(Engine::Interp);
    let operation = WorkOperation::Datagram { to: to(&stage, 1), key: KEY };
    receive(&mut stage, 40, 4096, 100);
    let beyond = Slice { at: SIZE as u64, ..stage.hosts[0].own.slice(0, 1) };
    post(&mut stage, &SendRequest::new(1, operation, beyond)).expect("there is room");
    let again = SendRequest::inline(2, operation, b"again");
    post(&mut stage, &again).expect("there is room");
    let [sent, received] = all_seen(&mut stage);
    let ended: Vec<_> = sent.iter().map(|c| (c.id, c.status)).collect();
    assert_eq!(ended, [(1, Status::LocalProtection), (2, Status::Flushed)]);
    assert_eq!(received, []);
    let now = stage.now;
    let host = &mut stage.hosts[0];
    assert_eq!(host.device.state(host.pair), Some(QueuePairState::SendQueueError));
    let resumed = host.device.to_ready_to_send(&mut host.stack, now, host.pair);
    resumed.expect("it may");
    post(&mut stage, &again).expect("there is room");
    assert_eq!(all_seen(&mut stage)[1].len(), 1);
}

/// Pairs of one kind drop packets of the other kind, and refuse its work.
#[test]
fn pairs_with_a_peer_take_no_datagrams() {
    let mut stage = Testbed::new(&program(Engine::Interp), 5, |_: &mut ConnectionAttributes| {});
    receive(&mut stage, 40, 4096, 100);
    let datagram = WorkOperation::Datagram { to: to(&stage, 1), key: 0 };
    let error = post(&mut stage, &SendRequest::inline(1, datagram, b"hello"));
    assert!(matches!(error, Err(VerbsError::Stack(_))), "{error:?}");
    // A pair for datagrams on the first host, whose datagram names the connected pair.
    let now = stage.now;
    let host = &mut stage.hosts[0];
    let pair = host.device.queue_pair(QueuePairConfig {
        domain: host.domain,
        send_queue: host.queue,
        receive_queue: host.queue,
        signal_all: true,
    });
    host.device.to_init(pair).expect("it is new");
    host.device
        .open_datagrams(&mut host.stack, now, pair, &Datagrams::new(0))
        .expect("it is new");
    let request = SendRequest::inline(2, datagram, b"hello");
    let posted = host.device.post_send(&mut host.stack, now, pair, &request);
    posted.expect("there is room");
    let [sent, received] = all_seen(&mut stage);
    assert_eq!((sent.len(), sent[0].status), (1, Status::Success));
    assert_eq!(received, []);
}

/// Completions that are not polled take bounded memory: an application has to poll before it can post more.
#[test]
fn posting_requires_polling_completions() {
    let mut stage = stage(Engine::Interp);
    let operation = WorkOperation::Datagram { to: to(&stage, 1), key: KEY };
    let request = SendRequest::inline(1, operation, b"");
    let queue = stage.hosts[0].queue;
    for _ in 0..16_384 / 128 {
        for _ in 0..128 {
            post(&mut stage, &request).expect("there is room");
        }
        assert!(!stage.run(|_, _| false));
    }
    assert_eq!(stage.hosts[0].device.waiting(queue), Ok(16_384));
    assert_eq!(post(&mut stage, &request), Err(VerbsError::Full));
    assert!(stage.hosts[0].device.poll(queue).is_some());
    post(&mut stage, &request).expect("there is room again");
}
