//! Measures the memory of an idle TCP connection at either end: the context, its ids, its handle, its
//! buffers, its timers and its share of the tables.

#![allow(unsafe_code)] // An allocator that counts.
#![allow(unreachable_pub)]

#[path = "../../engine/tests/common/cable.rs"]
#[allow(dead_code)]
mod cable;

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cable::{Cable, cable};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Handle, Notice, Stack, StackConfig};
use hawser_load::Interpreted;
use hawser_time::Instant;

/// The system's allocator, with a count of the memory in use, including its own overhead.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// Returns the memory that glibc uses for an allocation: one more word, rounded up to 16 bytes, and at least
/// 32 bytes.
fn taken(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of connections opened, in total and at a time.
const CONNECTIONS: usize = 10_000;
const AT_A_TIME: usize = 50;
/// The memory in bytes allowed for each connection at each end.
const ALLOWED: usize = 2048;
/// The engine's part of that memory, in bytes.
const ENGINE: usize = 500;

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host + 1].into(), port)
}

fn stack(host: u8, end: &Cable) -> Stack {
    let module = hawser_load::builtin("tcp").expect("it comes with Hawser");
    let program = Interpreted::new(module.unwrap_or_else(|rejected| panic!("{rejected}")), &[]);
    let addresses = vec![(address(host, 0).ip(), 24)];
    let interface = InterfaceConfig { addresses, gateways: vec![], mtu: 1500 };
    let mut config = StackConfig::new(interface, u64::from(host));
    config.ephemeral = 1024..=65_535;
    Stack::new(
        Arc::new(program.expect("a program that runs")),
        config,
        end.caps(),
    )
    .expect("good")
}

/// Lets both stacks do all due work. The notices of the server's application go to `accepted`.
fn settle(stacks: &mut [Stack; 2], ends: &mut [Cable; 2], now: u64, accepted: &mut Vec<Handle>) {
    loop {
        let mut any = false;
        for (stack, end) in stacks.iter_mut().zip(ends.iter_mut()) {
            while stack
                .poll(Instant::from_nanos(now), end)
                .expect("a cable does not fail")
            {
                any = true;
            }
            while let Some((handle, notice)) = stack.next_notice() {
                match notice {
                    Notice::Accepted(child) => {
                        stack.accept(handle);
                        accepted.push(child);
                    }
                    Notice::Readable => {
                        let mut out = [0; 4096];
                        while let Ok(1..) = stack.recv(Instant::from_nanos(now), handle, &mut out) {}
                    }
                    _ => {}
                }
                any = true;
            }
        }
        if !any {
            return;
        }
    }
}

/// Opens connections and sends some bytes over each. Returns the time when all activity has ended.
fn open(stacks: &mut [Stack; 2], ends: &mut [Cable; 2], count: usize, now: u64) -> u64 {
    let mut now = now;
    let mut accepted = Vec::with_capacity(count);
    for _ in 0..count / AT_A_TIME {
        let clients: Vec<Handle> = (0..AT_A_TIME)
            .map(|_| {
                stacks[0]
                    .connect(Instant::from_nanos(now), address(1, 80), None)
                    .expect("free")
            })
            .collect();
        settle(stacks, ends, now, &mut accepted);
        for client in clients {
            assert_eq!(
                stacks[0].send(Instant::from_nanos(now), client, &[7; 3000]),
                Ok(3000)
            );
        }
        settle(stacks, ends, now, &mut accepted);
        now += 1_000_000;
    }
    assert_eq!(accepted.len(), count);
    // Delayed acknowledgements and stopped timers are over by then.
    let quiet = now + 5_000_000_000;
    while let Some(next) = stacks
        .iter()
        .filter_map(Stack::next_deadline)
        .min()
        .map(Instant::as_nanos)
        .filter(|next| *next < quiet)
    {
        now = now.max(next);
        settle(stacks, ends, now, &mut accepted);
    }
    quiet
}

#[test]
fn an_idle_connection_takes_at_most_two_kibibytes() {
    let mut ends = cable(0, 1);
    let mut stacks = [stack(0, &ends[0]), stack(1, &ends[1])];
    stacks[1]
        .listen(Instant::from_nanos(1), address(1, 80), 1000)
        .expect("free");
    let now = open(&mut stacks, &mut ends, AT_A_TIME, 1);
    let before = HELD.load(Ordering::Relaxed);
    open(&mut stacks, &mut ends, CONNECTIONS, now);
    let each = (HELD.load(Ordering::Relaxed) - before) / (2 * CONNECTIONS);
    let module = hawser_load::builtin("tcp")
        .and_then(Result::ok)
        .expect("it comes with Hawser");
    let context = (0..module.contexts.len() as u32)
        .find(|id| module.contexts[*id as usize].name == "tcp_conn")
        .map_or(0, |id| module.context_size(hawser_ir::ContextId(id)));
    println!("{each} bytes for each idle connection, {context} of them the program's context");
    assert_eq!(
        stacks.each_ref().map(Stack::held_bytes),
        [(0, 0); 2],
        "nothing is in use"
    );
    assert!(each <= ALLOWED, "{each} bytes");
    assert!(
        each < context + ENGINE,
        "{} bytes beside the context's {context}",
        each - context
    );
}
