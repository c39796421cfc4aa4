//! The shown form of a packet reads back as the same bytes.

use fastrand::Rng;
use hawser_testkit::step::show_and_read;

use super::{examples, program};

#[test]
fn a_shown_packet_is_read_as_the_same_bytes() {
    let mut rng = Rng::with_seed(5);
    for name in ["stop-and-wait.mtp", "go-back-n.mtp", "tcp"] {
        let program = program(name, &examples(), &[]);
        let mut shown = 0;
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..rng.usize(..76)).map(|_| rng.u8(..)).collect();
            shown += u32::from(show_and_read(&*program, &bytes));
        }
        assert!(shown > 200, "{name}: {shown}");
    }
}
