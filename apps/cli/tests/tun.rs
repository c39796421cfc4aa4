//! Whether this user may have a TUN device, which takes `/dev/net/tun`: everybody's on Debian, root's alone in
//! many containers.

/// True where `/dev/net/tun` can be opened; otherwise prints that the test is skipped, and why.
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
