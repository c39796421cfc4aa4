//! Errors are reported as the InfiniBand architecture names them, and failed work writes no memory.

use hawser_engine::verbs::{
    Access, ConnectionAttributes, Opcode, QueuePairConfig, QueuePairState, Remote, SendRequest, Slice,
    Status, VerbsError, WorkOperation,
};
use hawser_load::Engine;

use super::testbed::{SIZE, Testbed, program};

fn no_change(_: &mut ConnectionAttributes) {}

/// Returns the status of the first host's work, and checks that its peer's memory is unchanged.
fn outcome(change: impl Fn(&mut ConnectionAttributes), request: impl Fn(&Testbed) -> SendRequest) -> Status {
    let mut stage = Testbed::new(&program(Engine::Interp), 7, change);
    let request = request(&stage);
    let now = stage.now;
    let host = &mut stage.hosts[0];
    host.own.write(0, &[0xab; 4096]);
    host.device
        .post_send(&mut host.stack, now, host.pair, &request)
        .expect("there is room");
    let mut seen = None;
    let done = stage.run(|hosts, _| {
        seen = seen.or_else(|| hosts[0].device.poll(hosts[0].queue));
        seen.is_some()
    });
    assert!(done, "{request:?}");
    let status = seen.expect("it is done").status;
    assert_eq!(
        stage.hosts[0].device.state(stage.hosts[0].pair),
        Some(QueuePairState::Error)
    );
    assert!(
        stage.hosts[1]
            .shared
            .region()
            .bytes()
            .iter()
            .all(|byte| *byte == 0),
        "{status}"
    );
    stage.assert_no_faults();
    status
}

fn own(stage: &Testbed, len: u64) -> Slice {
    stage.hosts[0].own.slice(0, len)
}

fn write(stage: &Testbed, remote: Remote, len: u64) -> SendRequest {
    SendRequest::new(1, WorkOperation::Write(remote), own(stage, len))
}

fn shared(stage: &Testbed, at: u64) -> Remote {
    stage.hosts[1].shared.remote(at)
}

/// `ibv_destroy_cq` returns EBUSY while there is a pair; a thousand clients that came and went leave no queue
/// behind.
#[test]
fn completion_queues_end_once_no_pair_uses_them() {
    let mut stage = Testbed::unconnected(&program(Engine::Interp), 7);
    let (host, now) = (&mut stage.hosts[0], stage.now);
    assert_eq!(host.device.completion_queues(), 1);
    assert_eq!(host.device.destroy_queue(host.queue), Err(VerbsError::InUse));
    let mut last = None;
    for _ in 0..1_000 {
        let queue = host.device.completion_queue();
        assert_ne!(last.replace(queue), Some(queue));
        let pair = host.device.queue_pair(QueuePairConfig {
            domain: host.domain,
            send_queue: host.queue,
            receive_queue: queue,
            signal_all: false,
        });
        assert_eq!(host.device.destroy_queue(queue), Err(VerbsError::InUse));
        host.device.destroy(&mut host.stack, now, pair);
        assert_eq!(host.device.destroy_queue(queue), Ok(()));
        assert!(matches!(
            host.device.destroy_queue(queue),
            Err(VerbsError::Gone(_))
        ));
        assert!(matches!(host.device.waiting(queue), Err(VerbsError::Gone(_))));
    }
    assert_eq!(host.device.completion_queues(), 1);
}

#[test]
fn remote_memory_outside_a_region_is_not_written() {
    let wrong_key = |stage: &Testbed| write(stage, Remote { key: 12345, at: 0 }, 100);
    assert_eq!(outcome(no_change, wrong_key), Status::RemoteAccess);
    let beyond = |stage: &Testbed| write(stage, shared(stage, SIZE as u64 - 99), 100);
    assert_eq!(outcome(no_change, beyond), Status::RemoteAccess);
    let long = |stage: &Testbed| write(stage, shared(stage, SIZE as u64 - 3999), 4000);
    assert_eq!(
        outcome(no_change, long),
        Status::RemoteAccess,
        "not even its first packets"
    );
    let overflow = |stage: &Testbed| write(stage, shared(stage, u64::MAX - 10), 100);
    assert_eq!(outcome(no_change, overflow), Status::RemoteAccess);
    let local = |stage: &Testbed| write(stage, Remote { key: stage.hosts[1].own.key(), at: 0 }, 100);
    assert_eq!(
        outcome(no_change, local),
        Status::RemoteAccess,
        "it may not be written by peers"
    );
}

#[test]
fn a_pair_without_access_refuses_remote_operations() {
    let nothing = |c: &mut ConnectionAttributes| c.access = Access::NONE;
    let remote = |stage: &Testbed| shared(stage, 0);
    assert_eq!(outcome(nothing, |s| write(s, remote(s), 8)), Status::RemoteAccess);
    let read = |s: &Testbed| SendRequest::new(1, WorkOperation::Read(remote(s)), own(s, 8));
    assert_eq!(outcome(nothing, read), Status::RemoteAccess);
    let add = |s: &Testbed| {
        SendRequest::new(
            1,
            WorkOperation::FetchAdd { remote: remote(s), add: 1 },
            own(s, 8),
        )
    };
    assert_eq!(outcome(nothing, add), Status::RemoteAccess);
}

#[test]
fn an_atomic_operation_on_an_odd_address_is_invalid() {
    let add = |s: &Testbed| {
        let remote = shared(s, 4);
        SendRequest::new(1, WorkOperation::FetchAdd { remote, add: 1 }, own(s, 8))
    };
    assert_eq!(outcome(no_change, add), Status::RemoteInvalidRequest);
}

#[test]
fn a_wrong_local_region_fails_at_once() {
    let wrong = |s: &Testbed| {
        SendRequest::new(
            1,
            WorkOperation::Write(shared(s, 0)),
            Slice { key: 9, at: 0, len: 10 },
        )
    };
    assert_eq!(outcome(no_change, wrong), Status::LocalProtection);
    let beyond = |s: &Testbed| {
        let local = s.hosts[0].own.slice(SIZE as u64 - 5, 10);
        SendRequest::new(1, WorkOperation::Read(shared(s, 0)), local)
    };
    assert_eq!(outcome(no_change, beyond), Status::LocalProtection);
}

/// Work posted before work without memory is done; work posted behind it is not.
#[test]
fn a_protection_error_flushes_only_later_work() {
    let mut stage = Testbed::new(&program(Engine::Interp), 7, |_| {});
    let now = stage.now;
    let absent = Slice { key: 9, at: 0, len: 10 };
    let remote = |at: u64| WorkOperation::Write(stage.hosts[1].shared.remote(at));
    let good = stage.hosts[0].own.slice(0, 5_000);
    let requests = [
        SendRequest::new(1, remote(0), good),
        SendRequest::new(2, remote(8_000), absent),
        SendRequest::new(3, remote(9_000), good),
    ];
    let host = &mut stage.hosts[0];
    host.own.write(0, &[0xab; 5_000]);
    for request in &requests {
        let posted = host.device.post_send(&mut host.stack, now, host.pair, request);
        posted.expect("there is room");
    }
    let mut seen = Vec::new();
    assert!(stage.run(|hosts, _| {
        seen.extend(std::iter::from_fn(|| hosts[0].device.poll(hosts[0].queue)));
        seen.len() == 3
    }));
    let statuses: Vec<(u64, Status)> = seen.iter().map(|seen| (seen.id, seen.status)).collect();
    assert_eq!(
        statuses,
        [
            (1, Status::Success),
            (2, Status::LocalProtection),
            (3, Status::Flushed)
        ]
    );
    let bytes = stage.hosts[1].shared.region().bytes();
    assert!(bytes[..5_000].iter().all(|byte| *byte == 0xab) && bytes[5_000..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_send_without_a_receive_fails_after_its_rnr_retries() {
    let send = |s: &Testbed| SendRequest::new(1, WorkOperation::Send, own(s, 8));
    let few = |c: &mut ConnectionAttributes| c.rnr_retries = 3;
    assert_eq!(outcome(few, send), Status::ReceiverNotReady);
}

#[test]
fn an_unreachable_pair_fails_after_its_retries() {
    let send = |s: &Testbed| SendRequest::new(1, WorkOperation::Write(shared(s, 0)), own(s, 8));
    let elsewhere = |c: &mut ConnectionAttributes| c.pair ^= 0x1000;
    assert_eq!(outcome(elsewhere, send), Status::RetriesExceeded);
}

/// A message longer than the memory posted for it fails at both ends, and so does the work posted behind it.
#[test]
fn a_message_that_is_too_long_fails_at_both_ends() {
    let mut stage = Testbed::new(&program(Engine::Interp), 7, |_| {});
    let now = stage.now;
    let [a, b] = &mut stage.hosts;
    for id in 0..2 {
        let local = b.own.slice(0, 10);
        b.device
            .post_receive(&mut b.stack, now, b.pair, id, local)
            .expect("there is room");
        let request = SendRequest::new(id, WorkOperation::Send, a.own.slice(0, 11));
        a.device
            .post_send(&mut a.stack, now, a.pair, &request)
            .expect("there is room");
    }
    let mut seen = [Vec::new(), Vec::new()];
    let done = stage.run(|hosts, _| {
        for (host, seen) in hosts.iter_mut().zip(&mut seen) {
            while let Some(completion) = host.device.poll(host.queue) {
                seen.push((completion.id, completion.status));
            }
        }
        seen.iter().all(|seen| seen.len() == 2)
    });
    assert!(done, "{seen:?}");
    assert_eq!(seen[0], [(0, Status::RemoteInvalidRequest), (1, Status::Flushed)]);
    assert_eq!(seen[1], [(0, Status::LocalLength), (1, Status::Flushed)]);
    let host = &mut stage.hosts[0];
    let request = SendRequest::new(9, WorkOperation::Send, Slice::default());
    host.device
        .post_send(&mut host.stack, now, host.pair, &request)
        .expect("it is flushed");
    assert!(stage.run(|hosts, _| {
        let seen = hosts[0].device.poll(hosts[0].queue);
        seen.is_some_and(|seen| (seen.id, seen.status, seen.opcode) == (9, Status::Flushed, Opcode::Send))
    }));
}

/// If a region is removed under traffic, the peer gets an error, and no more bytes are written.
#[test]
fn a_region_may_end_under_traffic() {
    let mut stage = Testbed::new(&program(Engine::Interp), 7, |_| {});
    let now = stage.now;
    let [a, b] = &mut stage.hosts;
    a.own.write(0, &[1; 1 << 16]);
    let request = SendRequest::new(
        1,
        WorkOperation::Write(b.shared.remote(0)),
        a.own.slice(0, 1 << 17),
    );
    a.device
        .post_send(&mut a.stack, now, a.pair, &request)
        .expect("there is room");
    b.device.deregister(&mut b.stack, &b.shared.clone());
    let mut seen = None;
    assert!(stage.run(|hosts, _| {
        seen = seen.or_else(|| hosts[0].device.poll(hosts[0].queue));
        seen.is_some()
    }));
    assert_eq!(seen.expect("it is done").status, Status::RemoteAccess);
    assert!(
        stage.hosts[1]
            .shared
            .region()
            .bytes()
            .iter()
            .all(|byte| *byte == 0)
    );
}

#[test]
fn a_send_invalidates_a_key_of_its_receiver() {
    let mut stage = Testbed::new(&program(Engine::Interp), 7, |_| {});
    let now = stage.now;
    let [a, b] = &mut stage.hosts;
    let local = b.own.slice(0, 10);
    b.device
        .post_receive(&mut b.stack, now, b.pair, 5, local)
        .expect("there is room");
    let request = SendRequest::inline(1, WorkOperation::SendInvalidate(b.shared.key()), b"enough");
    a.device
        .post_send(&mut a.stack, now, a.pair, &request)
        .expect("there is room");
    let request = write(&stage, shared(&stage, 0), 4);
    let a = &mut stage.hosts[0];
    a.device
        .post_send(&mut a.stack, now, a.pair, &request)
        .expect("there is room");
    let mut seen = [Vec::new(), Vec::new()];
    assert!(stage.run(|hosts, _| {
        for (host, seen) in hosts.iter_mut().zip(&mut seen) {
            seen.extend(std::iter::from_fn(|| host.device.poll(host.queue)));
        }
        seen[0].len() == 2 && seen[1].len() == 1
    }));
    let statuses: Vec<Status> = seen[0].iter().map(|seen| seen.status).collect();
    assert_eq!(statuses, [Status::Success, Status::RemoteAccess]);
    let key = stage.hosts[1].shared.key();
    assert_eq!((seen[1][0].invalidated, seen[1][0].len), (Some(key), 6));
}

#[test]
fn a_queue_pair_passes_through_its_states_in_order() {
    let mut stage = Testbed::new(&program(Engine::Interp), 7, |_| {});
    let host = &mut stage.hosts[0];
    let config = hawser_engine::verbs::QueuePairConfig {
        domain: host.domain,
        send_queue: host.queue,
        receive_queue: host.queue,
        signal_all: false,
    };
    let pair = host.device.queue_pair(config);
    let request = SendRequest::inline(1, WorkOperation::Send, b"early");
    let error = host.device.post_send(&mut host.stack, stage.now, pair, &request);
    let state = QueuePairState::Reset;
    assert_eq!(error, Err(VerbsError::State { state, what: "send" }));
    let connection = ConnectionAttributes::new([10, 0, 0, 2].into(), 5);
    let error = host.device.connect(&mut host.stack, stage.now, pair, &connection);
    assert_eq!(error, Err(VerbsError::State { state, what: "become RTR" }));
    host.device.to_init(pair).expect("it is new");
    let wrong = ConnectionAttributes { mtu: 1000, ..connection };
    assert!(matches!(
        host.device.connect(&mut host.stack, stage.now, pair, &wrong),
        Err(VerbsError::Stack(_))
    ));
    host.device
        .connect(&mut host.stack, stage.now, pair, &connection)
        .expect("it is possible");
    assert_eq!(host.device.state(pair), Some(QueuePairState::ReadyToSend));
    host.device.destroy(&mut host.stack, stage.now, pair);
    let gone = host.device.post_send(&mut host.stack, stage.now, pair, &request);
    assert_eq!(gone, Err(VerbsError::Gone("queue pair")));
}
