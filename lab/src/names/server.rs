//! The resolver: one thread that answers the questions of all hosts, with a socket for each host.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_time::Instant;

use crate::sys::{self, Epoll};

use super::{RESOLVER, Zone};

/// The port of the domain name system.
const PORT: u16 = 53;
/// The largest number of answers that wait for their time. Further questions get no answer.
const WAITING: usize = 4096;
/// The largest number of bytes that are read of a query.
const QUERY: usize = 4096;

/// An answer that waits to be sent: its time, its number, its socket, its destination, its bytes.
type Pending = Reverse<(Instant, u64, usize, SocketAddr, Vec<u8>)>;

/// The running resolver. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct NameServer {
    over: Arc<AtomicBool>,
    wakeup: Arc<File>,
    thread: Option<JoinHandle<()>>,
}

/// Opens the socket for a host's questions, in the calling thread's network namespace.
pub(crate) fn listen() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((RESOLVER, PORT))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl NameServer {
    /// Starts to answer on these sockets.
    pub(crate) fn start(zone: Zone, sockets: Vec<UdpSocket>) -> io::Result<NameServer> {
        let over = Arc::new(AtomicBool::new(false));
        let wakeup = Arc::new(File::from(sys::event()?));
        let watch = Epoll::new(sockets.iter().map(AsFd::as_fd).chain([wakeup.as_fd()]))?;
        let thread_over = Arc::clone(&over);
        let thread = std::thread::Builder::new()
            .name("lab-resolver".to_owned())
            .spawn(move || serve(&zone, &sockets, &thread_over, &watch))?;
        Ok(NameServer { over, wakeup, thread: Some(thread) })
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // If the eventfd is full, the thread is already notified.
        let _ = (&*self.wakeup).write(&1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

fn serve(zone: &Zone, sockets: &[UdpSocket], over: &AtomicBool, watch: &Epoll) {
    let mut waiting: BinaryHeap<Pending> = BinaryHeap::new();
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        for (which, socket) in sockets.iter().enumerate() {
            let mut query = [0; QUERY];
            while let Ok((len, from)) = socket.recv_from(&mut query) {
                let Some((delay, answer)) = zone.answer(&query[..len]) else {
                    continue;
                };
                if waiting.len() < WAITING {
                    number += 1;
                    let at = sys::monotonic() + delay;
                    waiting.push(Reverse((at, number, which, from, answer)));
                }
            }
        }
        let now = sys::monotonic();
        while waiting.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            if let Some(Reverse((_, _, which, to, answer))) = waiting.pop() {
                // The host's socket may be closed already.
                let _ = sockets[which].send_to(&answer, to);
            }
        }
        let due = waiting.peek().map(|Reverse((at, ..))| *at);
        let limit = due.map(|at| at - sys::monotonic());
        if limit != Some(Duration::ZERO) && watch.wait(limit).is_err() {
            return;
        }
    }
}
