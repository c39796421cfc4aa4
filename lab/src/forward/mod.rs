//! The forwarder: one thread that carries the frames of all cells.
//!
//! A cell is a link between two Ethernet cables whose near ends lie in the forwarder's network
//! namespace: what comes out of one is pushed into a row of rules, the simulator's and the lab's
//! own, and what comes through goes into the other. The thread sleeps until a frame comes or one
//! is due. Frames are stamped by the kernel when they arrive, so that the time they waited for the
//! thread counts towards their delay.
//!
//! Invariants: nobody but the thread touches the cells; orders come by a channel and are answered
//! when they are carried out. What waits is bounded by the pipes (see [`hawser_sim::link::Pipe`]).

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

use crate::sys::{self, Watch};

pub(crate) use cell::{Cell, CellSetup, Change};

/// Frames that are taken from one cable before others have their turn.
const BATCH: usize = 64;

/// Something for the thread to do with one cell.
type Order = Box<dyn FnOnce(&mut [Cell], Instant) + Send>;

/// The running forwarder. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Forwarder {
    orders: Option<Sender<Order>>,
    bell: Arc<File>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Opens the near ends of all cells in `core` and starts carrying.
    pub(crate) fn start(core: &Namespace, setups: Vec<CellSetup>) -> io::Result<Forwarder> {
        let cells = core.run(move || setups.into_iter().map(Cell::open).collect::<io::Result<Vec<_>>>());
        let cells = cells.map_err(io::Error::other)??;
        let bell = Arc::new(File::from(sys::event()?));
        let watch = Watch::new(cells.iter().flat_map(Cell::ports).chain([bell.as_fd()]))?;
        let (orders, inbox) = mpsc::channel();
        let thread_bell = Arc::clone(&bell);
        let thread = std::thread::Builder::new()
            .name("lab-forwarder".to_owned())
            .spawn(move || run(cells, &inbox, &thread_bell, &watch))?;
        Ok(Forwarder { orders: Some(orders), bell, thread: Some(thread) })
    }

    /// Has the thread do something with a cell, and waits for the answer; nothing when it ended.
    pub(crate) fn order<T: Send + 'static>(
        &self,
        cell: usize,
        act: impl FnOnce(&mut Cell, Instant) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, wait) = mpsc::sync_channel(1);
        let order: Order = Box::new(move |cells, now| {
            if let Some(cell) = cells.get_mut(cell) {
                // Who asked may have gone.
                let _ = answer.send(act(cell, now));
            }
        });
        self.orders.as_ref()?.send(order).ok()?;
        self.ring();
        wait.recv().ok()
    }

    fn ring(&self) {
        // A bell that is full has been rung.
        let _ = (&*self.bell).write(&1u64.to_ne_bytes());
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

fn run(mut cells: Vec<Cell>, inbox: &Receiver<Order>, bell: &File, watch: &Watch) {
    sys::demand_exact_timers();
    let mut messages = Messages::default();
    loop {
        let more = receive(&mut cells);
        let now = sys::monotonic();
        cells.iter_mut().for_each(|cell| cell.deliver(now, &mut messages));
        if !obey(&mut cells, inbox, bell) {
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

/// Takes a batch of frames from each cable; true when more may wait.
fn receive(cells: &mut [Cell]) -> bool {
    let offset = sys::realtime().nanos_since(sys::monotonic());
    cells
        .iter_mut()
        .fold(false, |more, cell| cell.receive(BATCH, offset) | more)
}

/// Carries out what was ordered, after what came before it; false when nobody can order any more.
fn obey(cells: &mut [Cell], inbox: &Receiver<Order>, mut bell: &File) -> bool {
    loop {
        match inbox.try_recv() {
            Ok(order) => {
                receive(cells);
                order(cells, sys::monotonic());
                // It is rung after each order, so that none is missed when more come meanwhile.
                let _ = bell.read(&mut [0; 8]);
            }
            Err(mpsc::TryRecvError::Empty) => return true,
            Err(mpsc::TryRecvError::Disconnected) => return false,
        }
    }
}
