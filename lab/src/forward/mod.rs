//! The forwarder: one thread that carries the frames of all cells.
//!
//! A cell is a link between two Ethernet cables whose near ends are in the forwarder's network namespace.
//! Each frame from one cable passes a sequence of rules, the simulator's and the lab's own. The frames that
//! pass leave through the other cable. The thread sleeps until a frame comes or one is due. The kernel stamps
//! frames when they arrive, so that the time for which they waited for the thread counts towards their delay.
//!
//! Invariants: only the thread touches the cells. Orders come through a channel, and are answered when they
//! are executed. The pipes bound the number of waiting frames (see [`hawser_sim::link::Pipe`]).

mod cell;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_host::netns::Namespace;
use hawser_host::port::Messages;
use hawser_time::Instant;

use crate::sys::{self, Epoll};

pub(crate) use cell::{Cell, CellSetup, RuleChange};

/// The number of frames that are taken from one cable before others have their turn.
const BATCH: usize = 64;

/// An operation for the thread to execute on one cell.
type Order = Box<dyn FnOnce(&mut [Cell], Instant) + Send>;

/// The running forwarder. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Forwarder {
    orders: Option<Sender<Order>>,
    wakeup: Arc<File>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Opens the near ends of all cells in `core` and starts the thread.
    pub(crate) fn start(core: &Namespace, setups: Vec<CellSetup>) -> io::Result<Forwarder> {
        let cells = core.run(move || setups.into_iter().map(Cell::open).collect::<io::Result<Vec<_>>>());
        let cells = cells.map_err(io::Error::other)??;
        let wakeup = Arc::new(File::from(sys::event()?));
        let watch = Epoll::new(cells.iter().flat_map(Cell::ports).chain([wakeup.as_fd()]))?;
        let (orders, inbox) = mpsc::channel();
        let thread_bell = Arc::clone(&wakeup);
        let thread = std::thread::Builder::new()
            .name("lab-forwarder".to_owned())
            .spawn(move || run(cells, &inbox, &thread_bell, &watch))?;
        Ok(Forwarder { orders: Some(orders), wakeup, thread: Some(thread) })
    }

    /// Makes the thread execute an operation on a cell, and waits for the answer. Returns `None` if the
    /// thread has ended.
    pub(crate) fn order<T: Send + 'static>(
        &self,
        cell: usize,
        act: impl FnOnce(&mut Cell, Instant) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, wait) = mpsc::sync_channel(1);
        let order: Order = Box::new(move |cells, now| {
            if let Some(cell) = cells.get_mut(cell) {
                // The caller may no longer wait for the answer.
                let _ = answer.send(act(cell, now));
            }
        });
        self.orders.as_ref()?.send(order).ok()?;
        self.ring();
        wait.recv().ok()
    }

    fn ring(&self) {
        // If the eventfd is full, the thread is already notified.
        let _ = (&*self.wakeup).write(&1u64.to_ne_bytes());
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.orders = None;
        self.ring();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

fn run(mut cells: Vec<Cell>, inbox: &Receiver<Order>, wakeup: &File, watch: &Epoll) {
    sys::demand_exact_timers();
    let mut messages = Messages::default();
    loop {
        let more = receive(&mut cells);
        let now = sys::monotonic();
        cells.iter_mut().for_each(|cell| cell.deliver(now, &mut messages));
        if !obey(&mut cells, inbox, wakeup) {
            return;
        }
        if more {
            continue;
        }
        let due = cells.iter().filter_map(Cell::next_deadline).min();
        let limit = due.map(|due| due - sys::monotonic());
        if limit != Some(Duration::ZERO)
            && let Err(error) = watch.wait(limit)
        {
            tracing::warn!(%error, "the links of a lab have stopped");
            return;
        }
    }
}

/// Takes a batch of frames from each cable, and returns whether more may wait.
fn receive(cells: &mut [Cell]) -> bool {
    let offset = sys::realtime().nanos_since(sys::monotonic());
    cells
        .iter_mut()
        .fold(false, |more, cell| cell.receive(BATCH, offset) | more)
}

/// Executes the orders, after the frames that came before them. Returns false once no further orders can
/// come.
fn obey(cells: &mut [Cell], inbox: &Receiver<Order>, mut wakeup: &File) -> bool {
    loop {
        match inbox.try_recv() {
            Ok(order) => {
                receive(cells);
                order(cells, sys::monotonic());
                // The eventfd is written after each order, so that an order that comes meanwhile is not
                // missed.
                let _ = wakeup.read(&mut [0; 8]);
            }
            Err(mpsc::TryRecvError::Empty) => return true,
            Err(mpsc::TryRecvError::Disconnected) => return false,
        }
    }
}
