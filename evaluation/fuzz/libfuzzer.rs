//! Runs libFuzzer over the target that the variable HAWSER_TARGET names.

#![no_main]

use std::sync::LazyLock;

use hawser_fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("HAWSER_TARGET").unwrap_or_default();
    *target(&name).unwrap_or_else(|| panic!("HAWSER_TARGET={name:?} names no fuzz target"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
