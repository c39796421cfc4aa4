//! Our own stack, by its public interface: an endpoint in poll mode.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hawser::host::{self, DeviceSpec, StackSetup};
use hawser::{Endpoint, Handle};

use super::spec::{Spec, StackKind};
use super::transport::{Transport, ready};
use crate::engine;

/// The time in which connections must end before they count as left over.
const END_LIMIT: Duration = Duration::from_secs(2);
/// The number of connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// An endpoint on a device.
pub(crate) struct Hawser {
    endpoint: Endpoint,
    address: IpAddr,
    sleeps: bool,
    /// True if writes pass memory by reference, in place of copying it.
    by_reference: bool,
    listeners: Vec<Handle>,
    open: HashSet<Handle>,
}

impl Hawser {
    /// Opens the device and runs the program on it: a stack for each shard, each to be driven by a thread of
    /// its own.
    ///
    /// # Errors
    /// The orders are invalid, or the device failed.
    pub(crate) fn open(spec: &Spec) -> io::Result<Vec<Hawser>> {
        let StackKind::Hawser { device, kernel, program, engine, params, shards, by_reference } = &spec.stack
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let program = engine::named(engine, program, params).map_err(io::Error::other)?;
        let device: DeviceSpec = device.parse().map_err(io::Error::other)?;
        let mut setup = match device {
            DeviceSpec::Udp(at) => StackSetup::at_socket(at),
            _ => StackSetup::new(device, spec.address),
        };
        setup.kernel_addresses.extend(*kernel);
        let endpoints = host::open_shards(&program, &setup, *shards).map_err(io::Error::other)?;
        let stacks = endpoints.into_iter().map(|mut endpoint| {
            // Enables the list of changed connections.
            endpoint.take_changed(&mut Vec::new());
            Hawser {
                endpoint,
                address: spec.address.0,
                sleeps: spec.sleeps,
                by_reference: *by_reference,
                listeners: Vec::new(),
                open: HashSet::new(),
            }
        });
        Ok(stacks.collect())
    }
}

impl Transport for Hawser {
    type Connection = Handle;

    fn listen(&mut self, port: u16) -> io::Result<()> {
        let listener = self
            .endpoint
            .listen(SocketAddr::new(self.address, port), BACKLOG)?;
        self.listeners.push(listener);
        Ok(())
    }

    fn accept(&mut self) -> io::Result<Option<Handle>> {
        for listener in &self.listeners {
            if let Some(accepted) = ready(self.endpoint.accept_stream(*listener))? {
                self.open.insert(accepted);
                return Ok(Some(accepted));
            }
        }
        Ok(None)
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<Handle> {
        let handle = self.endpoint.connect(to)?;
        self.open.insert(handle);
        Ok(handle)
    }

    fn opened(&mut self, connection: Handle) -> io::Result<Option<Handle>> {
        let stream = ready(self.endpoint.byte_stream(connection))?;
        self.open.extend(stream);
        Ok(stream)
    }

    fn read(&mut self, connection: Handle, out: &mut [u8]) -> io::Result<Option<usize>> {
        ready(self.endpoint.read(connection, out))
    }

    fn write(&mut self, connection: Handle, bytes: &[u8]) -> io::Result<Option<usize>> {
        ready(self.endpoint.write(connection, bytes))
    }

    fn write_shared(&mut self, connection: Handle, bytes: Bytes) -> io::Result<Option<usize>> {
        ready(match self.by_reference {
            true => self.endpoint.write_shared(connection, &bytes),
            false => self.endpoint.write(connection, &bytes),
        })
    }

    fn shutdown(&mut self, connection: Handle) -> io::Result<()> {
        self.endpoint.shutdown(connection);
        Ok(())
    }

    fn close(&mut self, connection: Handle) {
        self.endpoint.close(connection);
        self.open.remove(&connection);
    }

    fn turn(&mut self, limit: Option<Duration>, changed: &mut Vec<Handle>) -> io::Result<()> {
        let busy = self.endpoint.poll()?;
        if !busy && self.sleeps {
            self.endpoint.wait(limit)?;
            self.endpoint.poll()?;
        }
        self.endpoint.take_changed(changed);
        Ok(())
    }

    fn left_over(&mut self) -> io::Result<Option<u64>> {
        for handle in std::mem::take(&mut self.open)
            .into_iter()
            .chain(std::mem::take(&mut self.listeners))
        {
            self.endpoint.close(handle);
        }
        let begin = Instant::now();
        while self.endpoint.contexts() > 0 && begin.elapsed() < END_LIMIT {
            while self.endpoint.poll()? {}
            self.endpoint.wait(Some(Duration::from_millis(10)))?;
        }
        Ok(Some(self.endpoint.contexts() as u64))
    }

    fn notes(&self) -> Vec<(String, u64)> {
        let counters = self.endpoint.counters();
        vec![
            ("frames_received".into(), counters.frames_received),
            ("frames_sent".into(), counters.frames_sent),
        ]
    }
}
