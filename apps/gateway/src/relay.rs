//! Copies bytes in both directions between a client's stream and the onward connection.
//!
//! Invariants: the end of one direction is passed on to the other side and does not end the other direction,
//! but a reset does. Data in transit is bounded by two buffers of [`BUFFER`] bytes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

/// The buffer size of one direction, in bytes.
const BUFFER: usize = 32 << 10;

/// The reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// Both sides sent all their data.
    Finished,
    /// The client reset its stream, or its session ended.
    ByClient,
    /// The destination reset the connection.
    ByDestination,
    /// The connection was idle for too long.
    Idle,
}

/// The amount of data carried by a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayedBytes {
    /// The number of bytes to the destination.
    pub up: u64,
    /// The number of bytes to the client.
    pub down: u64,
}

/// Copies until both directions have ended, one side resets, no data moves for `idle`, or `stop` is ready
/// because the client stopped the stream.
pub(crate) async fn relay<C, D>(
    client: &mut C,
    destination: &mut D,
    idle: Duration,
    stop: impl Future<Output = ()>,
) -> (DisconnectReason, RelayedBytes)
where
    C: AsyncRead + AsyncWrite + Unpin,
    D: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_destination, mut to_destination) = tokio::io::split(destination);
    let began = Instant::now();
    let (up, down) = (TransferMeter::new(began), TransferMeter::new(began));
    let both = async {
        let up = async {
            copy(&mut from_client, &mut to_destination, &up)
                .await
                .map_err(|broken| match broken {
                    RelayError::Source => DisconnectReason::ByClient,
                    RelayError::Sink => DisconnectReason::ByDestination,
                })
        };
        let down = async {
            copy(&mut from_destination, &mut to_client, &down)
                .await
                .map_err(|broken| match broken {
                    RelayError::Source => DisconnectReason::ByDestination,
                    RelayError::Sink => DisconnectReason::ByClient,
                })
        };
        tokio::try_join!(up, down).map_or_else(|end| end, |_| DisconnectReason::Finished)
    };
    let idle = async {
        loop {
            let last = up.last().max(down.last());
            let due = began + last + idle;
            if Instant::now() >= due {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    };
    let end = tokio::select! {
        end = both => end,
        () = idle => DisconnectReason::Idle,
        () = stop => DisconnectReason::ByClient,
    };
    (end, RelayedBytes { up: up.bytes(), down: down.bytes() })
}

enum RelayError {
    Source,
    Sink,
}

/// Copies one direction until its end, which is passed on.
async fn copy(
    source: &mut (impl AsyncRead + Unpin),
    sink: &mut (impl AsyncWrite + Unpin),
    meter: &TransferMeter,
) -> Result<(), RelayError> {
    let is_over = |error: &io::Error| error.kind() == io::ErrorKind::NotConnected;
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = source.read(&mut buffer).await.map_err(|_| RelayError::Source)?;
        if length == 0 {
            return match sink.shutdown().await {
                // If the sink was reset in the meantime, the other direction reports it.
                Err(error) if !is_over(&error) => Err(RelayError::Sink),
                _ => Ok(()),
            };
        }
        let mut left = &buffer[..length];
        while !left.is_empty() {
            match sink.write(left).await {
                Ok(written) if written > 0 => {
                    left = &left[written..];
                    meter.moved(written);
                }
                _ => return Err(RelayError::Sink),
            }
        }
    }
}

/// The amount of data in one direction, and the time of the last transfer.
struct TransferMeter {
    began: Instant,
    bytes: AtomicU64,
    last: AtomicU64,
}

impl TransferMeter {
    fn new(began: Instant) -> TransferMeter {
        TransferMeter { began, bytes: AtomicU64::new(0), last: AtomicU64::new(0) }
    }

    fn moved(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    fn last(&self) -> Duration {
        Duration::from_millis(self.last.load(Ordering::Relaxed))
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use tokio::io::duplex;

    const IDLE: Duration = Duration::from_secs(300);

    #[tokio::test(start_paused = true)]
    async fn each_direction_ends_by_itself() {
        let ((mut client, mut near), (mut far, mut server)) = (duplex(1_000), duplex(1_000));
        let relayed = tokio::spawn(async move { relay(&mut near, &mut far, IDLE, pending()).await });
        client.write_all(b"question").await.expect("room");
        client.shutdown().await.expect("an end");
        let mut received = String::new();
        server
            .read_to_string(&mut received)
            .await
            .expect("the question and its end");
        assert_eq!(received, "question");
        // The end of the request is not the end of the response.
        tokio::time::sleep(Duration::from_secs(299)).await;
        server.write_all(b"long answer").await.expect("room");
        server.shutdown().await.expect("an end");
        received.clear();
        client
            .read_to_string(&mut received)
            .await
            .expect("the answer and its end");
        assert_eq!(received, "long answer");
        let carried = RelayedBytes { up: 8, down: 11 };
        assert_eq!(
            relayed.await.expect("it ended"),
            (DisconnectReason::Finished, carried)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_relay_ends_after_its_timeout() {
        let ((mut client, mut near), (mut far, mut server)) = (duplex(1_000), duplex(1_000));
        let began = Instant::now();
        let relayed = tokio::spawn(async move { relay(&mut near, &mut far, IDLE, pending()).await });
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(200)).await;
            client.write_all(b"1").await.expect("room");
            tokio::time::sleep(Duration::from_secs(200)).await;
            server.write_all(b"2").await.expect("room");
        }
        assert_eq!(
            relayed.await.expect("it ended"),
            (DisconnectReason::Idle, RelayedBytes { up: 3, down: 3 })
        );
        assert_eq!(began.elapsed().as_secs(), 6 * 200 + 300);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_names_the_side_that_broke_the_connection() {
        let ((mut client, mut near), (mut far, server)) = (duplex(1_000), duplex(1_000));
        drop(server);
        client.write_all(b"into the void").await.expect("room");
        assert_eq!(
            relay(&mut near, &mut far, IDLE, pending()).await.0,
            DisconnectReason::ByDestination
        );

        let ((client, mut near), (mut far, mut server)) = (duplex(1_000), duplex(1_000));
        drop(client);
        server.write_all(b"into the void").await.expect("room");
        assert_eq!(
            relay(&mut near, &mut far, IDLE, pending()).await.0,
            DisconnectReason::ByClient
        );
    }
}
