//! Messages that are delivered whole: the messages to send, and the check of those that arrive.
//!
//! Both ends make the same messages from the same seed, so the receiver knows each of them in advance, in any
//! order. The messages carry no added header: a message is identified by its bytes, and each of several equal
//! messages may arrive once. Any other arrival was altered, cut, joined to another message, or delivered
//! twice.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::stream::hexadecimal;
use crate::rng::Rng;

/// The messages of one direction.
struct MessageSource {
    seed: u64,
    label: String,
    sizes: Vec<u64>,
}

impl MessageSource {
    /// Makes the n-th message, counted from 0. Returns false if there are no more.
    fn make(&self, n: usize, message: &mut Vec<u8>) -> bool {
        let Some(size) = self.sizes.get(n) else {
            return false;
        };
        message.resize(*size as usize, 0);
        Rng::new(self.seed, &format!("{}/{n}", self.label)).fill(message);
        true
    }
}

/// The messages that one end sends.
pub(crate) struct OutgoingMessages {
    source: MessageSource,
    /// The next message, followed by its number.
    message: Vec<u8>,
    next: usize,
    sent: u64,
    digests: Digests,
}

impl OutgoingMessages {
    /// Creates messages of these sizes, with the bytes for this label.
    pub(crate) fn new(seed: u64, label: &str, sizes: Vec<u64>) -> OutgoingMessages {
        let source = MessageSource { seed, label: label.to_owned(), sizes };
        let mut message = Vec::new();
        source.make(0, &mut message);
        OutgoingMessages { source, message, next: 0, sent: 0, digests: Digests::default() }
    }

    /// Returns the number of bytes in messages that were handed over.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of messages handed over.
    pub(crate) fn count(&self) -> u64 {
        self.next as u64
    }

    /// Hands messages over until their bytes reach `total`, or `send` accepts no more of them.
    pub(crate) fn push<E>(
        &mut self,
        total: u64,
        mut send: impl FnMut(&[u8]) -> Result<bool, E>,
    ) -> Result<(), E> {
        while self.next < self.source.sizes.len() && self.sent + self.message.len() as u64 <= total {
            if !send(&self.message)? {
                break;
            }
            self.digests.0.push(digest(&self.message));
            self.sent += self.message.len() as u64;
            self.next += 1;
            self.source.make(self.next, &mut self.message);
        }
        Ok(())
    }

    /// Returns the SHA-256 over the digests of the messages that were handed over, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        self.digests.sha256()
    }
}

/// The messages that one end receives.
pub(crate) struct IncomingMessages {
    source: MessageSource,
    /// The numbers of the messages that may still arrive, by digest, the last first. It is filled when the
    /// first message arrives.
    expected: Option<BTreeMap<[u8; 32], Vec<usize>>>,
    count: u64,
    received: u64,
    wrong: Option<String>,
    digests: Digests,
}

impl IncomingMessages {
    /// Creates the expected messages of these sizes, with the bytes for this label.
    pub(crate) fn new(seed: u64, label: &str, sizes: Vec<u64>) -> IncomingMessages {
        IncomingMessages {
            source: MessageSource { seed, label: label.to_owned(), sizes },
            expected: None,
            count: 0,
            received: 0,
            wrong: None,
            digests: Digests::default(),
        }
    }

    /// Returns the number of bytes in messages that have arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of messages that have arrived.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Describes the first unexpected message.
    pub(crate) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// Checks a message; returns its number if it was expected.
    pub(crate) fn take(&mut self, message: &[u8]) -> Option<usize> {
        let expected = self.expected.get_or_insert_with(|| {
            let mut expected = BTreeMap::<[u8; 32], Vec<usize>>::new();
            let mut message = Vec::new();
            for n in (0..self.source.sizes.len()).rev() {
                self.source.make(n, &mut message);
                expected.entry(digest(&message)).or_default().push(n);
            }
            expected
        });
        let digest = digest(message);
        self.digests.0.push(digest);
        let left = expected.get_mut(&digest);
        let fault = if left.is_some() {
            "was delivered twice"
        } else {
            "was never sent"
        };
        if let Some(n) = left.and_then(Vec::pop) {
            self.count += 1;
            self.received += message.len() as u64;
            return Some(n);
        }
        let length = message.len();
        self.wrong
            .get_or_insert_with(|| format!("a message of {length} bytes {fault}"));
        None
    }

    /// Returns the SHA-256 over the digests of the messages that have arrived, in hexadecimal. It equals the
    /// sender's if all have arrived once and unaltered, in any order.
    pub(crate) fn sha256(&self) -> String {
        self.digests.sha256()
    }
}

fn digest(message: &[u8]) -> [u8; 32] {
    Sha256::digest(message).into()
}

/// The SHA-256 of each message.
#[derive(Default)]
struct Digests(Vec<[u8; 32]>);

impl Digests {
    /// Returns the SHA-256 over all digests, sorted, so that their order does not matter.
    fn sha256(&self) -> String {
        let mut digests = self.0.clone();
        digests.sort_unstable();
        let mut all = Sha256::new();
        digests.iter().for_each(|digest| all.update(digest));
        hexadecimal(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 5] = [1, 1500, 1, 70_000, 9];

    fn sent() -> (Vec<Vec<u8>>, OutgoingMessages) {
        let mut messages = Vec::new();
        let mut outgoing = OutgoingMessages::new(1, "x", SIZES.to_vec());
        let taken = outgoing.push(u64::MAX, |message| {
            messages.push(message.to_vec());
            Ok::<bool, ()>(true)
        });
        assert_eq!(taken, Ok(()));
        (messages, outgoing)
    }

    fn received(messages: &[Vec<u8>]) -> IncomingMessages {
        let mut incoming = IncomingMessages::new(1, "x", SIZES.to_vec());
        for message in messages {
            incoming.take(message);
        }
        incoming
    }

    #[test]
    fn messages_come_in_any_order_each_once() {
        let (mut messages, outgoing) = sent();
        let total = SIZES.iter().sum::<u64>();
        assert_eq!((outgoing.count(), outgoing.sent()), (5, total));
        messages.reverse();
        let incoming = received(&messages);
        assert_eq!(
            (incoming.count(), incoming.received(), incoming.wrong()),
            (5, total, None)
        );
        assert_eq!(incoming.sha256(), outgoing.sha256());
    }

    #[test]
    fn a_message_that_is_altered_cut_joined_or_repeated_is_wrong() {
        let (messages, outgoing) = sent();
        let wrong = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let mut messages = messages.clone();
            change(&mut messages);
            let incoming = received(&messages);
            assert_ne!(incoming.sha256(), outgoing.sha256());
            incoming.wrong().map(str::to_owned)
        };
        let none = |length| Some(format!("a message of {length} bytes was never sent"));
        assert_eq!(wrong(&|m| m[1][700] ^= 1), none(1500));
        assert_eq!(wrong(&|m| m[1].truncate(1499)), none(1499));
        assert_eq!(wrong(&|m| m[3].extend([1, 2])), none(70_002));
        let twice = |m: &mut Vec<Vec<u8>>| m.push(m[4].clone());
        assert_eq!(
            wrong(&twice),
            Some("a message of 9 bytes was delivered twice".to_owned())
        );
        assert_eq!(
            wrong(&|m| drop(m.remove(3))),
            None,
            "one that is lost shows in the count alone"
        );
    }

    #[test]
    fn messages_go_out_as_far_as_they_are_due_and_taken() {
        let mut outgoing = OutgoingMessages::new(1, "x", SIZES.to_vec());
        let mut push = |total, room: usize| {
            let mut left = room;
            let taken = outgoing.push(total, |message| {
                let fits = message.len() <= left;
                left -= if fits { message.len() } else { 0 };
                Ok::<bool, ()>(fits)
            });
            assert_eq!(taken, Ok(()));
            outgoing.count()
        };
        assert_eq!(push(1500, 10_000), 1, "of the second one byte is not due");
        assert_eq!(push(1501, 100), 1, "no room");
        assert_eq!(push(1501, 1500), 2);
        assert_eq!(push(u64::MAX, 100_000), 5);
    }
}
