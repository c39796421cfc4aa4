//! Any text as a file of rights of the interactive layer: it is parsed or rejected. A user that no rule names
//! may modify no variable, and the minimum of a grant never exceeds its maximum.
//!
//! The first four bytes are the user, and a byte 0 ends the name.

use hawser::interact::Rules;

pub(crate) fn fuzz(data: &[u8]) {
    let Some((user, data)) = data.split_first_chunk() else {
        return;
    };
    let (user, Ok(data)) = (u32::from_le_bytes(*user), std::str::from_utf8(data)) else {
        return;
    };
    let (name, text) = data.split_once('\0').unwrap_or(("", data));
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
}
