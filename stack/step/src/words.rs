//! Names of notices and of numbers, as files of steps have them.

use hawser_engine::Notice;

/// A notice's name, and its error behind a space.
pub(crate) fn notice_word(notice: Notice) -> (&'static str, String) {
    let word = match notice {
        Notice::Connected => "CONNECTED",
        Notice::Accepted(_) => "ACCEPTED",
        Notice::Readable => "READABLE",
        Notice::Writable => "WRITABLE",
        Notice::Eof => "EOF",
        Notice::Closed => "CLOSED",
        Notice::Failed(errno) => return ("FAILED", format!(" {}", errno_name(errno.0))),
        Notice::Reset(reason) => return ("RESET", format!(" {reason}")),
        Notice::Stopped(reason) => return ("STOPPED", format!(" {reason}")),
        Notice::Message(_) => "MESSAGE",
    };
    (word, String::new())
}

/// The number of a name that the language has.
pub(crate) fn errno(name: &str) -> Option<u32> {
    let mut known = hawser_check::vocabulary::constants();
    known.find(|(known, _)| *known == name).map(|(_, number)| number)
}

/// The name that the language has for an error.
pub(crate) fn errno_name(number: u32) -> String {
    let errors = hawser_check::vocabulary::constants().filter(|(name, _)| name.starts_with('E'));
    let mut named = errors.filter(|(_, known)| *known == number);
    named
        .next()
        .map_or_else(|| number.to_string(), |(name, _)| name.to_owned())
}
