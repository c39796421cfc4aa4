//! A program in UDP, and sockets of Linux.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::thread;

use hawser_net::{Endpoint, host};

use crate::stage::{Stage, TIMEOUT, TestResult, hawser_v4, hawser_v6, linux_v4, linux_v6, poll_until, ready};

/// An endpoint of the program in UDP.
pub(crate) fn endpoint(stage: &Stage) -> TestResult<Endpoint> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linux/udp.mtp");
    let program = hawser_load::programs::resolve(&program.display().to_string(), &[])?;
    Ok(host::open(program, stage.setup())?)
}

/// Linux verifies the checksum of each answer, and shows what it holds and where it comes from.
pub(crate) fn a_program_in_udp_answers_sockets(stage: &Stage) -> TestResult {
    let mut endpoint = endpoint(stage)?;
    for (ours, linux) in [(hawser_v4(), linux_v4()), (hawser_v6(), linux_v6())] {
        let at = SocketAddr::new(ours, 4791);
        let listener = endpoint.listen(at, 4)?;
        let socket = UdpSocket::bind(SocketAddr::new(linux, 0))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.connect(at)?;
        let own = socket.local_addr()?;
        let asking = thread::spawn(move || -> std::io::Result<Vec<Vec<u8>>> {
            let mut answers = Vec::new();
            for len in [1, 2, 3, 1000, 1400] {
                socket.send(&vec![len as u8; len])?;
                let mut answer = vec![0; 2000];
                let len = socket.recv(&mut answer)?;
                answer.truncate(len);
                answers.push(answer);
            }
            Ok(answers)
        });
        let connection = poll_until(&mut endpoint, "the first datagram", |endpoint| {
            ready(endpoint.accept(listener))
        })?;
        assert_eq!(endpoint.peer(connection), Some(own));
        let mut chunk = vec![0; 2000];
        poll_until(&mut endpoint, "the last answer", |endpoint| {
            while let Some(len) = ready(endpoint.read(connection, &mut chunk))? {
                endpoint.write(connection, &chunk[..len])?;
            }
            Ok(asking.is_finished().then_some(()))
        })?;
        let answers = asking.join().map_err(|_| "the peer panicked")??;
        let expected: Vec<Vec<u8>> = [1, 2, 3, 1000, 1400].map(|len| vec![len as u8; len]).into();
        assert_eq!(answers, expected);

        // Nobody has that socket any more: Linux says so, and its error finds the context.
        assert_eq!(endpoint.observe(connection, "errors"), Some(0));
        endpoint.write(connection, b"gone")?;
        poll_until(&mut endpoint, "the error", |endpoint| {
            Ok((endpoint.observe(connection, "errors") == Some(1)).then_some(()))
        })?;
        endpoint.close(connection);
        endpoint.close(listener);
    }
    Ok(())
}

/// A port that no parser is registered for is unreachable, and others go on.
pub(crate) fn other_ports_are_unreachable(stage: &Stage) -> TestResult {
    let mut endpoint = endpoint(stage)?;
    for (ours, linux) in [(hawser_v4(), linux_v4()), (hawser_v6(), linux_v6())] {
        let socket = UdpSocket::bind(SocketAddr::new(linux, 0))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.connect(SocketAddr::new(ours, 4790))?;
        let asking = thread::spawn(move || -> std::io::Result<ErrorKind> {
            socket.send(b"is anybody there?")?;
            Ok(socket.recv(&mut [0; 100]).expect_err("nobody answers").kind())
        });
        poll_until(&mut endpoint, "the error", |_| {
            Ok(asking.is_finished().then_some(()))
        })?;
        let kind = asking.join().map_err(|_| "the peer panicked")??;
        assert_eq!(kind, ErrorKind::ConnectionRefused);
    }
    Ok(())
}
