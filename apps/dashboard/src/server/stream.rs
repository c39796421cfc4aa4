//! Changes as server-sent events: first the complete state, then each update when it happens.
//!
//! A reader that is too slow misses updates and gets the complete state again instead.

use std::time::Duration;

use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use tokio::sync::broadcast::error::RecvError;

use super::Answer;
use crate::feed::{Feed, Update};

/// The maximum number of events that wait to be sent.
const WAITING: usize = 16;
/// The time without an event after which a comment is sent, so that a disconnected client is noticed.
const QUIET: Duration = Duration::from_secs(15);

/// Answers a client that follows changes.
pub(super) fn answer(feed: Feed) -> Answer {
    let (sender, body) = Channel::<Bytes, std::convert::Infallible>::new(WAITING);
    tokio::spawn(follow(feed, sender));
    let mut answer = Response::new(body.boxed());
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    answer
}

/// Sends events until the client or the feed has gone.
async fn follow(feed: Feed, mut sender: Sender<Bytes, std::convert::Infallible>) {
    let (first, mut updates) = feed.follow();
    let mut next = frame(&first);
    // Sending fails when the answer's body was dropped.
    while sender.send_data(next).await.is_ok() {
        next = match tokio::time::timeout(QUIET, updates.recv()).await {
            Ok(Ok(update)) => frame(&update),
            Ok(Err(RecvError::Lagged(_))) => {
                let (whole, again) = feed.follow();
                updates = again;
                frame(&whole)
            }
            Ok(Err(RecvError::Closed)) => return,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
    }
}

/// Formats an event. This JSON contains no line breaks, so it fits in one data line.
fn frame(update: &Update) -> Bytes {
    format!("event: {}\ndata: {}\n\n", update.name, update.data).into()
}
