//! Verbs on tokio between two networks on a cable in memory.

#[path = "common/end.rs"]
mod end;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hawser_engine::StackConfig;
use hawser_engine::net::InterfaceConfig;
use hawser_load::LoadedProgram;
use hawser_sockets::verbs::{
    Access, CompletionQueue, ConnectionAttributes, MemoryRegion, QueuePair, QueuePairConfig, SendRequest,
    Status, VerbsError, WorkCompletion, WorkOperation,
};
use hawser_sockets::{Endpoint, Network};

const MS: u64 = 1_000_000;

/// One end of a connection, and the objects that its work uses.
struct Host {
    network: Network,
    queue: CompletionQueue,
    pair: QueuePair,
    memory: MemoryRegion,
}

/// Returns two connected queue pairs; the flag breaks the first one's device.
async fn hosts(program: &str) -> ([Host; 2], Arc<AtomicBool>) {
    let clock = Arc::new(AtomicU64::new(1_000 * MS));
    let running = clock.clone();
    tokio::spawn(async move {
        while Arc::strong_count(&running) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            running.fetch_add(MS, Ordering::Relaxed);
        }
    });
    let broken = [0, 1].map(|_| Arc::new(AtomicBool::new(false)));
    let mut devices = end::cable(&clock, &broken).map(Some);
    let address = |host: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host + 1));
    let networks = [0u8, 1].map(|host| {
        let device = devices[usize::from(host)].take().expect("one for each");
        let interface = InterfaceConfig { addresses: vec![(address(host), 24)], gateways: vec![], mtu: 1500 };
        let program = LoadedProgram::open(program, None).unwrap_or_else(|error| panic!("{error}"));
        let program = program.with(&[]).expect("a program");
        let config = StackConfig::new(interface, u64::from(host));
        let endpoint = Endpoint::new(program, config, Box::new(device)).expect("an endpoint");
        Network::start(endpoint).expect("it is driven")
    });
    let hosts = networks.map(|network| {
        let (queue, pair, memory) = network
            .verbs(|verbs| {
                let (domain, queue) = (verbs.protection_domain(), verbs.completion_queue());
                let pair = verbs.queue_pair(QueuePairConfig {
                    domain,
                    send_queue: queue,
                    receive_queue: queue,
                    signal_all: true,
                });
                verbs.to_init(pair)?;
                Ok((queue, pair, verbs.register(domain, 10_000, Access::ALL)?))
            })
            .expect("it has verbs");
        Host { network, queue, pair, memory }
    });
    for (host, peer) in [(0, 1), (1, 0)] {
        let connection = ConnectionAttributes {
            access: Access::ALL,
            ..ConnectionAttributes::new(address(peer as u8), hosts[peer].pair.number())
        };
        let pair = hosts[host].pair;
        let connected = hosts[host]
            .network
            .verbs(|verbs| verbs.connect(pair, &connection));
        connected.expect("it was INIT");
    }
    let [broken, _] = broken;
    (hosts, broken)
}

impl Host {
    fn write(&self, id: u64, peer: &Host) -> Result<(), VerbsError> {
        let operation = WorkOperation::Write(peer.memory.remote(0));
        let request = SendRequest::new(id, operation, self.memory.slice(0, 10_000));
        self.network.verbs(|verbs| verbs.post_send(self.pair, &request))
    }

    /// Returns the next completion, with a timeout.
    async fn next(&self) -> Result<WorkCompletion, VerbsError> {
        soon(self.network.completion(self.queue)).await
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, future).await.expect("in time")
}

#[tokio::test]
async fn a_task_waits_for_its_completion_and_a_batch_comes_in_order() {
    let ([here, there], _) = hosts("roce").await;
    here.memory.write(0, &[7; 10_000]);
    let (written, ()) = tokio::join!(here.next(), async {
        tokio::task::yield_now().await;
        here.write(1, &there).expect("there is room");
    });
    let written = written.expect("done");
    assert_eq!((written.id, written.status), (1, Status::Success));
    let bytes = there.memory.region().bytes().to_vec();
    assert!(bytes.iter().all(|byte| *byte == 7));
    for id in 2..34 {
        here.write(id, &there).expect("there is room");
    }
    let mut batch = Vec::new();
    while batch.len() < 32 {
        let more = here.network.completions(here.queue, &mut batch);
        soon(more).await.expect("done");
    }
    let ids: Vec<u64> = batch.iter().map(|completion| completion.id).collect();
    assert_eq!(ids, (2..34).collect::<Vec<_>>());
}

/// Runs both programs, whose packets of 1,024 bytes begin and end inside pieces.
#[tokio::test]
async fn works_have_several_pieces_of_memory() {
    for program in ["roce", "roce-irn"] {
        let ([here, there], _) = hosts(program).await;
        let bytes: Vec<u8> = (0..5_000).map(|at| (at * 7 + at / 251) as u8).collect();
        here.memory.write(6_000, &bytes[..3_001]);
        here.memory.write(10, &bytes[3_001..]);
        let local = [here.memory.slice(6_000, 3_001), here.memory.slice(10, 1_999)];
        let apart = [(9_000, 999), (0, 1), (2_000, 4_000)];
        let receive = apart.map(|(at, len)| there.memory.slice(at, len));
        let posted = there
            .network
            .verbs(|verbs| verbs.post_receive(there.pair, 1, receive));
        posted.expect("there is room");
        let request = SendRequest::new(2, WorkOperation::Send, local);
        let posted = here.network.verbs(|verbs| verbs.post_send(here.pair, &request));
        posted.expect("there is room");
        let received = there.next().await.expect("done");
        assert_eq!((received.status, received.len), (Status::Success, 5_000));
        let memory = there.memory.region().bytes().to_vec();
        let found: Vec<u8> = apart
            .iter()
            .flat_map(|&(at, len)| &memory[at as usize..][..len as usize])
            .copied()
            .collect();
        assert_eq!(found, bytes, "{program}");
    }
}

#[tokio::test]
async fn each_of_several_tasks_gets_one_completion() {
    let ([here, there], _) = hosts("roce").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let (network, queue) = (here.network.clone(), here.queue);
        tasks.spawn(async move { network.completion(queue).await.expect("done").id });
    }
    // A wait that is given up takes no completion with it.
    let given_up = tokio::time::timeout(Duration::from_millis(5), here.network.completion(here.queue));
    given_up.await.expect_err("nothing was posted");
    for id in 0..5 {
        here.write(id, &there).expect("there is room");
    }
    let mut ids = soon(tasks.join_all()).await;
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn flushed_work_completes_after_its_pair_is_destroyed() {
    let ([here, there], _) = hosts("roce").await;
    let destroyed = there.network.verbs(|verbs| {
        verbs.destroy(there.pair);
        Ok(())
    });
    destroyed.expect("it was there");
    let waiting = tokio::spawn({
        let (network, queue) = (here.network.clone(), here.queue);
        async move { network.completion(queue).await }
    });
    for id in 0..3 {
        here.write(id, &there).expect("there is room");
    }
    let first = soon(waiting).await.expect("no panic").expect("a completion");
    assert_eq!((first.id, first.status), (0, Status::RetriesExceeded));
    here.network
        .verbs(|verbs| {
            verbs.destroy(here.pair);
            Ok(())
        })
        .expect("it was there");
    for id in 1..3 {
        let flushed = here.next().await.expect("a completion");
        assert_eq!((flushed.id, flushed.status), (id, Status::Flushed));
    }
    let posted = here.write(3, &there);
    assert_eq!(posted, Err(VerbsError::Gone("queue pair")));
}

#[tokio::test]
async fn a_waiter_sees_completions_before_the_networks_end() {
    let ([here, there], broken) = hosts("roce").await;
    here.write(1, &there).expect("there is room");
    while here
        .network
        .verbs(|verbs| verbs.waiting(here.queue))
        .expect("its queue")
        == 0
    {
        tokio::task::yield_now().await;
    }
    let (network, other) = here
        .network
        .verbs(|verbs| Ok((here.network.clone(), verbs.completion_queue())))
        .expect("it has verbs");
    let waiting = tokio::spawn(async move { network.completion(other).await });
    tokio::task::yield_now().await;
    broken.store(true, Ordering::Relaxed);
    here.write(2, &there).expect("it ends later");
    let ended = || {
        Err(VerbsError::Ended(
            "the task that drives the network has ended".to_owned(),
        ))
    };
    assert_eq!(soon(waiting).await.expect("no panic"), ended());
    let before = here.next().await.map(|completion| completion.id);
    assert_eq!(before, Ok(1));
    assert_eq!(here.next().await, ended());
    assert_eq!(here.write(3, &there), ended().map(drop::<WorkCompletion>));
}

#[tokio::test]
async fn a_queue_of_another_network_is_refused() {
    let ([here, there], _) = hosts("roce").await;
    let foreign = here
        .network
        .verbs(|verbs| Ok([(); 2].map(|()| verbs.completion_queue())));
    let [_, foreign] = foreign.expect("it has verbs");
    let outcome = soon(there.network.completion(foreign)).await;
    assert_eq!(outcome, Err(VerbsError::Gone("completion queue")));
}

#[tokio::test]
async fn a_waiter_learns_that_its_queue_has_been_destroyed() {
    let ([here, _there], _) = hosts("roce").await;
    let network = here.network.clone();
    let other = network.verbs(|verbs| Ok(verbs.completion_queue()));
    let other = other.expect("it has verbs");
    let waiting = tokio::spawn(async move { network.completion(other).await });
    tokio::task::yield_now().await;
    here.network
        .verbs(|verbs| verbs.destroy_queue(other))
        .expect("no pair uses it");
    let outcome = soon(waiting).await.expect("no panic");
    assert_eq!(outcome, Err(VerbsError::Gone("completion queue")));
}
