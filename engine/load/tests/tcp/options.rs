//! Options that are refused. Packet scripts show the effect of the others.

use hawser_time::Instant;
use hawser_engine::{Errno, RequestError};
use hawser_ir::abi::*;

use crate::bench::{Connection, SECOND};

#[test]
fn unknown_options_and_values_without_sense_are_refused() {
    let mut c = Connection::plain(&[]);
    let (now, handle) = (c.bench.now, c.handle);
    let mut outcome = |option, value| c.bench.stack.set_option(Instant::from_nanos(now), handle, option, value).err();
    for option in [0, 999] {
        assert_eq!(outcome(option, 1), Some(RequestError::Refused(Errno::UNKNOWN_OPTION)));
    }
    let senseless = [
        (OPT_NODELAY, 2),
        (OPT_CORK, 2),
        (OPT_QUICK_ACK, 7),
        (OPT_KEEPALIVE, 32_768 * SECOND),
        (OPT_KEEPALIVE_INTERVAL, 0),
        (OPT_KEEPALIVE_COUNT, 0),
        (OPT_KEEPALIVE_COUNT, 128),
        (OPT_MAX_SEGMENT, 87),
        (OPT_MAX_SEGMENT, 32_768),
        (OPT_RECEIVE_BUFFER, 0),
        (OPT_TOS, 256),
        (OPT_TTL, 256),
    ];
    for (option, value) in senseless {
        assert_eq!(outcome(option, value), Some(RequestError::Refused(Errno::INVALID)), "{option} {value}");
    }
    c.bench.expect_nothing_sent();
}

/// RFC 7413, 6: a request for Fast Open is refused if the param disables it.
#[test]
fn fast_open_is_refused_where_it_is_off() {
    let mut c = Connection::plain(&["FAST_OPEN=false"]);
    let (now, handle) = (c.bench.now, c.handle);
    let mut outcome = |option, value| c.bench.stack.set_option(Instant::from_nanos(now), handle, option, value);
    assert_eq!(outcome(OPT_FAST_OPEN, 1), Err(RequestError::Refused(Errno(95))));
    assert_eq!(outcome(OPT_FAST_OPEN, 0), Ok(()));
    assert_eq!(outcome(OPT_TOS, 4), Ok(()));
}
