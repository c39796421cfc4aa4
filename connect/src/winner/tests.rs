//! Tests of the verdicts on winners, in virtual time.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{advance, timeout};

use super::*;

struct Pipe {
    inner: DuplexStream,
}

crate::delegate!(Pipe, inner);

impl Duplex for Pipe {
    fn abort(self: Box<Self>) {}
}

type Reported = Arc<Mutex<Vec<Option<Failure>>>>;

const STALL: Option<Failure> = Some(Failure::Stalled);
const RECOVERY: Option<Failure> = None;

fn winner() -> (Winner, DuplexStream, Reported) {
    let (inner, far) = duplex(64);
    let reported = Reported::default();
    let log = Arc::clone(&reported);
    let report = move |verdict| {
        log.lock().push(match verdict {
            StreamOutcome::Failed(failure, _) => Some(failure),
            StreamOutcome::Recovered => RECOVERY,
        });
    };
    (
        Winner::new(Box::new(Pipe { inner }), Box::new(report)),
        far,
        reported,
    )
}

#[tokio::test(start_paused = true)]
async fn silence_of_two_seconds_is_a_stall_until_a_byte_comes() {
    let (mut winner, mut far, reported) = winner();
    winner.write_all(b"hello").await.expect("there is room");
    let early = timeout(Duration::from_millis(1_900), winner.read_u8()).await;
    assert!(early.is_err() && reported.lock().is_empty());
    let late = timeout(Duration::from_secs(60), winner.read_u8()).await;
    assert!(late.is_err());
    assert_eq!(*reported.lock(), [STALL]);
    far.write_u8(1).await.expect("there is room");
    assert_eq!(winner.read_u8().await.expect("it comes"), 1);
    drop(winner);
    assert_eq!(*reported.lock(), [STALL, RECOVERY]);
}

#[tokio::test(start_paused = true)]
async fn a_long_upload_is_no_stall() {
    let (mut winner, mut far, reported) = winner();
    for _ in 0..10 {
        winner.write_all(b"hello").await.expect("there is room");
        far.read_exact(&mut [0; 5]).await.expect("it comes");
        assert!(timeout(Duration::from_secs(1), winner.read_u8()).await.is_err());
    }
    far.write_u8(1).await.expect("there is room");
    assert_eq!(winner.read_u8().await.expect("it comes"), 1);
    drop(winner);
    assert_eq!(*reported.lock(), []);
}

#[tokio::test(start_paused = true)]
async fn a_winner_that_is_given_up_without_an_answer_has_stalled() {
    let cases = [
        (1_100, false, vec![STALL]),
        (1_100, true, vec![STALL]),
        (900, false, vec![]),
    ];
    for (waited_ms, ends_alone, expected) in cases {
        let (mut winner, _far, reported) = winner();
        winner.write_all(b"hello").await.expect("there is room");
        advance(Duration::from_millis(waited_ms)).await;
        match ends_alone {
            true => winner.shutdown().await.expect("it ends"),
            false => Box::new(winner).abort(),
        }
        assert_eq!(*reported.lock(), expected, "{waited_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_winner_is_not_judged() {
    let (winner, _far, reported) = winner();
    advance(Duration::from_secs(60)).await;
    drop(winner);
    assert_eq!(*reported.lock(), []);
}

#[tokio::test(start_paused = true)]
async fn closing_before_the_first_byte_fails_unless_we_closed_first() {
    for (ends_first, expected) in [(false, vec![Some(Failure::Reset)]), (true, vec![])] {
        let (mut winner, far, reported) = winner();
        winner.write_all(b"hello").await.expect("there is room");
        if ends_first {
            winner.shutdown().await.expect("it ends");
        }
        drop(far);
        assert!(winner.read_u8().await.is_err(), "there is no byte");
        assert_eq!(*reported.lock(), expected);
    }
}
