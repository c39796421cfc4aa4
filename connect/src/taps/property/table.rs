//! The properties of RFC 9622, as data.

use std::collections::BTreeMap;

use super::value::Preference::{self, NoPreference, Prefer, Require};
use super::value::{PropertyValue, Type};

/// The subject of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The choice of protocols and paths; fixed by establishment (RFC 9622, 6.2).
    Selection,
    /// A Connection, at any time (8.1, 8.2).
    Connection,
    /// A Message (9.1.3); given to a Preconnection, the default for all of its messages.
    Message,
}

/// The actions that begin Connections, on which some defaults depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connections begun by Initiate.
    Initiate,
    /// Connections accepted by Listen.
    Listen,
    /// Connections begun by Rendezvous.
    Rendezvous,
}

/// The default value of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// This preference.
    Preference(Preference),
    /// An empty set of preferences.
    Empty,
    /// This boolean.
    Boolean(bool),
    /// This number.
    Integer(u64),
    /// This word.
    Word(&'static str),
    /// Avoid for Listeners and Rendezvous, Prefer for others (6.2.13).
    Temporary,
    /// Passive for Listeners, Disabled for others (6.2.14).
    Multipath,
    /// The value of another property, or whether the transport provides it.
    Of(Property),
    /// The value that the Connection reports.
    ReadOnly,
}

/// The RFC's definition of a property.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The property.
    pub property: Property,
    /// The RFC's spelling of its name.
    pub name: &'static str,
    /// The section of RFC 9622 that defines it.
    pub section: &'static str,
    /// The subject of the property.
    pub class: Class,
    /// The type of its values.
    pub kind: Type,
    /// Its default value.
    pub initial: Initial,
}

const NUMBER: Type = Type::Integer { min: 0, or: None };
const COVERAGE: Type = Type::Integer { min: 0, or: Some("Full Coverage") };
const SINGULAR: Type = Type::Integer { min: 0, or: Some("Not applicable") };
const RATE: Type = Type::Integer { min: 1, or: Some("Unlimited") };
const TIMEOUT: Type = Type::Time { or: "Disabled" };
const USER_TIMEOUT: Type = Type::Time { or: "TCP default" };
const LIFETIME: Type = Type::Time { or: "Infinite" };
const MULTIPATH: Type = Type::Word(&["Disabled", "Active", "Passive"]);
const DIRECTION: Type = Type::Word(&["Bidirectional", "Unidirectional send", "Unidirectional receive"]);
const POLICY: Type = Type::Word(&["Handover", "Interactive", "Aggregate"]);
const STATE: Type = Type::Word(&["Establishing", "Established", "Closing", "Closed"]);
const PROFILE: Type = Type::Word(&[
    "Default",
    "Scavenger",
    "Low Latency/Interactive",
    "Low Latency/Non-Interactive",
    "Constant-Rate Streaming",
    "Capacity-Seeking",
]);
/// RFC 8260, 3.
const SCHEDULER: Type = Type::Word(&[
    "First-Come, First-Served",
    "Round-Robin",
    "Round-Robin per Packet",
    "Priority-Based",
    "Fair Capacity",
    "Weighted Fair Queueing",
]);

/// Declares each property once: its name in [`Property`], and its row of [`Definition::ALL`] with the RFC's
/// spelling, the section, the class, the type and the default value.
macro_rules! properties {
    ($($(#[$doc:meta])* $property:ident: $name:literal, $section:literal, $class:ident, $kind:expr,
        $initial:ident $(($value:expr))?;)*) => {
        /// A property.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Property {
            $($(#[$doc])* $property,)*
        }

        impl Definition {
            /// Every property, in the order of [`Property`].
            pub const ALL: &'static [Definition] = &[$(Definition {
                property: Property::$property,
                name: $name,
                section: $section,
                class: Class::$class,
                kind: $kind,
                initial: Initial::$initial $(($value))?,
            },)*];
        }
    };
}

properties! {
    /// Delivery of all data, without loss or duplication.
    Reliability: "reliability", "6.2.1", Selection, Type::Preference, Preference(Require);
    /// Preservation of the ends of messages.
    PreserveMsgBoundaries: "preserveMsgBoundaries", "6.2.2", Selection, Type::Preference, Preference(NoPreference);
    /// A choice of reliability for each message.
    PerMsgReliability: "perMsgReliability", "6.2.3", Selection, Type::Preference, Preference(NoPreference);
    /// Delivery of data in the order of sending.
    PreserveOrder: "preserveOrder", "6.2.4", Selection, Type::Preference, Preference(Require);
    /// A first message that is sent with the handshake.
    ZeroRttMsg: "zeroRttMsg", "6.2.5", Selection, Type::Preference, Preference(NoPreference);
    /// Connections of a group as streams of one transport connection.
    Multistreaming: "multistreaming", "6.2.6", Selection, Type::Preference, Preference(Prefer);
    /// Protection of all sent data against corruption.
    FullChecksumSend: "fullChecksumSend", "6.2.7", Selection, Type::Preference, Preference(Require);
    /// Protection of all received data against corruption.
    FullChecksumRecv: "fullChecksumRecv", "6.2.8", Selection, Type::Preference, Preference(Require);
    /// Congestion control by the transport.
    CongestionControl: "congestionControl", "6.2.9", Selection, Type::Preference, Preference(Require);
    /// Keep-alive packets of the transport on idle connections.
    KeepAlive: "keepAlive", "6.2.10", Selection, Type::Preference, Preference(NoPreference);
    /// Preferences for interfaces, by name or type.
    Interface: "interface", "6.2.11", Selection, Type::Preferences, Empty;
    /// Preferences for provisioning domains.
    Pvd: "pvd", "6.2.12", Selection, Type::Preferences, Empty;
    /// The use of temporary IPv6 addresses.
    UseTemporaryLocalAddress: "useTemporaryLocalAddress", "6.2.13", Selection, Type::Preference, Temporary;
    /// The use of several paths.
    Multipath: "multipath", "6.2.14", Selection, MULTIPATH, Multipath;
    /// Announcement of further addresses to the peer.
    AdvertisesAltaddr: "advertisesAltaddr", "6.2.15", Selection, Type::Boolean, Boolean(false);
    /// The direction of data: sent, received, or both.
    Direction: "direction", "6.2.16", Selection, DIRECTION, Word("Bidirectional");
    /// Reports of ICMP errors that do not end a Connection.
    SoftErrorNotify: "softErrorNotify", "6.2.17", Selection, Type::Preference, Preference(NoPreference);
    /// Reception by the initiator before it sends.
    ActiveReadBeforeSend: "activeReadBeforeSend", "6.2.18", Selection, Type::Preference, Preference(NoPreference);
    /// The minimum checksum coverage of a received message, in bytes.
    RecvChecksumLen: "recvChecksumLen", "8.1.1", Connection, COVERAGE, Word("Full Coverage");
    /// The urgency of a Connection in its group; lower values come first.
    ConnPriority: "connPriority", "8.1.2", Connection, NUMBER, Integer(100);
    /// The time for which data may stay undelivered.
    ConnTimeout: "connTimeout", "8.1.3", Connection, TIMEOUT, Word("Disabled");
    /// The time for which a Connection may be idle before a keep-alive packet is sent.
    KeepAliveTimeout: "keepAliveTimeout", "8.1.4", Connection, TIMEOUT, Word("Disabled");
    /// The way in which a group shares its capacity (RFC 8260).
    ConnScheduler: "connScheduler", "8.1.5", Connection, SCHEDULER, Word("Weighted Fair Queueing");
    /// The treatment that the network is asked for.
    ConnCapacityProfile: "connCapacityProfile", "8.1.6", Connection, PROFILE, Word("Default");
    /// The way in which several paths are used.
    MultipathPolicy: "multipathPolicy", "8.1.7", Connection, POLICY, Word("Handover");
    /// The minimum useful sending rate, in bits per second.
    MinSendRate: "minSendRate", "8.1.8", Connection, RATE, Word("Unlimited");
    /// The minimum useful receiving rate, in bits per second.
    MinRecvRate: "minRecvRate", "8.1.8", Connection, RATE, Word("Unlimited");
    /// The maximum number of bits sent in a second.
    MaxSendRate: "maxSendRate", "8.1.8", Connection, RATE, Word("Unlimited");
    /// The maximum number of bits received in a second.
    MaxRecvRate: "maxRecvRate", "8.1.8", Connection, RATE, Word("Unlimited");
    /// The number of Connections that the peer may add to the group.
    GroupConnLimit: "groupConnLimit", "8.1.9", Connection, RATE, Word("Unlimited");
    /// Isolation from the cached state of other Connections.
    IsolateSession: "isolateSession", "8.1.10", Connection, Type::Boolean, Boolean(false);
    /// The state: Establishing, Established, Closing or Closed.
    ConnState: "connState", "8.1.11.1", Connection, STATE, ReadOnly;
    /// The ability of the Connection to send.
    CanSend: "canSend", "8.1.11.2", Connection, Type::Boolean, ReadOnly;
    /// The ability of the Connection to receive.
    CanReceive: "canReceive", "8.1.11.3", Connection, Type::Boolean, ReadOnly;
    /// The maximum size of a message that is sent in one packet, in bytes.
    SingularTransmissionMsgMaxLen: "singularTransmissionMsgMaxLen", "8.1.11.4", Connection, SINGULAR, ReadOnly;
    /// The maximum size of a message that can be sent, in bytes.
    SendMsgMaxLen: "sendMsgMaxLen", "8.1.11.5", Connection, NUMBER, ReadOnly;
    /// The maximum size of a message that can be received whole, in bytes.
    RecvMsgMaxLen: "recvMsgMaxLen", "8.1.11.6", Connection, NUMBER, ReadOnly;
    /// The timeout sent to the peer (RFC 5482).
    TcpUserTimeoutValue: "tcp.userTimeoutValue", "8.2.1", Connection, USER_TIMEOUT, Word("TCP default");
    /// The use of the option of RFC 5482.
    TcpUserTimeoutEnabled: "tcp.userTimeoutEnabled", "8.2.2", Connection, Type::Boolean, Boolean(false);
    /// Permission for the peer's option to change `connTimeout`.
    TcpUserTimeoutChangeable: "tcp.userTimeoutChangeable", "8.2.3", Connection, Type::Boolean, Boolean(true);
    /// The time that a message may wait to be sent.
    MsgLifetime: "msgLifetime", "9.1.3.1", Message, LIFETIME, Word("Infinite");
    /// The urgency of a message in its Connection; lower values come first.
    MsgPriority: "msgPriority", "9.1.3.2", Message, NUMBER, Integer(100);
    /// Delivery of a message in the order of sending.
    MsgOrdered: "msgOrdered", "9.1.3.3", Message, Type::Boolean, Of(Property::PreserveOrder);
    /// Permission for a message to arrive more than once.
    SafelyReplayable: "safelyReplayable", "9.1.3.4", Message, Type::Boolean, Boolean(false);
    /// The mark of the last message that is sent.
    Final: "final", "9.1.3.5", Message, Type::Boolean, Boolean(false);
    /// The number of bytes of a message to be protected against corruption.
    MsgChecksumLen: "msgChecksumLen", "9.1.3.6", Message, COVERAGE, Word("Full Coverage");
    /// Reliable delivery of a message.
    MsgReliable: "msgReliable", "9.1.3.7", Message, Type::Boolean, Of(Property::Reliability);
    /// The treatment that the network is asked for, for a message.
    MsgCapacityProfile: "msgCapacityProfile", "9.1.3.8", Message, PROFILE, Of(Property::ConnCapacityProfile);
    /// A ban on fragmentation of a message by the network.
    NoFragmentation: "noFragmentation", "9.1.3.9", Message, Type::Boolean, Boolean(false);
    /// A ban on any segmentation of a message.
    NoSegmentation: "noSegmentation", "9.1.3.10", Message, Type::Boolean, Boolean(false);
}

impl Definition {
    /// Returns whether an application can only read it (8.1.11).
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.initial == Initial::ReadOnly
    }

    /// Returns its default value; `None` if another property or the Connection determines it.
    #[must_use]
    pub fn value_for(&self, action: Action) -> Option<PropertyValue> {
        let is_listener = action == Action::Listen;
        Some(match self.initial {
            Initial::Preference(preference) => PropertyValue::Preference(preference),
            Initial::Empty => PropertyValue::Preferences(BTreeMap::new()),
            Initial::Boolean(is_so) => PropertyValue::Boolean(is_so),
            Initial::Integer(number) => PropertyValue::Integer(number),
            Initial::Word(word) => PropertyValue::Word(word),
            Initial::Temporary if action == Action::Initiate => PropertyValue::Preference(Preference::Prefer),
            Initial::Temporary => PropertyValue::Preference(Preference::Avoid),
            Initial::Multipath => PropertyValue::Word(if is_listener { "Passive" } else { "Disabled" }),
            Initial::Of(_) | Initial::ReadOnly => return None,
        })
    }
}
