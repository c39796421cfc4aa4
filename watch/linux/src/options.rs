//! Options for loading the programs into the kernel.

use std::path::PathBuf;
use std::time::Duration;

/// Options for loading.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of a control group (cgroup2) whose flows report their round trips; needed for `marked_only`
    /// and `adopt`.
    pub cgroup: Option<PathBuf>,
    /// True if only flows that began in the cgroup after loading have events. Otherwise all flows of the
    /// machine have events, in every network namespace.
    pub marked_only: bool,
    /// True if only flows in the network namespace of the loading thread have events. Flows of the cgroup
    /// then still report round trips in any namespace. Otherwise flows of every namespace have events.
    pub own_namespace: bool,
    /// True if flows that begin in the cgroup are given our congestion control.
    pub adopt: bool,
    /// The name of our congestion control: 1 to 15 letters, digits, `_`, `.`. If `None`, it is not loaded,
    /// and no variable can be modified.
    pub congestion_control: Option<String>,
    /// The ring's size in bytes: a power of two, from 4 KiB to 1 GiB.
    pub ring_bytes: u32,
    /// The time that records may wait before [`Kernel::poll`](crate::Kernel::poll) is woken for them, so that
    /// it reads many at a time. The default of 200 µs is less than a round trip at which steering makes
    /// sense. If zero, records do not wait. On a bus it is the minimum: records wait longer, up to 1 ms, if
    /// round trips are long.
    pub wake: Duration,
    /// The maximum number of flows that our congestion control can run so that they can be modified; 1 to
    /// 1,048,576.
    pub flows: u32,
    /// The maximum number of filters with an interval or a frequency in use at once, 1 to 1,048,576. Each
    /// subscription needs one for each flow that it has seen. Events beyond it are counted as lost.
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
