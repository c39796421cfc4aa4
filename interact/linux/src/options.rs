//! How the kernel's programs are loaded.

use std::path::PathBuf;
use std::time::Duration;

/// How to load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of a control group (cgroup2) whose flows report their round trips; needed for
    /// `marked_only` and `adopt`.
    pub cgroup: Option<PathBuf>,
    /// Only flows that began in the cgroup while this was loaded have events. Otherwise all of the machine,
    /// in every network namespace.
    pub marked_only: bool,
    /// Only flows of the network namespace in which the loading thread is have events; those of the cgroup have
    /// round trips wherever they are. Otherwise flows of every namespace have.
    pub own_namespace: bool,
    /// Flows that begin in the cgroup are given our congestion control.
    pub adopt: bool,
    /// What our congestion control is called: 1 to 15 letters, digits, `_`, `.`. `None`: there is none, and
    /// nothing can be modified.
    pub congestion_control: Option<String>,
    /// The ring's size in bytes: a power of two, from 4 KiB to 1 GiB.
    pub ring_bytes: u32,
    /// How long records may wait before [`Kernel::poll`](crate::Kernel::poll) is woken for them, so that it reads many at a time:
    /// 200 µs, less than a round trip that anybody steers by. Zero: not at all. On a bus it is the minimum;
    /// they wait longer, up to 1 ms, where round trips are long.
    pub wake: Duration,
    /// How many flows our congestion control can run so that they can be modified; 1 to 1,048,576.
    pub flows: u32,
    /// How many filters with an interval or a frequency can be at work at once: one for each subscription
    /// and each flow that it has seen; 1 to 1,048,576. Events beyond it are counted as lost.
    pub gates: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cgroup: None,
            marked_only: false,
            own_namespace: false,
            adopt: false,
            congestion_control: Some("hawser".to_owned()),
            ring_bytes: 1 << 20,
            wake: Duration::from_micros(200),
            flows: 4096,
            gates: 8192,
        }
    }
}
