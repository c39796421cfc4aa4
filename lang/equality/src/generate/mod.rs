//! Generates random programs. Every one passes the checker, and together they use the whole language.
//!
//! The text is in the order in which a person would write it, from declarations to deployment. Each body uses
//! the tables of earlier declarations. The same seed yields the same text.

mod body;
mod call;
mod expr;
mod functions;
mod instr;
mod literal;
mod parsers;
mod plan;
mod records;
mod scope;
mod stmt;
mod types;
mod wire;

use crate::rng::Rng;
use plan::ProgramPlan;

/// Returns the program of this seed.
#[must_use]
pub fn program(seed: u64) -> String {
    planned(seed).text
}

/// Returns an attachment to the program of this seed: a separate file that puts processors into chains.
#[must_use]
pub fn attachment(seed: u64) -> String {
    let mut plan = planned(seed);
    let start = plan.text.len();
    functions::attached(&mut plan, &mut Rng::new(seed, "attachment"));
    plan.text.split_off(start)
}

fn planned(seed: u64) -> ProgramPlan {
    let mut rng = Rng::new(seed, "program");
    let mut plan = ProgramPlan::new(seed);
    plan.line(format!("// seed {seed}"));
    records::constants(&mut plan, &mut rng);
    records::structures(&mut plan, &mut rng);
    records::events(&mut plan, &mut rng);
    records::contexts(&mut plan, &mut rng);
    wire::headers(&mut plan, &mut rng);
    functions::helpers(&mut plan, &mut rng);
    functions::chains(&mut plan, &mut rng);
    parsers::parsers(&mut plan, &mut rng);
    plan
}
