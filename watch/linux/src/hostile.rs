//! Malformed answers of INET_DIAG, for a fuzzer; this module has no other use.

use hawser_host::netlink::messages;

use crate::diag::flow;

/// Reads bytes as replies, and counts the flows in them.
///
/// # Panics
/// When the parsed flows exceed the input, or are inconsistent.
pub fn answer(data: &[u8]) -> usize {
    let flows = messages(data).filter_map(flow).inspect(|flow| {
        assert!(
            flow.congestion_control.len() <= 3 * data.len(),
            "a name that was not there"
        );
        assert_eq!(
            flow.local.is_ipv4(),
            flow.remote.is_ipv4(),
            "ends of two families"
        );
        let state = flow.state;
        assert!(state.state <= 9, "{state:?}");
        assert!(state.snd_una <= state.snd_nxt, "{state:?}");
        assert!(state.flight <= state.snd_nxt - state.snd_una, "{state:?}");
    });
    flows.count()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use hawser_host::netlink::Request;

    use super::*;
    use crate::Diagnostics;
    use crate::diag::SOCK_DIAG_BY_FAMILY;

    /// Answers of this machine's kernel about two connections, cut, joined and changed at random.
    #[test]
    fn corrupted_kernel_answers_are_read_without_panic() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (mut accepted, _) = listener.accept().expect("it connects");
        stream.write_all(&[7; 3000]).expect("it is taken");
        accepted.read_exact(&mut [0; 3000]).expect("it arrives");
        let bodies = Diagnostics::open()
            .expect("INET_DIAG")
            .messages()
            .expect("it answers");
        let framed = |body: &Vec<u8>| {
            let mut request = Request::new(SOCK_DIAG_BY_FAMILY, 0);
            request.put(body);
            request.finish(1)
        };
        let answers: Vec<_> = bodies.iter().map(framed).collect();
        assert!(
            answers.iter().map(|bytes| answer(bytes)).sum::<usize>() >= 2,
            "both ends"
        );

        let mut rng = fastrand::Rng::with_seed(1);
        let mut random = |below: usize| rng.usize(..below.max(1));
        let mut read = 0;
        for _ in 0..20_000 {
            let mut data = Vec::new();
            for _ in 0..1 + random(3) {
                data.extend_from_slice(&answers[random(answers.len())]);
            }
            for _ in 0..random(8) {
                if data.is_empty() {
                    break;
                }
                let place = random(data.len());
                match random(5) {
                    0 => data.truncate(place),
                    1 => data[place] = random(256) as u8,
                    2 => data.insert(place, random(256) as u8),
                    3 => drop(data.remove(place)),
                    // The positions of lengths and types.
                    _ => data[place & !3] = [0, 2, 3, 15, 16, 17, 20, 255][random(8)],
                }
            }
            read += answer(&data);
        }
        assert!(read > 10_000, "most of it can still be read: {read}");
    }
}
