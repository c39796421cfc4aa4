//! Standard output and error of a command that serves clients. A reader that stalls must not block the
//! clients or signals.
//!
//! Invariants: after [`serve`], only the two writer threads wait for a reader. Each output queues at most
//! [`QUEUE_BYTES`]; further lines are dropped and counted, and the count is reported at the gap. Commands
//! that serve no clients write directly, at the pace of their reader.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The maximum amount of text queued for one reader, in bytes.
const QUEUE_BYTES: usize = 1 << 20;
/// The maximum time that an ending command waits for its readers.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// Standard output or standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Output,
    Error,
}

static OUTPUT: OnceLock<Queue> = OnceLock::new();
static ERROR: OnceLock<Queue> = OnceLock::new();

/// Moves the writing of both outputs to threads of their own. With `json`, standard output consists of
/// objects, and a gap in it is reported as one.
pub(crate) fn serve(json: bool) -> io::Result<()> {
    start(&OUTPUT, Queue::new("standard output", json), io::stdout())?;
    start(&ERROR, Queue::new("standard error", false), io::stderr())
}

fn start(place: &'static OnceLock<Queue>, queue: Queue, out: impl Write + Send + 'static) -> io::Result<()> {
    let name = queue.name;
    if place.set(queue).is_err() {
        return Ok(());
    }
    let write = move || {
        if let Some(queue) = place.get() {
            queue.write_to(out);
        }
    };
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(write).map(drop)
}

/// Prints text, which may be part of a line.
pub(crate) fn print(stream: Stream, text: impl Display) {
    match stream.queue() {
        Some(queue) => queue.push(text.to_string().as_bytes()),
        None => match stream {
            Stream::Output => std::print!("{text}"),
            Stream::Error => std::eprint!("{text}"),
        },
    }
}

/// Waits until the readers have received all output, for at most `FLUSH_LIMIT`.
pub(crate) fn flush() {
    let until = Instant::now() + FLUSH_LIMIT;
    // Standard output comes first, because a gap in it may be reported on standard error.
    for queue in [OUTPUT.get(), ERROR.get()].into_iter().flatten() {
        queue.flush(until);
    }
}

impl Stream {
    fn queue(self) -> Option<&'static Queue> {
        match self {
            Stream::Output => OUTPUT.get(),
            Stream::Error => ERROR.get(),
        }
    }
}

/// Each write is one piece, which is kept or dropped as a whole.
impl Write for Stream {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        match (self.queue(), self) {
            (Some(queue), _) => queue.push(piece),
            (None, Stream::Output) => io::stdout().write_all(piece)?,
            (None, Stream::Error) => io::stderr().write_all(piece)?,
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The text queued for one output.
struct Queue {
    name: &'static str,
    json: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// The number of pieces dropped since the queued text.
    dropped: u64,
    is_writing: bool,
}

impl Queue {
    fn new(name: &'static str, json: bool) -> Queue {
        Queue { name, json, state: Mutex::default(), changed: Condvar::new() }
    }

    fn push(&self, piece: &[u8]) {
        let mut state = self.state.lock();
        let fits = state.waiting.is_empty() || state.waiting.len() + piece.len() <= QUEUE_BYTES;
        // After a drop, further pieces are dropped until the gap is reported.
        if fits && state.dropped == 0 {
            state.waiting.extend_from_slice(piece);
        } else {
            state.dropped += 1;
        }
        self.changed.notify_all();
    }

    /// Writes queued text for the life of the process. The command continues even if the reader goes away.
    fn write_to(&self, mut out: impl Write) {
        loop {
            let (mut text, dropped) = self.take();
            if dropped > 0 && self.json {
                let gap = serde_json::json!({ "event": "dropped", "lines": dropped });
                text.extend_from_slice(format!("{gap}\n").as_bytes());
            }
            let _ = out.write_all(&text).and_then(|()| out.flush());
            if dropped > 0 && !self.json {
                let name = self.name;
                tracing::warn!("{dropped} lines for {name} were dropped, because their reader was too slow");
            }
        }
    }

    /// Waits for queued text, and takes it with the number of pieces dropped after it.
    fn take(&self) -> (Vec<u8>, u64) {
        let mut state = self.state.lock();
        state.is_writing = false;
        self.changed.notify_all();
        while state.waiting.is_empty() && state.dropped == 0 {
            self.changed.wait(&mut state);
        }
        state.is_writing = true;
        (
            std::mem::take(&mut state.waiting),
            std::mem::take(&mut state.dropped),
        )
    }

    fn flush(&self, until: Instant) {
        let mut state = self.state.lock();
        while state.is_writing || !state.waiting.is_empty() || state.dropped > 0 {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader that consumes output only when it is released.
    struct Reader {
        go: Receiver<()>,
        read: Sender<String>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.go.recv().map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.read.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_dropped_for_a_stalled_reader_are_counted() {
        let queue = Arc::new(Queue::new("a test", true));
        let ((go, may), (sender, read)) = (channel(), channel());
        let writer = queue.clone();
        std::thread::spawn(move || {
            writer.write_to(Reader { go: may, read: sender });
        });
        let line = format!("{}\n", "x".repeat(1023));
        let lines = 3 * QUEUE_BYTES / line.len();
        (0..lines).for_each(|_| queue.push(line.as_bytes()));
        // Every push has returned, although the reader has not read a byte so far. It is released now.
        for _ in 0..16 {
            go.send(()).expect("the writer waits");
        }
        queue.flush(Instant::now() + Duration::from_secs(10));
        queue.push(b"after\n");
        queue.flush(Instant::now() + Duration::from_secs(10));
        let text: String = read.try_iter().collect();
        let kept = text.lines().filter(|line| line.starts_with('x')).count();
        let last: Vec<&str> = text.lines().skip(kept).collect();
        let gap = format!("{{\"event\":\"dropped\",\"lines\":{}}}", lines - kept);
        assert_eq!(last, [gap.as_str(), "after"]);
        let max_kept = 2 * QUEUE_BYTES / line.len();
        assert!((max_kept / 2..=max_kept).contains(&kept), "{kept} lines");
    }

    #[test]
    fn the_end_of_a_command_does_not_wait_for_a_stalled_reader() {
        let queue = Queue::new("a test", true);
        queue.push(b"a line\n");
        let began = Instant::now();
        queue.flush(began + Duration::from_millis(20));
        assert!(began.elapsed() >= Duration::from_millis(20));
    }
}
