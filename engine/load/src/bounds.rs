//! Compares a chain's work with the worst case that the checker states for it.
//!
//! The engine reserves room for the worst case before a chain runs and does not check again. Both adapters
//! therefore compare afterwards, when debug assertions are on.

use hawser_ir::Module;
use hawser_ir::abi::RecordKind;
use hawser_ir::buf::RecordBuf;

/// The contents of a buffer before a chain ran.
#[derive(Clone, Copy)]
pub(crate) struct BufferSnapshot {
    records: usize,
    bytes: usize,
}

impl BufferSnapshot {
    pub(crate) fn new(out: &RecordBuf) -> BufferSnapshot {
        BufferSnapshot { records: out.iter().count(), bytes: out.bytes().len() }
    }

    /// Returns whether the records that an event's chain added are within that chain's bounds.
    pub(crate) fn is_within(self, module: &Module, event: u16, out: &RecordBuf) -> bool {
        let Some(chain) = module.chains.get(usize::from(event)) else {
            return false;
        };
        let [mut records, mut packets, mut raises] = [0; 3];
        for record in out.iter().skip(self.records) {
            records += 1;
            packets += usize::from(record.kind == RecordKind::Packet);
            raises += usize::from(record.kind == RecordKind::Raise);
        }
        let bounds = &chain.bounds;
        out.bytes().len() - self.bytes <= bounds.record_bytes as usize
            && records <= bounds.records as usize
            && packets <= bounds.packets as usize
            && raises <= bounds.raises as usize
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;
    use hawser_ir::abi::{NotifyRec, RaiseRec};
    use hawser_ir::{Bounds, Chain};

    use super::*;

    #[test]
    fn exceeding_the_worst_case_is_detected() {
        let mut out = RecordBuf::default();
        out.push(RecordKind::Raise, 0, &RaiseRec::zeroed(), &[0; 8]);
        let before = BufferSnapshot::new(&out);
        out.push(RecordKind::Raise, 0, &RaiseRec::zeroed(), &[0; 8]);
        out.push(RecordKind::Notify, 0, &NotifyRec::zeroed(), &[]);
        let record_bytes = (out.bytes().len() - before.bytes) as u32;
        let enough = Bounds { records: 2, record_bytes, packets: 0, raises: 1, units: 0, steps: 0 };
        let holds = |bounds: Bounds| {
            let chain = Chain { processors: Vec::new(), bounds, creates: None, globals: Vec::new() };
            before.is_within(&Module { chains: vec![chain], ..Module::default() }, 0, &out)
        };
        assert!(holds(enough));
        for short in [
            Bounds { records: 1, ..enough },
            Bounds { record_bytes: enough.record_bytes - 1, ..enough },
            Bounds { raises: 0, ..enough },
        ] {
            assert!(!holds(short), "{short:?}");
        }
    }
}
