//! Captures the output of libbpf while it loads, for use in an error instead of on the terminal.

use std::cell::RefCell;

use libbpf_rs::{PrintLevel, set_print};

use crate::KernelError;

/// The number of bytes that are kept, from the end of the output.
const MAX_OUTPUT: usize = 4096;

thread_local! {
    static OUTPUT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `load`; its error includes the output of libbpf.
pub(super) fn capture<T>(load: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, KernelError> {
    OUTPUT.with_borrow_mut(String::clear);
    let before = set_print(Some((PrintLevel::Warn, keep)));
    let result = load();
    set_print(before);
    result.map_err(|error| {
        let output = OUTPUT.with_borrow(|output| output.trim().to_owned());
        KernelError::Refused { why: error.to_string(), output }
    })
}

fn keep(_level: PrintLevel, line: String) {
    OUTPUT.with_borrow_mut(|output| {
        output.push_str(&line);
        let surplus = output.len().saturating_sub(MAX_OUTPUT);
        let from = (surplus..output.len())
            .find(|&at| output.is_char_boundary(at))
            .unwrap_or(output.len());
        output.drain(..from);
    });
}
