//! Messages over real devices.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hawser_sockets::messages::Call;
use hawser_sockets::{Endpoint, MessageOptions};

use crate::testbed::{TIMEOUT, TestResult, Testbed, hawser_v4, pattern, poll_until};

fn server_at() -> SocketAddr {
    SocketAddr::new(hawser_v4(), 7000)
}

/// Answers every request with its bytes twice, until `stop` is set; returns the number of requests.
pub(crate) fn serve(mut endpoint: Endpoint, at: SocketAddr, stop: &AtomicBool) -> TestResult<usize> {
    let socket = endpoint.bind(at, &MessageOptions::default())?;
    let mut served = 0;
    while !stop.load(Ordering::Acquire) {
        while endpoint.poll()? {}
        served += endpoint.serve(socket, |request| request.message.repeat(2))?;
        if !endpoint.poll()? {
            endpoint.wait(Some(Duration::from_millis(5)))?;
        }
    }
    Ok(served)
}

/// A stack at each end of a pair of Ethernet devices; TUN has only one end for stacks.
pub(crate) fn two_stacks_call_each_other(stage: &Testbed) -> TestResult {
    const SIZES: [usize; 6] = [1, 32, 1_500, 60_001, 200_000, 500_000];
    let near = SocketAddr::new(IpAddr::from([10, 9, 0, 3]), 0);
    for program in ["homa", "tcp"] {
        let Some(mut client) = stage.at_the_far_end(program, &[], near.ip())? else {
            return Ok(());
        };
        let server = stage.endpoint_of(program, &[])?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let serving =
            thread::spawn(move || serve(server, server_at(), &stopped).map_err(|error| error.to_string()));
        let socket = client.bind(near, &MessageOptions::default())?;
        let mut made: Vec<(usize, Call)> = Vec::new();
        for len in SIZES.into_iter().cycle().take(60) {
            let data = pattern(len);
            let call = poll_until(&mut client, "room", |end| {
                Ok(end.call(socket, server_at(), &data)?)
            })?;
            made.push((len, call));
        }
        for (len, call) in made {
            let reply = poll_until(&mut client, "the reply", |end| Ok(end.reply(call)?))?;
            assert!(
                reply == pattern(len).repeat(2),
                "{program}: {} bytes for {len}",
                reply.len()
            );
        }
        stop.store(true, Ordering::Release);
        let served = serving.join().map_err(|_| "the server panicked")??;
        assert_eq!(served, 60, "{program}: each once");
    }
    Ok(())
}

/// Linux's own TCP sends handwritten frames: three calls at once, the second half of the last one late.
pub(crate) fn linux_calls_by_frames(stage: &Testbed) -> TestResult {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let endpoint = stage.endpoint(&[])?;
    let linux = thread::spawn(move || -> std::io::Result<Vec<Vec<u8>>> {
        let mut stream = TcpStream::connect_timeout(&server_at(), TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let frame = |number: u8, body: &[u8]| {
            let head = [
                &(body.len() as u32).to_be_bytes()[..],
                &[1, 0, 0, 0, 0, 0, 0, number],
            ];
            [&head.concat(), body].concat()
        };
        let bytes = [frame(1, b"one"), frame(2, &pattern(70_000)), frame(3, b"three")].concat();
        stream.write_all(&bytes[..bytes.len() - 2])?;
        thread::sleep(Duration::from_millis(20));
        stream.write_all(&bytes[bytes.len() - 2..])?;
        let mut replies = vec![Vec::new(); 4];
        for _ in 0..3 {
            let mut head = [0; 12];
            stream.read_exact(&mut head)?;
            assert_eq!(head[4], 2, "a reply");
            let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            let mut body = vec![0; len as usize];
            stream.read_exact(&mut body)?;
            replies[usize::from(head[11])] = body;
        }
        Ok(replies)
    });
    let serving =
        thread::spawn(move || serve(endpoint, server_at(), &stopped).map_err(|error| error.to_string()));
    let replies = linux.join().map_err(|_| "the peer panicked")?;
    stop.store(true, Ordering::Release);
    assert_eq!(serving.join().map_err(|_| "the server panicked")??, 3);
    let expected = [b"".to_vec(), b"one".to_vec(), pattern(70_000), b"three".to_vec()];
    assert!(replies? == expected.map(|message| message.repeat(2)));
    Ok(())
}
