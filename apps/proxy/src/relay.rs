//! Copies bytes in both directions between a client and the connection that won the race.
//!
//! The end of one direction is passed on as such, and the other direction continues. A reset is passed on as
//! a reset, because a client must be able to distinguish a complete page from an incomplete one.
//!
//! A direction holds a buffer only while it contains data, so an idle tunnel has none.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use hawser::connect::{Connected, Duplex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// The size of one direction's buffer, in bytes.
const BUFFER: usize = 32 * 1024;

/// The result of a relay.
#[derive(Debug)]
pub(crate) struct Relayed {
    /// The number of bytes from the client.
    pub(crate) sent: u64,
    /// The number of bytes to the client.
    pub(crate) received: u64,
    /// The error that ended it, unless both sides closed regularly.
    pub(crate) error: Option<io::Error>,
}

/// Relays until both directions have ended, or one has failed. `early` is the data that the client sent ahead
/// of the answer.
///
/// When one direction has ended and the other is idle for between `half_open` and twice that time, the relay
/// is aborted. A client that has closed completely cannot be told from one that ended its direction until
/// data is sent to it.
pub(crate) async fn relay(
    mut client: TcpStream,
    early: &[u8],
    connected: Connected,
    half_open: Duration,
) -> Relayed {
    let mut far = connected.stream;
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_half = AtomicBool::new(false);
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_far, to_far) = tokio::io::split(&mut far);
        let up = async {
            let ended = pump(early, from_client, to_far, &sent).await;
            is_half.store(true, Ordering::Relaxed);
            ended
        };
        let down = async {
            let ended = pump(&[], from_far, to_client, &received).await;
            is_half.store(true, Ordering::Relaxed);
            ended
        };
        let idle = async {
            let mut before = None;
            loop {
                tokio::time::sleep(half_open).await;
                let moved = || (sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed));
                let now = is_half.load(Ordering::Relaxed).then(moved);
                if now.is_some() && now == before {
                    return;
                }
                before = now;
            }
        };
        tokio::select! {
            ended = async { tokio::try_join!(up, down) } => ended,
            () = idle => {
                let why = "one side had ended and the other was idle";
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
        }
    };
    let error = match ended {
        Ok(((), ())) => None,
        Err(error) => {
            (Box::new(client) as Box<dyn Duplex>).abort();
            far.abort();
            Some(error)
        }
    };
    Relayed { sent: sent.into_inner(), received: received.into_inner(), error }
}

/// Copies one direction until its end, which is passed on.
async fn pump(
    early: &[u8],
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: &AtomicU64,
) -> io::Result<()> {
    if !early.is_empty() {
        forward(early, &mut to, count).await?;
    }
    loop {
        let (buffer, length) = fill(&mut from).await?;
        if length == 0 {
            SPARE.set(Some(buffer));
            return match to.shutdown().await {
                // The receiver has already ended the other direction and received all data.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                result => result,
            };
        }
        let forwarded = forward(&buffer[..length], &mut to, count).await;
        SPARE.set(Some(buffer));
        forwarded?;
    }
}

thread_local! {
    /// The buffer for the next reader in this thread.
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// Reads some data. Returns a buffer and the length of its content. While no data is available, no buffer is
/// held.
async fn fill(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(Box<[u8]>, usize)> {
    poll_fn(|context| {
        let mut buffer = SPARE.take().unwrap_or_else(|| vec![0; BUFFER].into_boxed_slice());
        let mut read = ReadBuf::new(&mut buffer);
        let polled = Pin::new(&mut *from).poll_read(context, &mut read);
        let length = read.filled().len();
        match polled {
            Poll::Ready(Ok(())) => Poll::Ready(Ok((buffer, length))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                SPARE.set(Some(buffer));
                Poll::Pending
            }
        }
    })
    .await
}

async fn forward(bytes: &[u8], to: &mut (impl AsyncWrite + Unpin), count: &AtomicU64) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await?;
    count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// Closes the connection to a rejected client so that the client receives the reason. Closing with unread
/// bytes would send a reset, which may overtake the answer.
pub(crate) async fn dismiss(mut client: TcpStream) {
    const MAX_BYTES: usize = 64 * 1024;
    const MAX_DURATION: Duration = Duration::from_secs(1);
    let drain = async {
        client.shutdown().await?;
        let (mut buffer, mut left) = ([0; 1024], MAX_BYTES);
        while left > 0 {
            match client.read(&mut buffer).await? {
                0 => break,
                length => left = left.saturating_sub(length),
            }
        }
        Ok::<(), io::Error>(())
    };
    // A client that does not close in time is abandoned.
    let _ = tokio::time::timeout(MAX_DURATION, drain).await;
}
