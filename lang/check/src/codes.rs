//! The checker's part of the table behind `hawser explain`.
//!
//! Each code has a name for use in the checker, and a section in `codes.md`. A test checks that each section
//! has a program in `lang/tests` that shows it.

use hawser_syntax::codes::{Code, rows};

/// Returns all rows, in order of code.
pub fn codes() -> impl Iterator<Item = Code> {
    rows(include_str!("codes.md"))
}

/// Returns the row of a code, ignoring letter case.
#[must_use]
pub fn explain(code: &str) -> Option<Code> {
    codes().find(|row| row.code.eq_ignore_ascii_case(code))
}

pub(crate) const UNKNOWN_NAME: &str = "E0201";
pub(crate) const DEFINED_TWICE: &str = "E0202";
pub(crate) const UNKNOWN_TYPE: &str = "E0203";
pub(crate) const UNKNOWN_MEMBER: &str = "E0204";
pub(crate) const NOT_A_VALUE: &str = "E0205";
pub(crate) const RESERVED_NAME: &str = "E0206";
pub(crate) const TYPE_ARGUMENTS: &str = "E0207";
pub(crate) const TYPE_NOT_HERE: &str = "E0208";
pub(crate) const RECURSIVE_TYPE: &str = "E0209";
pub(crate) const TOO_LARGE: &str = "E0210";
pub(crate) const NOT_CONSTANT: &str = "E0211";
pub(crate) const ENUM_VALUE: &str = "E0212";
pub(crate) const EVENT_KIND: &str = "E0213";
pub(crate) const TIMER_EVENT: &str = "E0214";
pub(crate) const TWO_SCRATCHPADS: &str = "E0215";
pub(crate) const ACCESS: &str = "E0216";
pub(crate) const TABLE: &str = "E0217";
pub(crate) const EXTENSION: &str = "E0218";
pub(crate) const NO_COMMON_FIELD: &str = "E0219";
pub(crate) const MISMATCH: &str = "E0301";
pub(crate) const NEEDS_CAST: &str = "E0302";
pub(crate) const OPERATOR: &str = "E0303";
pub(crate) const LITERAL: &str = "E0304";
pub(crate) const CONDITION: &str = "E0305";
pub(crate) const NOT_ASSIGNABLE: &str = "E0306";
pub(crate) const ARGUMENT_COUNT: &str = "E0307";
pub(crate) const NOT_INDEXED: &str = "E0308";
pub(crate) const OPERATION_HERE: &str = "E0309";
pub(crate) const NO_EFFECT: &str = "E0310";
pub(crate) const ID_TOO_LONG: &str = "E0311";
pub(crate) const LOOP_BOUND: &str = "E0401";
pub(crate) const OUTSIDE_LOOP: &str = "E0402";
pub(crate) const RETURN: &str = "E0403";
pub(crate) const BARE_RETURN: &str = "E0404";
pub(crate) const MISSING_RETURN: &str = "E0405";
pub(crate) const RECURSION: &str = "E0406";
pub(crate) const NEW_CONTEXT: &str = "E0407";
pub(crate) const INSTRUCTION_VARIABLE: &str = "E0408";
pub(crate) const INSTRUCTION_HERE: &str = "E0409";
pub(crate) const NOT_AN_INSTRUCTION: &str = "E0410";
pub(crate) const PARSER_ONLY: &str = "E0411";
pub(crate) const CHAIN_ONLY: &str = "E0412";
pub(crate) const MISSING_CASE: &str = "E0413";
pub(crate) const CASE: &str = "E0414";
pub(crate) const PACKET: &str = "E0501";
pub(crate) const RULE: &str = "E0502";
pub(crate) const QUEUE: &str = "E0503";
pub(crate) const SCHED: &str = "E0504";
pub(crate) const TIMER: &str = "E0505";
pub(crate) const RAISE: &str = "E0506";
pub(crate) const SIGNAL: &str = "E0507";
pub(crate) const NOTIFY: &str = "E0508";
pub(crate) const EXTERN: &str = "E0509";
pub(crate) const WIRE_FIELD: &str = "E0601";
pub(crate) const NOT_WHOLE_BYTES: &str = "E0602";
pub(crate) const WIRE_TWICE: &str = "E0603";
pub(crate) const HEADER_LENGTH: &str = "E0604";
pub(crate) const FILL: &str = "E0605";
pub(crate) const OPTION_LIST: &str = "E0606";
pub(crate) const OPTION_MEMBER: &str = "E0607";
pub(crate) const NET_HEADER: &str = "E0608";
pub(crate) const CANNOT_BIND: &str = "E0701";
pub(crate) const TWO_KEYED: &str = "E0702";
pub(crate) const TWO_NEW_CONTEXTS: &str = "E0703";
pub(crate) const REFUSE_NOT_APP: &str = "E0704";
pub(crate) const REFUSE_AFTER_CHANGE: &str = "E0705";
pub(crate) const KEPT_ADDRESS: &str = "E0706";
pub(crate) const CHAIN_CYCLE: &str = "E0707";
pub(crate) const TWO_CHAINS: &str = "E0708";
pub(crate) const NOT_A_PROCESSOR: &str = "E0709";
pub(crate) const CHAIN_TOO_LARGE: &str = "E0710";
pub(crate) const ATTACH: &str = "E0711";
pub(crate) const TOO_MANY_STEPS: &str = "E0712";
pub(crate) const WHICH_PART: &str = "E0713";
pub(crate) const NO_CONTEXT: &str = "E0714";
pub(crate) const REGISTRATION: &str = "E0801";
pub(crate) const SOURCE: &str = "E0802";
pub(crate) const SOURCE_TWICE: &str = "E0803";
pub(crate) const PARSER: &str = "E0804";
pub(crate) const GRANULARITY: &str = "E0805";
pub(crate) const ENDS: &str = "E0806";
pub(crate) const UNUSED_VARIABLE: &str = "E0901";
pub(crate) const UNUSED_PARAMETER: &str = "E0902";
pub(crate) const UNUSED_FUNCTION: &str = "E0903";
pub(crate) const UNUSED_EVENT: &str = "E0904";
pub(crate) const UNUSED_PARAM: &str = "E0905";
pub(crate) const NOT_REGISTERED: &str = "E0906";
pub(crate) const DIVISION_BY_ZERO: &str = "E0907";
pub(crate) const NARROW_PRODUCT: &str = "E0908";
pub(crate) const CONSTANT_COMPARISON: &str = "E0909";
pub(crate) const DEAD_CODE: &str = "E0910";
pub(crate) const NO_EVENTS: &str = "E0911";
pub(crate) const TIMER_NEVER_STARTED: &str = "E0912";
pub(crate) const CONTEXT_NEVER_MADE: &str = "E0913";
pub(crate) const DEFAULT_OUTSIDE: &str = "E0914";
pub(crate) const ASSIGNED_FILL: &str = "E0915";
pub(crate) const SHRINKING_LIST: &str = "E0916";
pub(crate) const REPEATED: &str = "E0917";
pub(crate) const OUT_OF_RANGE: &str = "E0918";
pub(crate) const UNREAD_FIELD: &str = "E0919";
pub(crate) const UNUSED_CONSTANT: &str = "E0920";
pub(crate) const LOST_VALUE: &str = "E0921";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_sorted_and_documented() {
        assert!(codes().is_sorted_by(|a, b| a.code < b.code));
        for row in codes() {
            assert!(row.code.len() == 5 && row.code.starts_with('E'), "{}", row.code);
            assert!(row.text.len() > 40, "{} says too little", row.code);
        }
        assert!(explain("e0201").is_some() && explain("E0101").is_none());
    }
}
