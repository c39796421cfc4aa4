//! A T-ware that the tests run in the loop, in a thread, and in another process.

use std::time::Duration;

use hawser_bus::{Hands, Schema, Signal, SourceId, Subscription, Tware, VariableId};

/// Caps the window of each flow at half of the reported value, and at 40.
pub(super) struct Cap(pub(super) Option<VariableId>);

impl Tware for Cap {
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription::new(["tcp.closed"]),
            Subscription::new(["tcp.acked"]).with([".conn.cc.cwnd"]),
        ]
    }

    fn begin(&mut self, _: SourceId, schema: &Schema) {
        self.0 = schema.variable("tcp.conn.cc.cwnd");
    }

    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, hands: &mut Hands) {
        assert_eq!((subscription, signal.variables().len()), (1, 1));
        if let Some(variable) = self.0 {
            hands.modify(
                signal.target(),
                variable,
                (signal.fields()[0] / 2).min(40),
                Duration::from_secs(60),
            );
        }
    }
}
