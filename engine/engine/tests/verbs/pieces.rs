//! Work with several pieces of memory: sent bytes are gathered from them, and received bytes are scattered
//! over them.

use hawser_engine::verbs::{
    Datagrams, Destination, MAX_PIECES, QueuePairConfig, QueuePairState, SendRequest, Slice, Slices, Status,
    VerbsError, WorkCompletion, WorkOperation,
};
use hawser_load::Engine;

use super::testbed::{SIZE, Testbed, address, program};

/// Lengths that begin and end inside packets of 1,024 bytes and at their bounds, 5,000 in all.
const LENGTHS: [usize; 7] = [3, 1_021, 0, 1_024, 2_500, 1, 451];
/// Different lengths with the same sum.
const OTHERS: [usize; 4] = [2_049, 1, 2_000, 950];
const TOTAL: usize = 5_000;

fn connected() -> Testbed {
    Testbed::new(&program(Engine::Interp), 7, |_| {})
}

/// Returns the places of pieces with these lengths in a region: separated from one another, the last ones
/// first.
fn places(lengths: &[usize]) -> Vec<(usize, usize)> {
    let mut at = 50_000;
    let place = |len: &usize| {
        at -= len + 7;
        (at, *len)
    };
    lengths.iter().map(place).collect()
}

fn own(stage: &Testbed, host: usize, lengths: &[usize]) -> Slices {
    let own = &stage.hosts[host].own;
    let slice = |(at, len)| own.slice(at as u64, len as u64);
    places(lengths).into_iter().map(slice).collect::<Vec<_>>().into()
}

fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(3).fill(&mut bytes);
    bytes
}

/// Fills a host's pieces with bytes, in order.
fn fill(stage: &Testbed, host: usize, lengths: &[usize], mut bytes: &[u8]) {
    for (at, len) in places(lengths) {
        let (now, later) = bytes.split_at(len);
        stage.hosts[host].own.write(at, now);
        bytes = later;
    }
}

/// Returns the bytes of a host's pieces, and checks that those around them are unchanged.
fn gathered(stage: &Testbed, host: usize, lengths: &[usize]) -> Vec<u8> {
    let mut bytes = stage.hosts[host].own.region().bytes().to_vec();
    let mut all = Vec::new();
    for (at, len) in places(lengths) {
        all.extend_from_slice(&bytes[at..at + len]);
        bytes[at..at + len].fill(0);
    }
    assert!(
        bytes.iter().all(|byte| *byte == 0),
        "bytes beside the pieces changed"
    );
    all
}

fn post(stage: &mut Testbed, request: &SendRequest) -> Result<(), VerbsError> {
    let (now, host) = (stage.now, &mut stage.hosts[0]);
    host.device.post_send(&mut host.stack, now, host.pair, request)
}

fn receive(stage: &mut Testbed, host: usize, local: impl Into<Slices>) -> Result<(), VerbsError> {
    let now = stage.now;
    let there = &mut stage.hosts[host];
    there
        .device
        .post_receive(&mut there.stack, now, there.pair, 9, local)
}

/// Returns the next completion of a host.
fn next(stage: &mut Testbed, host: usize) -> WorkCompletion {
    let mut seen = None;
    stage.run(|hosts, _| {
        seen = hosts[host].device.poll(hosts[host].queue);
        seen.is_some()
    });
    seen.expect("work ends")
}

fn succeed(stage: &mut Testbed, host: usize, len: usize) {
    let done = next(stage, host);
    assert_eq!((done.status, done.len), (Status::Success, len as u64), "{done:?}");
}

#[test]
fn a_message_is_gathered_and_scattered() {
    let mut stage = connected();
    let bytes = random(TOTAL);
    fill(&stage, 0, &LENGTHS, &bytes);
    let local = own(&stage, 1, &OTHERS);
    receive(&mut stage, 1, local).expect("there is room");
    let request = SendRequest::new(1, WorkOperation::Send, own(&stage, 0, &LENGTHS));
    post(&mut stage, &request).expect("there is room");
    succeed(&mut stage, 1, TOTAL);
    succeed(&mut stage, 0, TOTAL);
    assert_eq!(gathered(&stage, 1, &OTHERS), bytes);
    stage.assert_no_faults();
}

#[test]
fn a_write_is_gathered_and_a_read_is_scattered() {
    let mut stage = connected();
    let bytes = random(TOTAL);
    fill(&stage, 0, &LENGTHS, &bytes);
    let remote = stage.hosts[1].shared.remote(100);
    let request = SendRequest::new(1, WorkOperation::Write(remote), own(&stage, 0, &LENGTHS));
    post(&mut stage, &request).expect("there is room");
    succeed(&mut stage, 0, TOTAL);
    assert_eq!(stage.hosts[1].shared.region().bytes()[100..100 + TOTAL], bytes);
    fill(&stage, 0, &LENGTHS, &[0; TOTAL]);
    let request = SendRequest::new(2, WorkOperation::Read(remote), own(&stage, 0, &OTHERS));
    post(&mut stage, &request).expect("there is room");
    succeed(&mut stage, 0, TOTAL);
    assert_eq!(gathered(&stage, 0, &OTHERS), bytes);
    stage.assert_no_faults();
}

#[test]
fn the_result_of_an_atomic_operation_is_scattered() {
    let mut stage = connected();
    stage.hosts[1].shared.write(16, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let remote = stage.hosts[1].shared.remote(16);
    let operation = WorkOperation::FetchAdd { remote, add: 1 };
    let request = SendRequest::new(1, operation, own(&stage, 0, &[5, 3]));
    post(&mut stage, &request).expect("there is room");
    succeed(&mut stage, 0, 8);
    assert_eq!(gathered(&stage, 0, &[5, 3]), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_datagram_is_gathered_and_scattered() {
    let mut stage = Testbed::unconnected(&program(Engine::Interp), 7);
    for host in &mut stage.hosts {
        let datagrams = Datagrams::new(4);
        host.device
            .open_datagrams(&mut host.stack, stage.now, host.pair, &datagrams)
            .expect("it was INIT");
    }
    let bytes = random(1_000);
    fill(&stage, 0, &[1, 900, 99], &bytes);
    let local = own(&stage, 1, &[500, 500]);
    receive(&mut stage, 1, local).expect("there is room");
    let to = Destination { host: address(1), pair: stage.hosts[1].pair.number() };
    let request = SendRequest::new(
        1,
        WorkOperation::Datagram { to, key: 4 },
        own(&stage, 0, &[1, 900, 99]),
    );
    post(&mut stage, &request).expect("there is room");
    succeed(&mut stage, 1, 1_000);
    assert_eq!(gathered(&stage, 1, &[500, 500]), bytes);
}

/// `ibv_post_send` returns ENOMEM beyond `max_sge`.
#[test]
fn more_pieces_than_a_list_takes_are_refused() {
    let mut stage = connected();
    let piece = stage.hosts[0].own.slice(0, 1);
    let request = |count: usize| SendRequest::new(1, WorkOperation::Send, vec![piece; count]);
    let too_many = post(&mut stage, &request(MAX_PIECES + 1)).expect_err("one too many");
    assert!(matches!(too_many, VerbsError::Stack(_)), "{too_many}");
    receive(&mut stage, 0, vec![piece; MAX_PIECES + 1]).expect_err("one too many");
    let local = stage.hosts[1].own.slice(0, 16);
    receive(&mut stage, 1, local).expect("there is room");
    post(&mut stage, &request(MAX_PIECES)).expect("there is room");
    succeed(&mut stage, 0, MAX_PIECES);
}

/// The pieces of a read are checked as a whole for each packet. The first packet writes no byte if its second
/// piece may not be written.
#[test]
fn a_piece_that_may_not_be_used_fails_its_work() {
    let host_with = |bad: &dyn Fn(&Testbed) -> Slice, is_read: bool| {
        let mut stage = connected();
        let remote = stage.hosts[1].shared.remote(0);
        stage.hosts[1].shared.write(0, &[5; 100]);
        let operation = if is_read {
            WorkOperation::Read(remote)
        } else {
            WorkOperation::Write(remote)
        };
        let slices = [stage.hosts[0].own.slice(0, 50), bad(&stage)];
        post(&mut stage, &SendRequest::new(1, operation, slices)).expect("there is room");
        assert_eq!(next(&mut stage, 0).status, Status::LocalProtection);
        let host = &stage.hosts[0];
        assert_eq!(host.device.state(host.pair), Some(QueuePairState::Error));
        assert!(host.own.region().bytes().iter().all(|byte| *byte == 0));
        assert_eq!(stage.hosts[1].shared.region().bytes()[..100], [5; 100]);
    };
    let beyond = |stage: &Testbed| stage.hosts[0].own.slice(SIZE as u64 - 49, 50);
    let absent = |stage: &Testbed| Slice { key: stage.hosts[0].own.key() ^ 1, at: 0, len: 50 };
    for is_read in [false, true] {
        host_with(&beyond, is_read);
        host_with(&absent, is_read);
    }
}

/// The stage has room for 400 regions and lists. Lists of finished work make room for others, even if no
/// completion reports the work. The lists of a destroyed pair do so as well.
#[test]
fn lists_end_with_their_work() {
    let mut stage = connected();
    let quiet = |stage: &mut Testbed| {
        let host = &mut stage.hosts[0];
        host.device.queue_pair(QueuePairConfig {
            domain: host.domain,
            send_queue: host.queue,
            receive_queue: host.queue,
            signal_all: false,
        })
    };
    let piece = stage.hosts[0].own.slice(0, 1);
    for _ in 0..10 {
        let pair = quiet(&mut stage);
        let (now, host) = (stage.now, &mut stage.hosts[0]);
        host.device.to_init(pair).expect("it is new");
        for id in 0..256 {
            let posted = host
                .device
                .post_receive(&mut host.stack, now, pair, id, [piece, piece]);
            posted.expect("there is room");
        }
        let posted = host
            .device
            .post_receive(&mut host.stack, now, pair, 256, [piece, piece]);
        assert_eq!(posted, Err(VerbsError::Full));
        host.device.destroy(&mut host.stack, now, pair);
    }
    let remote = stage.hosts[1].shared.remote(0);
    let request = SendRequest::new(1, WorkOperation::Write(remote), [piece, piece]);
    for _ in 0..30 {
        let posted = (0..).map_while(|_| post(&mut stage, &request).ok()).count();
        assert_eq!(posted, 128);
        (0..128).for_each(|_| succeed(&mut stage, 0, 2));
    }
    stage.assert_no_faults();
}
