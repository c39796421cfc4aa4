//! Obstacles to sending a packet.

use crate::abi::{Data, Net};
use crate::{Base, Instr, Module};

use crate::capabilities::offer::Offer;
use crate::capabilities::walk::{Call, Walk, WrittenValue};

/// Returns the parts of a packet instruction that are not offered, regardless of its payload and destination.
pub(crate) fn obstacles(module: &Module, instr: &Instr, offer: &Offer) -> Vec<String> {
    let Instr::PktGen { blueprint, queue, .. } = instr else {
        return Vec::new();
    };
    let blueprint = &module.blueprints[blueprint.0 as usize];
    let name = &blueprint.name;
    let mut found = Vec::new();
    if let Some(queue) = module.queues.get(queue.0 as usize)
        && !offer.queues.contains(&queue.policy.into())
    {
        let policy = queue.policy.name();
        found.push(format!(
            "`{name}` goes through the queue `{}` ({policy})",
            queue.name
        ));
    }
    if !offer.crc && blueprint.crc().is_some() {
        found.push(format!("`{name}` ends with a CRC-32 of all of it"));
    }
    let len = u64::from(blueprint.max_len);
    if let Some(limit) = offer.limits.header_bytes.filter(|limit| len > *limit) {
        found.push(format!(
            "the header of `{name}` may have {len} bytes, more than {limit}"
        ));
    }
    found
}

/// Returns true if a packet instruction's packet may carry payload.
pub(crate) fn may_carry_payload(module: &Module, walk: &Walk<'_>, calls: &[Call], instr: &Instr) -> bool {
    let Instr::PktGen { blueprint, bp, .. } = instr else {
        return false;
    };
    let at = module.blueprints[blueprint.0 as usize].data_at;
    at.is_some_and(|at| {
        let data = walk.bytes(calls, bp).part(at.into(), size_of::<Data>() as u64);
        !walk.put(calls, &data).is_empty()
    })
}

/// Returns true if the packet can go only to the peer: to an address that the event or its context holds. A
/// comparison at run time ensures that it is the address from which the frame came.
pub(crate) fn goes_to_the_peer(walk: &Walk<'_>, calls: &[Call], instr: &Instr) -> bool {
    let Instr::PktGen { net, .. } = instr else {
        return false;
    };
    let (at, len) = (std::mem::offset_of!(Net, dst_ip), size_of::<[u8; 16]>());
    let address = walk.bytes(calls, net).part(at as u64, len as u64);
    let put = walk.put(calls, &address);
    !put.is_empty()
        && put
            .iter()
            .all(|put| matches!(put, WrittenValue::From(Base::Event | Base::Keyed)))
}
