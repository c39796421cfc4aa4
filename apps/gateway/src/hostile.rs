//! Entry points for a fuzzer: greetings and requests of unauthenticated peers. They have no other use.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hawser::session::relay::Host;
use hawser::session::relay::wire::{Greeting, Request};

use crate::destination::{AllowList, check};

/// Parses any bytes as a greeting, a request, and a list of rules.
///
/// # Panics
/// Panics if a message does not survive encoding, is longer than allowed, or needs more data than available.
pub fn messages(data: &[u8]) {
    let mut rest = data;
    if let Ok(greeting) = now(Greeting::read(&mut rest)) {
        assert_eq!(greeting.encode(), data[..Greeting::LENGTH]);
    }
    let mut rest = data;
    if let Ok(request) = now(Request::read(&mut rest)) {
        let used = data.len() - rest.len();
        assert!(used <= Request::MAX_LENGTH, "{used} bytes were read");
        let encoded = request.encode();
        let again = now(Request::read(&mut &encoded[..]));
        assert_eq!(again.ok().as_ref(), Some(&request), "a request stays what it is");
        let everything = AllowList::parse(["0.0.0.0/0:*", "[::/0]:*", "public"]).unwrap_or_default();
        if let Host::Address(address) = request.destination.host() {
            let inside = address.is_loopback() || address.is_unspecified() || address.is_multicast();
            let allowed = check(&request.destination, *address, &everything, &[], &[]).is_ok();
            assert!(!(inside && allowed), "{address}");
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        // Parsing may fail but must not panic.
        let _ = AllowList::parse_file(text);
        let _ = crate::clients::Clients::parse(text);
    }
}

/// Returns the result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("bytes that are there are waited for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes every byte of valid messages to some other values, and truncates the messages at every length.
    #[test]
    fn mutated_messages_never_panic() {
        let name = [&[1, 3, 11][..], b"example.com", &[0, 80]].concat();
        for good in [
            name,
            vec![1, 1, 10, 0, 0, 1, 0, 80],
            [&[1, 4][..], &[0; 16], &[0, 80]].concat(),
            vec![1; 33],
        ] {
            for at in 0..good.len() {
                messages(&good[..at]);
                for value in [0, 1, 3, 4, 46, 63, 64, 127, 128, 253, 255] {
                    let mut changed = good.clone();
                    changed[at] = value;
                    changed.extend([b'a'; 300]);
                    messages(&changed);
                }
            }
        }
    }
}
