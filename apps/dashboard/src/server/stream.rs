//! What changes, as server-sent events: the whole state first, then each update as it comes.
//!
//! Who reads too slowly misses updates, and gets the whole state again in their place.

use std::time::Duration;

use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use tokio::sync::broadcast::error::RecvError;

use super::Answer;
use crate::feed::{Feed, Update};

/// Events that wait to be sent.
const WAITING: usize = 16;
/// After so long without news a comment is sent: a client that has gone shows by that.
const QUIET: Duration = Duration::from_secs(15);

/// The answer to who wants to follow.
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

/// Sends until the client has gone, or the feed has.
async fn follow(feed: Feed, mut sender: Sender<Bytes, std::convert::Infallible>) {
    let (first, mut updates) = feed.follow();
    let mut next = frame(&first);
    // It fails when the answer's body was dropped.
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

/// JSON has no line breaks of its own here, so that it is one line of data.
fn frame(update: &Update) -> Bytes {
    format!("event: {}\ndata: {}\n\n", update.name, update.data).into()
}
