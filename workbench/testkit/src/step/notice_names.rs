//! The names of notices and of numbers in files of steps.

use hawser_engine::Notice;

/// Returns a notice's name, and its error after a space.
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

/// Returns the number of an error name in the language.
pub(crate) fn errno(name: &str) -> Option<u32> {
    let mut known = hawser_check::vocabulary::constants();
    known.find(|(known, _)| *known == name).map(|(_, number)| number)
}

/// Returns the language's name for an error.
pub(crate) fn errno_name(number: u32) -> String {
    let errors = hawser_check::vocabulary::constants().filter(|(name, _)| name.starts_with('E'));
    let mut named = errors.filter(|(_, known)| *known == number);
    named
        .next()
        .map_or_else(|| number.to_string(), |(name, _)| name.to_owned())
}
