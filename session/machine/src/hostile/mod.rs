//! Entry points for a fuzzer into the code that reads bytes from outside. They have no other use.
//!
//! * [`decode`]: passes bytes to the decoder, in pieces of any size
//! * [`conversation`]: reads bytes as a script of the peer's segments, and of the actions of applications,
//!   carriers and the clock meanwhile
//!
//! Both panic if a promise is broken, and return otherwise.

mod conversation;
mod script;

use bytes::{Bytes, BytesMut};

pub use conversation::converse;

use crate::segment::{Decoder, Incoming, Malformed, encode};

/// Checks that the decoder's result does not depend on how the bytes are cut into pieces. Also checks that
/// each decoded segment survives encoding and decoding. The first byte of `data` decides the cut.
///
/// # Panics
/// Panics if one of these promises is broken.
pub fn decode(data: &[u8]) {
    let [cut, data @ ..] = data else { return };
    let (whole, end) = understand(data, data.len().max(1));
    let (pieces, also) = understand(data, 1 + usize::from(*cut));
    assert_eq!(
        (&whole, end),
        (&pieces, also),
        "cut in pieces of {}",
        1 + usize::from(*cut)
    );
    for incoming in whole {
        let Incoming::Control(segment, _) = incoming else {
            continue;
        };
        let mut decoder = Decoder::new();
        decoder.push(encode(&segment));
        match decoder.next() {
            Ok(Some(Incoming::Control(again, _))) => assert_eq!(again, segment),
            other => panic!("{segment:?} became {other:?}"),
        }
        assert!(decoder.into_rest().is_empty());
    }
}

/// Decodes `data`, pushed in pieces of `size`. Returns the result and the error that ended it, if any. Pieces
/// of one DATA segment are joined.
fn understand(data: &[u8], size: usize) -> (Vec<Incoming>, Option<Malformed>) {
    let mut all: Vec<Incoming> = Vec::new();
    let mut decoder = Decoder::new();
    for piece in data.chunks(size) {
        decoder.push(Bytes::copy_from_slice(piece));
        loop {
            match decoder.next() {
                Ok(Some(incoming)) => append(&mut all, incoming),
                Ok(None) => break,
                Err(malformed) => return (all, Some(malformed)),
            }
        }
    }
    (all, None)
}

fn append(all: &mut Vec<Incoming>, new: Incoming) {
    if let (
        Some(Incoming::Data { stream, offset, bytes, end }),
        Incoming::Data { stream: same, offset: next, bytes: more, end: last },
    ) = (all.last_mut(), &new)
        && stream == same
        && *offset + bytes.len() as u64 == *next
        && !*end
    {
        *bytes = [&bytes[..], &more[..]].concat().into();
        *end = *last;
        return;
    }
    all.push(new);
}

/// Joins two pieces into one.
fn joined(head: &Bytes, body: &Bytes) -> Bytes {
    let mut whole = BytesMut::with_capacity(head.len() + body.len());
    whole.extend_from_slice(head);
    whole.extend_from_slice(body);
    whole.freeze()
}
