//! Chains in the kernel, in front of a stack that sleeps.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hawser_engine::StackConfig;
use hawser_engine::front::{Front, Ran};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::{Caps, RxFrame, TxFrame, Wire};
use hawser_net::host::{XdpOptions, XdpWire};
use hawser_net::{Device, Endpoint};

use crate::stage::{self, DEVICE, Stage, TestResult, hawser_v4, linux_v4, poll_until, ready};

/// Bytes of the stream.
const STREAM: usize = 300_000;

/// Selective repeat carries a stream whose acknowledgements leave from the kernel.
pub(crate) fn acknowledgements_leave_from_the_kernel(stage: &Stage) -> TestResult {
    let handled = Handled::default();
    let program = hawser_load::programs::resolve("selective-repeat", &[])?;
    let mut near = endpoint(program, &handled)?;
    let listener = near.listen(SocketAddr::new(hawser_v4(), 80), 1)?;
    let far = stage
        .at_the_far_end("selective-repeat", &[], linux_v4())?
        .ok_or("there is a far end")?;
    let sender = std::thread::spawn(move || send(far).map_err(|error| error.to_string()));
    let connection = poll_until(&mut near, "a connection", |e| ready(e.accept(listener)))?;
    let (mut received, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    poll_until(&mut near, "the stream", |e| {
        while let Some(n) = ready(e.read(connection, &mut chunk))? {
            if n == 0 {
                return Ok(Some(()));
            }
            received.extend_from_slice(&chunk[..n]);
        }
        Ok(None)
    })?;
    near.shutdown(connection);
    poll_until(&mut near, "the end", |_| Ok(sender.is_finished().then_some(())))?;
    sender.join().map_err(|_| "the sender panicked")??;
    assert!(
        received == bytes(),
        "{} bytes are not what was sent",
        received.len()
    );
    let counts = handled.0.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("handled {}, answered {} in the kernel", counts[0], counts[1]);
    assert!(
        counts[1] > 10,
        "only {counts:?} frames were handled and answered in the kernel"
    );
    Ok(())
}

fn bytes() -> Vec<u8> {
    (0..STREAM).map(|i| (i * 31 >> 3) as u8).collect()
}

/// Sends the stream in pieces, so that the other end sleeps in between.
fn send(mut far: Endpoint) -> TestResult {
    let connection = far.connect(SocketAddr::new(hawser_v4(), 80))?;
    poll_until(&mut far, "the connection", |e| {
        Ok(e.connected(connection)?.then_some(()))
    })?;
    for piece in bytes().chunks(1000) {
        let mut rest = piece;
        poll_until(&mut far, "room", |e| {
            while !rest.is_empty() {
                match ready(e.write(connection, rest))? {
                    Some(n) => rest = &rest[n..],
                    None => return Ok(None),
                }
            }
            Ok(Some(()))
        })?;
        std::thread::sleep(Duration::from_millis(1));
    }
    far.shutdown(connection);
    poll_until(&mut far, "the end", |e| {
        ready(e.read(connection, &mut [0])).map(|read| read.map(drop))
    })
}

/// Frames that the kernel has handled, and answered.
#[derive(Clone, Default)]
struct Handled(Arc<[AtomicU64; 2]>);

/// An endpoint over AF_XDP, its program's chains in the kernel.
fn endpoint(program: Arc<dyn Program>, handled: &Handled) -> TestResult<Endpoint> {
    let options = XdpOptions {
        addresses: vec![hawser_v4(), stage::hawser_v6()],
        answers: true,
        ..XdpOptions::default()
    };
    let mut wire = XdpWire::open(DEVICE, &options)?;
    let c = hawser_load::emit(program.module(), hawser_load::Machine::Ebpf)?;
    wire.run_chains(program.module(), &c)?;
    let interface = InterfaceConfig {
        addresses: vec![(hawser_v4(), 24), (stage::hawser_v6(), 64)],
        gateways: vec![],
        mtu: 1500,
    };
    let device = Box::new(Counted {
        wire,
        handled: handled.clone(),
    });
    Ok(Endpoint::new(program, StackConfig::new(interface, 7), device)?)
}

/// A wire that counts what its chains handle.
struct Counted {
    wire: XdpWire,
    handled: Handled,
}

impl Wire for Counted {
    fn caps(&self) -> &Caps {
        self.wire.caps()
    }

    fn receive(&mut self, max: usize) -> std::io::Result<usize> {
        let (handled, answered) = self.wire.handled();
        self.handled.0[0].store(handled, Ordering::Relaxed);
        self.handled.0[1].store(answered, Ordering::Relaxed);
        self.wire.receive(max)
    }

    fn frame(&self, i: usize) -> RxFrame<'_> {
        self.wire.frame(i)
    }

    fn release(&mut self) {
        self.wire.release();
    }

    fn room(&mut self) -> usize {
        self.wire.room()
    }

    fn transmit(&mut self, frames: &[TxFrame]) -> std::io::Result<usize> {
        self.wire.transmit(frames)
    }

    fn ran(&self, i: usize) -> Option<Ran<'_>> {
        self.wire.ran(i)
    }

    fn front(&mut self) -> Option<&mut dyn Front> {
        self.wire.front()
    }
}

impl Device for Counted {
    fn readiness(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }

    fn wait(&self, limit: Option<Duration>) -> std::io::Result<()> {
        self.wire.wait(limit)
    }
}
