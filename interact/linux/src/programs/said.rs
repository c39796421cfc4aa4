//! What libbpf prints while it loads: kept, for the error, instead of standing on the terminal.

use std::cell::RefCell;

use libbpf_rs::{PrintLevel, set_print};

use crate::KernelError;

/// How many bytes of it are kept: its last.
const KEPT: usize = 4096;

thread_local! {
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `load`; its error tells what libbpf said.
pub(super) fn listen<T>(load: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, KernelError> {
    SAID.with_borrow_mut(String::clear);
    let before = set_print(Some((PrintLevel::Warn, keep)));
    let result = load();
    set_print(before);
    result.map_err(|error| {
        let said = SAID.with_borrow(|said| said.trim().to_owned());
        KernelError::Refused {
            why: error.to_string(),
            said,
        }
    })
}

fn keep(_level: PrintLevel, line: String) {
    SAID.with_borrow_mut(|said| {
        said.push_str(&line);
        let surplus = said.len().saturating_sub(KEPT);
        let from = (surplus..said.len())
            .find(|&at| said.is_char_boundary(at))
            .unwrap_or(said.len());
        said.drain(..from);
    });
}
