//! The counters of an interface and of its queueing discipline.

use crate::netlink::{Attributes, Request, u32_at, u64_at};

use super::{NamespaceError, Netlink};

/// The sizes of `struct ifinfomsg` and of `struct tcmsg`, in bytes.
const LINK_HEADER: usize = 16;
const QUEUE_HEADER: usize = 20;
/// The root of an interface's queueing disciplines (TC_H_ROOT).
const ROOT: u32 = u32::MAX;
/// TCA_STATS2, and TCA_STATS_BASIC and TCA_STATS_QUEUE in it, of <linux/rtnetlink.h> and
/// <linux/gen_stats.h>.
const STATISTICS: u16 = 7;
const BASIC: u16 = 1;
const QUEUE: u16 = 3;

/// The traffic of an interface since it was created. A super-segment counts as one packet, and its headers
/// count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes received, including Ethernet headers.
    pub received_bytes: u64,
    /// Bytes sent, including Ethernet headers.
    pub sent_bytes: u64,
}

/// The traffic of an interface's queueing discipline since it was set up. A super-segment counts as the
/// packets for which it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that have left it.
    pub sent: u64,
    /// Bytes of these packets, including Ethernet headers.
    pub sent_bytes: u64,
    /// Packets dropped for lack of room.
    pub dropped: u64,
    /// Packets that are waiting.
    pub waiting: u64,
    /// Bytes of the waiting packets.
    pub waiting_bytes: u64,
}

impl Netlink {
    /// Returns the counters of an interface.
    ///
    /// # Errors
    /// Fails if there is no such interface.
    pub fn interface_counters(&mut self, name: &str) -> Result<InterfaceCounters, NamespaceError> {
        let mut read = || {
            let mut request = Request::new(libc::RTM_GETLINK, 0);
            request.put_link(self.index(name)?, 0, 0);
            let mut found = InterfaceCounters::default();
            self.socket.exchange(request, |answer| {
                if answer.kind == libc::RTM_NEWLINK
                    && let Some(bytes) = answer.attributes(LINK_HEADER).find(libc::IFLA_STATS64)
                {
                    found = InterfaceCounters::read(bytes);
                }
            })?;
            Ok(found)
        };
        read().map_err(NamespaceError::new(format!("read what {name} has counted")))
    }

    /// Returns the counters of an interface's queueing discipline.
    ///
    /// # Errors
    /// Fails if there is no such interface, or if it has no queueing discipline.
    pub fn queue_counters(&mut self, name: &str) -> Result<QueueCounters, NamespaceError> {
        let mut read = || {
            // Without the echo flag, only sockets that listen to all notifications receive the answer.
            let mut request = Request::new(libc::RTM_GETQDISC, libc::NLM_F_ECHO);
            request.put(&[0; 4]);
            request.put(&self.index(name)?.to_ne_bytes());
            request.put(&[0; 4]);
            request.put(&ROOT.to_ne_bytes());
            request.put(&[0; 4]);
            let mut found = QueueCounters::default();
            self.socket.exchange(request, |answer| {
                if answer.kind == libc::RTM_NEWQDISC
                    && let Some(bytes) = answer.attributes(QUEUE_HEADER).find(STATISTICS)
                {
                    found = QueueCounters::read(Attributes(bytes));
                }
            })?;
            Ok(found)
        };
        read().map_err(NamespaceError::new(format!(
            "read what the queue of {name} has counted"
        )))
    }
}

impl InterfaceCounters {
    /// Parses a `struct rtnl_link_stats64`.
    fn read(bytes: &[u8]) -> InterfaceCounters {
        InterfaceCounters {
            received: long(bytes, 0),
            sent: long(bytes, 8),
            received_bytes: long(bytes, 16),
            sent_bytes: long(bytes, 24),
        }
    }
}

impl QueueCounters {
    /// Parses a `struct gnet_stats_basic` and a `struct gnet_stats_queue` from attributes.
    fn read(attributes: Attributes<'_>) -> QueueCounters {
        let basic = attributes.find(BASIC).unwrap_or_default();
        let queue = attributes.find(QUEUE).unwrap_or_default();
        QueueCounters {
            sent: short(basic, 8),
            sent_bytes: long(basic, 0),
            dropped: short(queue, 8),
            waiting: short(queue, 0),
            waiting_bytes: short(queue, 4),
        }
    }
}

/// Reads a number of 64 bits, or 0 if it is missing.
fn long(bytes: &[u8], at: usize) -> u64 {
    u64_at(bytes, at).unwrap_or(0)
}

/// Reads a number of 32 bits, or 0 if it is missing.
fn short(bytes: &[u8], at: usize) -> u64 {
    u32_at(bytes, at).map_or(0, u64::from)
}
