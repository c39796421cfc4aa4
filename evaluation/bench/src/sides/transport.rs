//! The common interface of all stacks, as far as the measurements need it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

/// The bytes of one read or write of a bulk transfer, the same for all stacks.
pub(crate) const CHUNK: usize = 256 << 10;

/// A polled stack with connections that carry bytes in order. A call that would block returns `None`, after
/// which the caller takes a [`Transport::turn`].
pub(crate) trait Transport {
    type Connection: Copy + Eq + std::fmt::Debug;

    /// Listens on a port of the stack's own address.
    ///
    /// # Errors
    /// The stack rejected the port.
    fn listen(&mut self, port: u16) -> io::Result<()>;

    /// Accepts the next incoming connection.
    ///
    /// # Errors
    /// The listener failed.
    fn accept(&mut self) -> io::Result<Option<Self::Connection>>;

    /// Begins to open a connection.
    ///
    /// # Errors
    /// The stack rejected the connection.
    fn connect(&mut self, to: SocketAddr) -> io::Result<Self::Connection>;

    /// Returns the handle of the connection once it is open; it replaces the given one. Returns `None`
    /// before.
    ///
    /// # Errors
    /// The connection could not be opened.
    fn opened(&mut self, connection: Self::Connection) -> io::Result<Option<Self::Connection>>;

    /// Reads bytes. A result of 0 is the end of the stream.
    ///
    /// # Errors
    /// The connection failed.
    fn read(&mut self, connection: Self::Connection, out: &mut [u8]) -> io::Result<Option<usize>>;

    /// Writes some of `bytes`.
    ///
    /// # Errors
    /// The connection failed.
    fn write(&mut self, connection: Self::Connection, bytes: &[u8]) -> io::Result<Option<usize>>;

    /// Writes from memory that the stack may reference in place of copying it, if it is configured so.
    ///
    /// # Errors
    /// The connection failed.
    fn write_shared(&mut self, connection: Self::Connection, bytes: Bytes) -> io::Result<Option<usize>> {
        self.write(connection, &bytes)
    }

    /// Ends the writing direction.
    ///
    /// # Errors
    /// The connection failed.
    fn shutdown(&mut self, connection: Self::Connection) -> io::Result<()>;

    /// Closes a connection and releases its handle.
    fn close(&mut self, connection: Self::Connection);

    /// Lets the stack work. If this side may sleep, the call sleeps until a connection changes, or `limit`
    /// has passed. Appends the connections that may have changed.
    ///
    /// # Errors
    /// The device failed.
    fn turn(&mut self, limit: Option<Duration>, changed: &mut Vec<Self::Connection>) -> io::Result<()>;

    /// Returns the number of connections that the stack holds after a time in which all should have ended.
    /// Returns `None` if the stack does not report it.
    ///
    /// # Errors
    /// The device failed.
    fn left_over(&mut self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Returns further counters of the stack.
    fn notes(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// Turns `WouldBlock` into `None`.
///
/// # Errors
/// All other errors.
pub(crate) fn ready<V>(result: io::Result<V>) -> io::Result<Option<V>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
