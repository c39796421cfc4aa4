//! Checks whether this user may create a TUN device. This needs `/dev/net/tun`, which is open to every user
//! on Debian and only to root in many containers.

/// Returns true if `/dev/net/tun` can be opened. Otherwise it prints that the test is skipped, with the
/// reason.
pub(crate) fn is_permitted(test: &str) -> bool {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    if let Err(error) = &opened {
        println!("skipped: {test}: /dev/net/tun: {error}");
    }
    opened.is_ok()
}
