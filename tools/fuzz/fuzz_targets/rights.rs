//! Any text as a file of rights of the interactive layer: it is read or refused; whoever a rule does not
//! name may modify nothing, and no grant has its least above its most.

#![no_main]

use hawser::interact::Rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (&str, &str, u32)| {
    let (text, name, user) = data;
    let Ok(rules) = Rules::parse(text) else { return };
    for who in [name, "", "a", "fast-1"] {
        let rights = rules.rights(who, user);
        assert!(rights.modify.iter().all(|grant| grant.min <= grant.max));
        let _ = rights.may_observe("tcp.acked");
        if !text.contains("modify") {
            assert!(rights.modify.is_empty());
        }
        if !text.contains("attach") {
            assert!(!rights.attach);
        }
    }
});
