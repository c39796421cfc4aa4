//! T-wares: programs that subscribers run on signals.

use crate::flow::SourceId;
use crate::modifications::{Hands, Modification};
use crate::ring::Consumer;
use crate::schema::Schema;
use crate::signal::{MAX_WORDS, Signal};
use crate::subscription::Subscription;

/// A transient-ware (iTCP, section 2.2): it receives signals, keeps state, and modifies variables. The same
/// source code runs in the loop, in another thread and in another process.
pub trait Tware: Send {
    /// Returns its subscriptions. Subscription `n` of this list is number `n` in [`Tware::signal`].
    fn subscriptions(&self) -> Vec<Subscription>;

    /// Called once for each source, before the source's first signal, so that the T-ware can resolve names to
    /// numbers.
    fn begin(&mut self, source: SourceId, schema: &Schema);

    /// Handles one signal. `subscription` is the number of the subscription that the signal belongs to.
    ///
    /// A T-ware that panics is not called again and its leases end; its provider goes on.
    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands);
}

/// Takes all signals that wait in a queue, in order, and gives them to `signal`. Passes the modifications
/// that it requests to `modify`. Returns the number of signals.
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
