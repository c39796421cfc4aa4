//! What an interface, and the queue in front of it, have counted.

use crate::netlink::{Attributes, Request, u32_at, u64_at};

use super::{NamespaceError, Netlink};

/// Bytes of `struct ifinfomsg` and of `struct tcmsg`.
const LINK_HEADER: usize = 16;
const QUEUE_HEADER: usize = 20;
/// The root of an interface's queueing disciplines (TC_H_ROOT).
const ROOT: u32 = u32::MAX;
/// TCA_STATS2, and TCA_STATS_BASIC and TCA_STATS_QUEUE in it, of <linux/rtnetlink.h> and
/// <linux/gen_stats.h>.
const STATISTICS: u16 = 7;
const BASIC: u16 = 1;
const QUEUE: u16 = 3;

/// What an interface has sent and received since it was made. A super-segment counts as one packet,
/// and its headers once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Packets received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes received, Ethernet headers included.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// What the queueing discipline of an interface has done since it was put there. A super-segment
/// counts as the packets that it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that have left it.
    pub sent: u64,
    /// Bytes of them, Ethernet headers included.
    pub sent_bytes: u64,
    /// Packets that found no room.
    pub dropped: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// Bytes of them.
    pub waiting_bytes: u64,
}

impl Netlink {
    /// What an interface has counted.
    ///
    /// # Errors
    /// When there is no such interface.
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

    /// What the queueing discipline of an interface has done.
    ///
    /// # Errors
    /// When there is no such interface, or it has none.
    pub fn queue_counters(&mut self, name: &str) -> Result<QueueCounters, NamespaceError> {
        let mut read = || {
            // Unless an echo is asked for, the answer goes to those alone who listen to everything.
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
    /// From a `struct rtnl_link_stats64`.
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
    /// From attributes: a `struct gnet_stats_basic` and a `struct gnet_stats_queue`.
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

/// A number of 64 bits; 0 where there is none.
fn long(bytes: &[u8], at: usize) -> u64 {
    u64_at(bytes, at).unwrap_or(0)
}

/// A number of 32 bits; 0 where there is none.
fn short(bytes: &[u8], at: usize) -> u64 {
    u32_at(bytes, at).map_or(0, u64::from)
}
