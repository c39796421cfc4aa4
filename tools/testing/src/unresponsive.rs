//! A name with two addresses, the preferred one of which accepts connections and never answers.

use std::io;
use std::net::{TcpListener, TcpStream};

/// Opens a port at both addresses of `localhost`. At `::1`, connections are accepted and their data is
/// discarded; at `127.0.0.1`, each is passed to `answer`.
///
/// # Errors
/// The system has no IPv6, or the port is taken at the other address.
pub fn swallow_at_localhost(answer: fn(&mut TcpStream)) -> io::Result<u16> {
    let swallowing = TcpListener::bind("[::1]:0")?;
    let port = swallowing.local_addr()?.port();
    let answering = TcpListener::bind(("127.0.0.1", port))?;
    std::thread::spawn(move || {
        let held: Vec<TcpStream> = swallowing.incoming().flatten().collect();
        drop(held);
    });
    std::thread::spawn(move || {
        answering
            .incoming()
            .flatten()
            .for_each(|mut stream| answer(&mut stream))
    });
    Ok(port)
}
