//! A client of SOCKS5: a greeting, an optional password, and a request. The reply is sent when the race is
//! over, or at once with a relay for datagrams (`associate`).

mod associate;
pub(crate) mod wire;

use std::io;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;

use crate::answer::{self, socks};
use crate::connection::Client;
use crate::event::Protocol;
use crate::relay::{dismiss, relay};

use wire::{Malformed, Parsed, Request};

/// The exchange ended before a request.
enum Stop {
    /// The client disconnected.
    Gone(io::Error),
    /// The client has received the reason in a reply.
    Reported(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Gone(error)
    }
}

/// Serves a client from its first byte to its last.
pub(crate) async fn serve(client: &Client, mut stream: TcpStream) {
    let mut inbox = Vec::new();
    let head = converse(client, &mut stream, &mut inbox);
    let destination = match tokio::time::timeout(client.front.settings.limits.head, head).await {
        Ok(Ok(Request::Connect(destination))) => destination,
        Ok(Ok(Request::Associate(from))) => return associate::serve(client, stream, from).await,
        Ok(Err(Stop::Reported(why))) => {
            client.rejected(why);
            return dismiss(stream).await;
        }
        Ok(Err(Stop::Gone(error))) => {
            return client.rejected(format!("the client closed the connection: {error}"));
        }
        Err(_) => return client.rejected("the client's request did not arrive in time"),
    };
    let began = Instant::now();
    let request = client.asked(Protocol::Socks5, &destination);
    let raced = tokio::select! {
        raced = request.race(destination) => raced,
        // The client has gone. Dropping the future cancels the race.
        () = hung_up(&stream) => return,
    };
    match raced {
        Ok(connected) => {
            if stream.write_all(&wire::reply(socks::SUCCEEDED)).await.is_err() {
                return;
            }
            let candidate = connected.candidate.clone();
            let half_open = client.front.settings.limits.half_open;
            let relayed = relay(stream, &inbox, connected, half_open).await;
            request.closed(candidate, relayed, began);
        }
        Err(error) => {
            if stream
                .write_all(&wire::reply(answer::reply(&error)))
                .await
                .is_ok()
            {
                dismiss(stream).await;
            }
        }
    }
}

/// Exchanges all messages up to the request. Data after it stays in `inbox`.
async fn converse(client: &Client, stream: &mut TcpStream, inbox: &mut Vec<u8>) -> Result<Request, Stop> {
    let methods = next(stream, inbox, |bytes| {
        Ok(wire::greeting(bytes)?.map(|(all, end)| (all.to_vec(), end)))
    })
    .await?;
    let credential = client.front.settings.credential.as_ref();
    let wanted = if credential.is_some() {
        wire::PASSWORD
    } else {
        wire::NO_AUTHENTICATION
    };
    let methods = methods.map_err(|malformed| Stop::Reported(malformed.to_string()))?;
    if !methods.contains(&wanted) {
        stream.write_all(&wire::method(wire::NO_METHOD)).await?;
        return Err(Stop::Reported(
            "the client offers no accepted method of authentication".to_owned(),
        ));
    }
    stream.write_all(&wire::method(wanted)).await?;
    if let Some(credential) = credential {
        let admits =
            |bytes: &[u8]| {
                Ok(wire::password(bytes)?
                    .map(|((user, password), end)| (credential.admits(user, password), end)))
            };
        let is_good = next(stream, inbox, admits)
            .await?
            .map_err(|malformed| Stop::Reported(malformed.to_string()))?;
        stream.write_all(&wire::password_reply(is_good)).await?;
        if !is_good {
            return Err(Stop::Reported("the client's credential is wrong".to_owned()));
        }
    }
    match next(stream, inbox, wire::request).await? {
        Ok(request) => Ok(request),
        Err(malformed) => {
            stream.write_all(&wire::reply(refusal(&malformed))).await?;
            Err(Stop::Reported(malformed.to_string()))
        }
    }
}

fn refusal(malformed: &Malformed) -> u8 {
    match malformed {
        Malformed::Command(_) => socks::NO_SUCH_COMMAND,
        Malformed::AddressType(_) => socks::NO_SUCH_ADDRESS_TYPE,
        // No host can have such a name.
        Malformed::NoText | Malformed::Destination(_) => socks::HOST_UNREACHABLE,
        // Parsing a request never yields the last two.
        Malformed::Version(_)
        | Malformed::PasswordVersion(_)
        | Malformed::NoMethods
        | Malformed::Fragment
        | Malformed::Short => socks::GENERAL,
    }
}

/// Reads the next message, of at most [`wire::MAX_LENGTH`] bytes.
async fn next<T>(
    stream: &mut TcpStream,
    inbox: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Parsed<T>,
) -> io::Result<Result<T, Malformed>> {
    loop {
        match parse(inbox) {
            Ok(Some((message, end))) => {
                inbox.drain(..end);
                return Ok(Ok(message));
            }
            Ok(None) => {}
            Err(malformed) => return Ok(Err(malformed)),
        }
        let mut piece = [0; wire::MAX_LENGTH];
        // No message is longer than a piece, so the inbox never holds more than two pieces.
        match stream.read(&mut piece).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => inbox.extend_from_slice(&piece[..length]),
        }
    }
}

/// Completes when the client has gone. A client that sends data in advance is no longer watched, because the
/// data must stay unread.
async fn hung_up(stream: &TcpStream) {
    match stream.ready(Interest::READABLE | Interest::ERROR).await {
        Ok(ready) if !ready.is_read_closed() && !ready.is_error() => std::future::pending().await,
        Ok(_) | Err(_) => {}
    }
}
