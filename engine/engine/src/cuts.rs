//! The packet instructions of a program that a device may segment, as the compiler has proven.

use hawser_ir::abi::{MAX_RULES, PacketRec};
use hawser_ir::{Cut, Module};

/// An instruction that a device may segment.
#[derive(Clone, Debug)]
struct Plan {
    blueprint: u16,
    rules: Vec<u16>,
    cut: Cut,
}

/// The instructions of a program that devices may segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cuts(Vec<Plan>);

impl Cuts {
    pub(crate) fn new(module: &Module) -> Cuts {
        let proven = module.offloads.iter().filter_map(|offload| {
            let cut = offload.proof.as_ref().ok()?.clone();
            let rules: Vec<u16> = offload.rules.iter().map(|rule| rule.0 as u16).collect();
            (rules.len() <= MAX_RULES).then_some(Plan { blueprint: offload.blueprint.0 as u16, rules, cut })
        });
        Cuts(proven.collect())
    }

    /// Returns the proven segmentation of an instruction whose network header is complete.
    pub(crate) fn find(&self, record: &PacketRec) -> Option<&Cut> {
        let rules = &record.rule[..usize::from(record.rules).min(MAX_RULES)];
        let plan = self
            .0
            .iter()
            .find(|plan| plan.blueprint == record.blueprint && plan.rules == rules)?;
        (plan.cut.protocol == record.net.protocol).then_some(&plan.cut)
    }
}
