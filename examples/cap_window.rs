//! A T-ware of one's own: it caps the congestion window of every connection. The same source runs in a
//! process of its own, here, and in the loop or in a thread of a program that has the transport.
//!
//! ```console
//! $ hawser serve DIR --interact=/tmp/x.sock … &
//! $ cargo run --example cap_window -- /tmp/x.sock 50000
//! $ hawser audit --socket /tmp/x.sock
//! ```

use std::error::Error;
use std::path::Path;

use hawser::interact::{Client, Hands, Schema, Signal, SourceId, Tware, VariableId, Wish, run_remote};

/// How long the window is held without another word, nanoseconds: what a T-ware that dies leaves behind.
const LEASE: u64 = 1_000_000_000;

struct Cap {
    most: u64,
    window: Option<VariableId>,
}

impl Tware for Cap {
    /// Acknowledgements, of each connection the last within 10 ms, and the window with them.
    fn wishes(&self) -> Vec<Wish> {
        vec![Wish::new(["tcp.acked"]).with(["tcp.conn.cc.cwnd"]).every(10_000_000)]
    }

    /// Names are resolved once, for each source.
    fn begin(&mut self, _: SourceId, schema: &Schema) {
        self.window = schema.variable("tcp.conn.cc.cwnd");
    }

    fn signal(&mut self, _: usize, signal: &Signal<'_>, hands: &mut Hands) {
        if let (Some(window), [now]) = (self.window, signal.variables())
            && *now >= self.most
        {
            hands.modify(signal.target(), window, self.most, LEASE);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, most] = arguments.as_slice() else {
        return Err("usage: cap_window SOCKET BYTES".into());
    };
    let cap = Cap { most: most.parse()?, window: None };
    // In the loop of one's own transport it would be `bus.attach("cap", Rights::all(), 1, move || Box::new(Cap { … }))`,
    // in a thread beside it `run_in_thread(&bus, "cap", Rights::all(), 1, 1024, Box::new(cap))`.
    run_remote(Client::connect(Path::new(socket), "cap", 1)?, Box::new(cap))?;
    Ok(())
}
