//! What all stacks have in common, as far as the measurements need it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

/// Bytes of one read or write of a bulk transfer, alike for all stacks.
pub(crate) const CHUNK: usize = 256 << 10;

/// A stack with connections that carry bytes in order, polled. Calls that have nothing to give yet return `None`, after
/// which the caller takes a [`Transport::turn`].
pub(crate) trait Transport {
    /// A connection.
    type Connection: Copy + Eq + std::fmt::Debug;

    /// Listens on a port of the stack's own address.
    ///
    /// # Errors
    /// When the stack refuses.
    fn listen(&mut self, port: u16) -> io::Result<()>;

    /// The next connection that came in.
    ///
    /// # Errors
    /// When the listener failed.
    fn accept(&mut self) -> io::Result<Option<Self::Connection>>;

    /// Begins to open a connection.
    ///
    /// # Errors
    /// When the stack refuses.
    fn connect(&mut self, to: SocketAddr) -> io::Result<Self::Connection>;

    /// The connection once it is open, by which it is known from then on; nothing before.
    ///
    /// # Errors
    /// Why it could not be opened.
    fn opened(&mut self, connection: Self::Connection) -> io::Result<Option<Self::Connection>>;

    /// Reads; 0 is the end.
    ///
    /// # Errors
    /// Why the connection failed.
    fn read(&mut self, connection: Self::Connection, out: &mut [u8]) -> io::Result<Option<usize>>;

    /// Writes some of `bytes`.
    ///
    /// # Errors
    /// Why the connection failed.
    fn write(&mut self, connection: Self::Connection, bytes: &[u8]) -> io::Result<Option<usize>>;

    /// The same from memory that the stack may refer to in place of copying it, if it is to.
    ///
    /// # Errors
    /// Why the connection failed.
    fn write_shared(&mut self, connection: Self::Connection, bytes: Bytes) -> io::Result<Option<usize>> {
        self.write(connection, &bytes)
    }

    /// Says that nothing more will be written.
    ///
    /// # Errors
    /// Why the connection failed.
    fn shutdown(&mut self, connection: Self::Connection) -> io::Result<()>;

    /// Gives a connection back.
    fn close(&mut self, connection: Self::Connection);

    /// Lets the stack work; sleeps, if this side sleeps at all, until there is news, or `limit` is
    /// over. Appends the connections that may have changed.
    ///
    /// # Errors
    /// When the device failed.
    fn turn(&mut self, limit: Option<Duration>, changed: &mut Vec<Self::Connection>) -> io::Result<()>;

    /// How many connections the stack holds after a time in which all should have ended; `None`
    /// where the stack does not say.
    ///
    /// # Errors
    /// When the device failed.
    fn left_over(&mut self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// What the stack says of itself.
    fn notes(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// `WouldBlock` is no error.
///
/// # Errors
/// All others.
pub(crate) fn ready<V>(result: io::Result<V>) -> io::Result<Option<V>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
