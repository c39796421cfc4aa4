//! One-time codes. Only a peer that knows a short code, which a person has passed on, may use a session.
//!
//! On the session's first stream, the client proves that it knows the code, and the server proves the same in
//! return. Both do so before any application byte goes in either direction. The proof is SPAKE2 (RFC 9382, in
//! the form of the crate `spake2`) with explicit key confirmation. Each exchange lets each side try one code;
//! the exchanged messages do not help to try codes later. The identities of SPAKE2 and the confirmations
//! contain key material of this one session ([`Session::export`], which comes from TLS). An exchange that is
//! relayed between two sessions therefore fails. `docs/session-protocol.md` defines the bytes.
//!
//! In an insecure session, that key material is not secret. The code still decides who is served, but an
//! attacker on the path may read and change the data that follows.

use std::fmt;
use std::io;
use std::pin::pin;
use std::str::FromStr;

use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use sha2::Sha256;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::admission::{AdmissionPermit, EvictionReason};
use super::code_error::{CodeError, EXCHANGE_TIMEOUT};
use super::handle::Session;
use super::stream::SessionStream;

/// The number of wrong codes after which a [`CodeGate`] admits no client any more.
pub const MAX_GUESSES: u32 = 3;
/// The permitted length of a code, in bytes.
const CODE_LENGTH: std::ops::RangeInclusive<usize> = 8..=64;

/// The first line of the client's stream.
const GREETING: &[u8] = b"hawser code 1\n";
/// The length of a SPAKE2 message over Ed25519: the side and a point.
const MESSAGE: usize = 33;
/// The length of a confirmation, which is an HMAC-SHA256.
const CONFIRMATION: usize = 32;
/// The label of the key material that binds an exchange to its session.
const BINDING: &[u8] = b"one-time code 1";
/// The roles, as used in SPAKE2's identities and in the confirmations.
const CLIENT: &[u8] = b"hawser code client";
const SERVER: &[u8] = b"hawser code server";
/// The count of numbers that a generated code may begin with: 0 to 99.
const NUMBERS: u8 = 100;
/// The 256 words of codes, each of which carries 8 bits, one per line. They are common English nouns of four to
/// nine letters that are not confused when spoken or typed. No two begin with the same four letters.
const WORDS: &str = include_str!("words.txt");

/// A one-time code such as `7-crossword-anvil`, of letters, digits and hyphens.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    /// Generates a code: a number below 100 and two of 256 words, uniformly distributed. There are 6,553,600
    /// such codes, or 22.6 bits. [`MAX_GUESSES`] guesses find the code with a probability of 1 in 2.2
    /// million.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn generate() -> Result<Code, getrandom::Error> {
        let fair = u8::MAX - u8::MAX % NUMBERS;
        loop {
            let mut random = [0; 3];
            getrandom::fill(&mut random)?;
            let [number, first, second] = random;
            // Numbers are equally likely only below a multiple of their count.
            if number < fair {
                let word = |at: u8| WORDS.lines().nth(at.into()).unwrap_or_default();
                let (number, first, second) = (number % NUMBERS, word(first), word(second));
                return Ok(Code(format!("{number}-{first}-{second}")));
            }
        }
    }

    /// Proves to the server of this session that this side knows the code, and has the server prove the same.
    /// No stream may have been opened on the session before.
    ///
    /// # Errors
    /// The server rejected the code or does not know it, did not answer in time, or the session ended.
    pub async fn prove(&self, session: &Session) -> Result<(), CodeError> {
        in_time(async {
            session.opened().await?;
            let binding = binding(session)?;
            let [client, server] = identities(&binding);
            let (exchange, message) = Spake2::<Ed25519Group>::start_a(&self.password(), &client, &server);
            let mut stream = session.open()?;
            stream.write_all(&[GREETING, &message].concat()).await?;
            let answer: [u8; MESSAGE] = self.next(session, &mut stream).await?;
            let key = exchange.finish(&answer).map_err(|_| CodeError::Protocol)?;
            stream
                .write_all(&confirmation(&key, CLIENT, &binding).finalize().into_bytes())
                .await?;
            let proof: [u8; CONFIRMATION] = self.next(session, &mut stream).await?;
            let right = confirmation(&key, SERVER, &binding).verify_slice(&proof);
            right.map_err(|_| CodeError::Wrong)?;
            Ok(stream.shutdown().await?)
        })
        .await
    }

    /// Returns the server's next message, or the server's verdict if it ended the session over the code.
    async fn next<const N: usize>(
        &self,
        session: &Session,
        stream: &mut SessionStream,
    ) -> Result<[u8; N], CodeError> {
        let mut message = [0; N];
        match stream.read_exact(&mut message).await {
            Ok(_) => Ok(message),
            Err(error) => Err(match session.shared.lock().closed {
                Some(end) if end.is_by_peer() => CodeError::of_end(end).unwrap_or(CodeError::Io(error)),
                _ if error.kind() == io::ErrorKind::UnexpectedEof => CodeError::Protocol,
                _ => CodeError::Io(error),
            }),
        }
    }

    fn password(&self) -> Password {
        Password::new(self.0.as_bytes())
    }
}

/// Prints only the type's name, because the code must not appear in logs.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code")
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Code {
    type Err = CodeSyntax;

    /// Accepts upper case for lower case and spaces for hyphens, because people dictate codes.
    fn from_str(text: &str) -> Result<Code, CodeSyntax> {
        let code = text.trim().to_ascii_lowercase().replace(' ', "-");
        let fits = CODE_LENGTH.contains(&code.len());
        let is_plain = code
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if fits && is_plain {
            Ok(Code(code))
        } else {
            Err(CodeSyntax)
        }
    }
}

/// The text is not a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a code has 8 to 64 letters, digits and hyphens, for example 7-crossword-anvil")]
pub struct CodeSyntax;

impl CodeError {
    /// Returns the code of CLOSE with which a server reports it (`docs/session-protocol.md`, "CLOSE").
    fn close(&self) -> u64 {
        match self {
            Self::Wrong | Self::Protocol => 7,
            Self::Missing | Self::Late | Self::Io(_) => 8,
            Self::Exhausted => 9,
        }
    }
}

/// The server's side of a code. It admits the sessions whose clients know the code.
#[derive(Debug)]
pub struct CodeGate {
    code: Code,
    /// The number of wrong codes that are still accepted.
    left: Mutex<u32>,
}

impl CodeGate {
    /// Creates a gate that closes after [`MAX_GUESSES`] wrong codes.
    pub fn new(code: Code) -> CodeGate {
        CodeGate { code, left: Mutex::new(MAX_GUESSES) }
    }

    /// Returns the number of wrong codes that are still accepted. At 0, no client is admitted any more.
    pub fn guesses_left(&self) -> u32 {
        *self.left.lock()
    }

    /// Waits for the proof that this session's client knows the code. A session that is not admitted is
    /// closed. Several sessions may be tried at once, and each wrong code counts.
    ///
    /// # Errors
    /// The session was not admitted, for the reason given.
    pub async fn admit(&self, session: &Session) -> Result<(), CodeError> {
        self.admit_if(session, &Notify::new()).await
    }

    /// Does the same for a client in a place, which the client keeps once it has proved that it knows the
    /// code. Returns `None` if the client has to make room before that. The session is then left to the
    /// caller.
    pub async fn admit_in(
        &self,
        place: &mut AdmissionPermit,
        session: &Session,
    ) -> Option<Result<(), CodeError>> {
        let proved = Notify::new();
        let mut admitted = pin!(self.admit_if(session, &proved));
        match place.hold_until(proved.notified(), &mut admitted).await {
            EvictionReason::Done(admitted) => Some(admitted),
            EvictionReason::Proved => Some(admitted.await),
            EvictionReason::Evicted => None,
        }
    }

    /// Admits a session, and signals `proved` when its client has proved that it knows the code.
    async fn admit_if(&self, session: &Session, proved: &Notify) -> Result<(), CodeError> {
        // The client's stream is kept until the session is closed, so that the client reads the reason and
        // not a clean end.
        let mut stream = None;
        let admitted = in_time(self.examine(session, &mut stream, proved)).await;
        if let Err(error) = &admitted {
            // The result of the close does not matter, because no data was sent on the session.
            let _ = session.close(error.close()).await;
        }
        admitted
    }

    async fn examine(
        &self,
        session: &Session,
        stream: &mut Option<SessionStream>,
        proved: &Notify,
    ) -> Result<(), CodeError> {
        let stream = stream.insert(session.accept().await?);
        let mut greeting = [0; GREETING.len()];
        match stream.read_exact(&mut greeting).await {
            Ok(_) if greeting == GREETING => {}
            Ok(_) => return Err(CodeError::Missing),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(CodeError::Missing),
            Err(error) => return Err(error.into()),
        }
        let mut message = [0; MESSAGE];
        stream.read_exact(&mut message).await?;
        // The client has sent a segment after ACCEPT, so its secret is final.
        let binding = binding(session)?;
        let [client, server] = identities(&binding);
        let (exchange, answer) = Spake2::<Ed25519Group>::start_b(&self.code.password(), &client, &server);
        let key = exchange.finish(&message).map_err(|_| CodeError::Protocol)?;
        stream.write_all(&answer).await?;
        let mut proof = [0; CONFIRMATION];
        stream.read_exact(&mut proof).await?;
        // The client proves first. Without this side's confirmation a client cannot tell a right code from a
        // wrong one, so a client that leaves earlier has not guessed.
        self.judge(|| confirmation(&key, CLIENT, &binding).verify_slice(&proof).is_ok())?;
        proved.notify_one();
        stream
            .write_all(&confirmation(&key, SERVER, &binding).finalize().into_bytes())
            .await?;
        Ok(stream.shutdown().await?)
    }

    /// Judges a guess and counts it, one guess at a time.
    fn judge(&self, is_right: impl FnOnce() -> bool) -> Result<(), CodeError> {
        let mut left = self.left.lock();
        if *left == 0 {
            return Err(CodeError::Exhausted);
        }
        if is_right() {
            return Ok(());
        }
        *left -= 1;
        Err(CodeError::Wrong)
    }
}

async fn in_time<T>(exchange: impl Future<Output = Result<T, CodeError>>) -> Result<T, CodeError> {
    tokio::time::timeout(EXCHANGE_TIMEOUT, exchange)
        .await
        .unwrap_or(Err(CodeError::Late))
}

fn binding(session: &Session) -> Result<[u8; 32], CodeError> {
    session.export(BINDING).ok_or(CodeError::Protocol)
}

fn identities(binding: &[u8; 32]) -> [Identity; 2] {
    [CLIENT, SERVER].map(|role| Identity::new(&[role, binding].concat()))
}

/// Returns the confirmation of one role. `key` is the hash of SPAKE2's transcript: the code, both identities,
/// both messages, the shared point.
fn confirmation(key: &[u8], role: &[u8], binding: &[u8; 32]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(role);
    mac.update(binding);
    mac
}
