//! Greetings and requests of unauthenticated peers, for a fuzzer: it has no other use.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hawser::gateway::Host;
use hawser::gateway::wire::{Greeting, Request};

use crate::destination::{AllowList, check};

/// Any bytes as a greeting, a request, and a list of rules.
///
/// # Panics
/// When what is made of them does not survive encoding, is longer than it may be, or waits for more than
/// there is.
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
        // Whatever is understood or not: it does not panic.
        let _ = AllowList::parse_file(text);
        let _ = crate::clients::Clients::parse(text);
    }
}

/// What a future that waits for nothing comes to.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("bytes that are there are waited for"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of good messages changed to some others, and cut at every length.
    #[test]
    fn changed_messages_are_refused_or_other_messages() {
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
