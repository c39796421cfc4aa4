//! T-wares: what subscribers run on signals.

use crate::flow::SourceId;
use crate::hands::{Hands, Modification};
use crate::ring::Consumer;
use crate::schema::Schema;
use crate::signal::{MAX_WORDS, Signal};
use crate::subscription::Subscription;

/// A transient-ware (iTCP, section 2.2): receives signals, remembers, modifies. One source runs
/// unchanged in the loop, in another thread and in another process.
pub trait Tware: Send {
    /// What it subscribes to. The n-th of these is `n` in [`Tware::signal`].
    fn subscriptions(&self) -> Vec<Subscription>;

    /// Called once for each source, before its first signal: names become numbers here.
    fn begin(&mut self, source: SourceId, schema: &Schema);

    /// Something happened. `subscription` is the number of the subscription that it belongs to.
    ///
    /// One that panics is called no more, and what it holds is given back; its provider goes on.
    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands);
}

/// Takes all that waits in a queue, in order, and gives it to `signal`; hands what it wants changed
/// to `modify`. Gives how many signals there were.
pub fn run_waiting(
    consumer: &mut Consumer,
    hands: &mut Hands,
    mut signal: impl FnMut(&Signal<'_>, &mut Hands),
    mut modify: impl FnMut(Modification),
) -> usize {
    let mut words = [0; MAX_WORDS];
    let mut count = 0;
    while consumer.pop(&mut words) {
        if let Some(it) = Signal::new(&words) {
            signal(&it, hands);
            hands.take().for_each(&mut modify);
        }
        count += 1;
    }
    count
}
