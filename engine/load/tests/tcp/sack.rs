//! More holes than a connection remembers (RFC 2018). The packet scripts about SACK are in
//! `transports/tcp/scripts/RFC2018`, `RFC2883` and `RFC6675`.

use crate::bench::Connection;
use crate::segment::Segment;

/// With more holes than the connection remembers, the rest counts as unreported.
#[test]
fn any_number_of_holes_is_repaired() {
    let mut c = Connection::agreed(&["NAGLE=false"], false, |syn| Segment { sack_permitted: true, ..syn });
    for _ in 0..9 {
        let sent = c.bench.observe(c.handle, "flight") as u32;
        c.bench.send(c.handle, 100_000);
        c.acknowledge(sent);
        let _ = c.ranges();
    }
    let flight = c.bench.observe(c.handle, "flight") as i32;
    assert!(flight > 60_000);
    for from in (1000..flight - 1000).step_by(2000) {
        c.sacks(&[(from, from + 1000)]);
    }
    let again = c.ranges();
    assert!(again.iter().any(|(at, _)| *at == 0) && again.len() < 120, "{again:?}");
    for _ in 0..200 {
        let sent = c.bench.observe(c.handle, "flight") as u32;
        c.acknowledge(sent);
        let _ = c.ranges();
    }
    assert_eq!(c.bench.observe(c.handle, "flight"), 0, "all of it was sent");
}
