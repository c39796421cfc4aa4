//! The bottleneck: a round trip of 50 ms, a queue of 128 KiB, and a capacity that changes.

/// The consecutive parts of the time, each with the link's rate in Mbit/s and a further condition.
pub(super) const PARTS: [(u64, &str); 6] = [
    (10, ""),
    (3, ""),
    (6, ""),
    (10, ""),
    (10, "0.5 % of packets lost"),
    (10, "a bulk transfer beside it"),
];

pub(super) const PORT: u16 = 7001;
/// The share of packets lost in the fifth part.
const LOSS: f64 = 0.005;

/// Returns the duration of all parts, in seconds.
pub(super) fn seconds(part: u64) -> u64 {
    part * PARTS.len() as u64
}

/// Returns the link's capacity at a time in Mbit/s, without deducting the bulk transfer's share.
pub(super) fn capacity(part: u64, at: f64) -> f64 {
    let number = ((at / part as f64) as usize).min(PARTS.len() - 1);
    PARTS[number].0 as f64
}

/// Returns the scenario with parts of `part` seconds, and a send buffer of `buffer_kib` KiB. Its first flow
/// is the video, whose traffic an application of the experiment generates.
pub(super) fn text(name: &str, part: u64, buffer_kib: u64) -> String {
    let mut text = format!(
        "name = \"{name}\"\n\
         duration = \"{end}s\"\n\
         program = \"tcp\"\n\
         host = [{{ name = \"sender\", buffer = \"{buffer_kib}KiB\", params = {{ RCV_BUF = 65536 }} }}, {{ name = \"receiver\" }}]\n\n\
         [[link]]\n\
         name = \"bottleneck\"\n\
         between = [\"sender\", \"receiver\"]\n\
         both = {{ delay = \"25ms\" }}\n\
         forward = {{ rate = \"{rate}Mbit/s\", queue = \"128KiB\" }}\n\n\
         [[flow]]\n\
         from = \"sender\"\n\
         to = \"receiver\"\n\
         port = {PORT}\n\
         bulk = {{ bytes = 1 }}\n\n\
         [[flow]]\n\
         from = \"sender\"\n\
         to = \"receiver\"\n\
         port = 7002\n\
         at = \"{cross}s\"\n\
         bulk = {{ bytes = {bytes} }}\n",
        end = seconds(part) + 60,
        rate = PARTS[0].0,
        cross = part * 5,
        // Half the link's capacity for three quarters of that part.
        bytes = part * 5_000_000 / 8 * 3 / 4,
    );
    for (number, (rate, _)) in PARTS.iter().enumerate().skip(1) {
        let loss = if number == 4 { LOSS } else { 0.0 };
        text += &format!(
            "\n[[at]]\ntime = \"{}s\"\nlink = \"bottleneck\"\nforward = {{ rate = \"{rate}Mbit/s\", loss = {loss:?} }}\n",
            part * number as u64
        );
    }
    text
}
