//! The properties of RFC 9622, as data.

use std::collections::BTreeMap;

use super::value::{Preference, Type, Value};

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Property {
    /// Delivery of all data, without loss or duplication.
    Reliability,
    /// Preservation of the ends of messages.
    PreserveMsgBoundaries,
    /// A choice of reliability for each message.
    PerMsgReliability,
    /// Delivery of data in the order of sending.
    PreserveOrder,
    /// A first message that is sent with the handshake.
    ZeroRttMsg,
    /// Connections of a group as streams of one transport connection.
    Multistreaming,
    /// Protection of all sent data against corruption.
    FullChecksumSend,
    /// Protection of all received data against corruption.
    FullChecksumRecv,
    /// Congestion control by the transport.
    CongestionControl,
    /// Keep-alive packets of the transport on idle connections.
    KeepAlive,
    /// Preferences for interfaces, by name or type.
    Interface,
    /// Preferences for provisioning domains.
    Pvd,
    /// The use of temporary IPv6 addresses.
    UseTemporaryLocalAddress,
    /// The use of several paths.
    Multipath,
    /// Announcement of further addresses to the peer.
    AdvertisesAltaddr,
    /// The direction of data: sent, received, or both.
    Direction,
    /// Reports of ICMP errors that do not end a Connection.
    SoftErrorNotify,
    /// Reception by the initiator before it sends.
    ActiveReadBeforeSend,
    /// The minimum checksum coverage of a received message, in bytes.
    RecvChecksumLen,
    /// The urgency of a Connection in its group; lower values come first.
    ConnPriority,
    /// The time for which data may stay undelivered.
    ConnTimeout,
    /// The time for which a Connection may be idle before a keep-alive packet is sent.
    KeepAliveTimeout,
    /// The way in which a group shares its capacity (RFC 8260).
    ConnScheduler,
    /// The treatment that the network is asked for.
    ConnCapacityProfile,
    /// The way in which several paths are used.
    MultipathPolicy,
    /// The minimum useful sending rate, in bits per second.
    MinSendRate,
    /// The minimum useful receiving rate, in bits per second.
    MinRecvRate,
    /// The maximum number of bits sent in a second.
    MaxSendRate,
    /// The maximum number of bits received in a second.
    MaxRecvRate,
    /// The number of Connections that the peer may add to the group.
    GroupConnLimit,
    /// Isolation from the cached state of other Connections.
    IsolateSession,
    /// The state: Establishing, Established, Closing or Closed.
    ConnState,
    /// The ability of the Connection to send.
    CanSend,
    /// The ability of the Connection to receive.
    CanReceive,
    /// The maximum size of a message that is sent in one packet, in bytes.
    SingularTransmissionMsgMaxLen,
    /// The maximum size of a message that can be sent, in bytes.
    SendMsgMaxLen,
    /// The maximum size of a message that can be received whole, in bytes.
    RecvMsgMaxLen,
    /// The timeout sent to the peer (RFC 5482).
    TcpUserTimeoutValue,
    /// The use of the option of RFC 5482.
    TcpUserTimeoutEnabled,
    /// Permission for the peer's option to change `connTimeout`.
    TcpUserTimeoutChangeable,
    /// The time that a message may wait to be sent.
    MsgLifetime,
    /// The urgency of a message in its Connection; lower values come first.
    MsgPriority,
    /// Delivery of a message in the order of sending.
    MsgOrdered,
    /// Permission for a message to arrive more than once.
    SafelyReplayable,
    /// The mark of the last message that is sent.
    Final,
    /// The number of bytes of a message to be protected against corruption.
    MsgChecksumLen,
    /// Reliable delivery of a message.
    MsgReliable,
    /// The treatment that the network is asked for, for a message.
    MsgCapacityProfile,
    /// A ban on fragmentation of a message by the network.
    NoFragmentation,
    /// A ban on any segmentation of a message.
    NoSegmentation,
}

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

const fn of(
    class: Class,
    property: Property,
    name: &'static str,
    section: &'static str,
    kind: Type,
    initial: Initial,
) -> Definition {
    Definition { property, name, section, class, kind, initial }
}

const fn selection(
    property: Property,
    name: &'static str,
    section: &'static str,
    kind: Type,
    initial: Initial,
) -> Definition {
    of(Class::Selection, property, name, section, kind, initial)
}

const fn preference(
    property: Property,
    name: &'static str,
    section: &'static str,
    initial: Preference,
) -> Definition {
    of(
        Class::Selection,
        property,
        name,
        section,
        Type::Preference,
        Initial::Preference(initial),
    )
}

const fn connection(
    property: Property,
    name: &'static str,
    section: &'static str,
    kind: Type,
    initial: Initial,
) -> Definition {
    of(Class::Connection, property, name, section, kind, initial)
}

const fn message(
    property: Property,
    name: &'static str,
    section: &'static str,
    kind: Type,
    initial: Initial,
) -> Definition {
    of(Class::Message, property, name, section, kind, initial)
}

impl Definition {
    /// Every property, in the order of [`Property`].
    pub const ALL: &'static [Definition] = &[
        preference(Property::Reliability, "reliability", "6.2.1", Preference::Require),
        preference(
            Property::PreserveMsgBoundaries,
            "preserveMsgBoundaries",
            "6.2.2",
            Preference::NoPreference,
        ),
        preference(
            Property::PerMsgReliability,
            "perMsgReliability",
            "6.2.3",
            Preference::NoPreference,
        ),
        preference(
            Property::PreserveOrder,
            "preserveOrder",
            "6.2.4",
            Preference::Require,
        ),
        preference(
            Property::ZeroRttMsg,
            "zeroRttMsg",
            "6.2.5",
            Preference::NoPreference,
        ),
        preference(
            Property::Multistreaming,
            "multistreaming",
            "6.2.6",
            Preference::Prefer,
        ),
        preference(
            Property::FullChecksumSend,
            "fullChecksumSend",
            "6.2.7",
            Preference::Require,
        ),
        preference(
            Property::FullChecksumRecv,
            "fullChecksumRecv",
            "6.2.8",
            Preference::Require,
        ),
        preference(
            Property::CongestionControl,
            "congestionControl",
            "6.2.9",
            Preference::Require,
        ),
        preference(
            Property::KeepAlive,
            "keepAlive",
            "6.2.10",
            Preference::NoPreference,
        ),
        selection(
            Property::Interface,
            "interface",
            "6.2.11",
            Type::Preferences,
            Initial::Empty,
        ),
        selection(Property::Pvd, "pvd", "6.2.12", Type::Preferences, Initial::Empty),
        selection(
            Property::UseTemporaryLocalAddress,
            "useTemporaryLocalAddress",
            "6.2.13",
            Type::Preference,
            Initial::Temporary,
        ),
        selection(
            Property::Multipath,
            "multipath",
            "6.2.14",
            MULTIPATH,
            Initial::Multipath,
        ),
        selection(
            Property::AdvertisesAltaddr,
            "advertisesAltaddr",
            "6.2.15",
            Type::Boolean,
            Initial::Boolean(false),
        ),
        selection(
            Property::Direction,
            "direction",
            "6.2.16",
            DIRECTION,
            Initial::Word("Bidirectional"),
        ),
        preference(
            Property::SoftErrorNotify,
            "softErrorNotify",
            "6.2.17",
            Preference::NoPreference,
        ),
        preference(
            Property::ActiveReadBeforeSend,
            "activeReadBeforeSend",
            "6.2.18",
            Preference::NoPreference,
        ),
        connection(
            Property::RecvChecksumLen,
            "recvChecksumLen",
            "8.1.1",
            COVERAGE,
            Initial::Word("Full Coverage"),
        ),
        connection(
            Property::ConnPriority,
            "connPriority",
            "8.1.2",
            NUMBER,
            Initial::Integer(100),
        ),
        connection(
            Property::ConnTimeout,
            "connTimeout",
            "8.1.3",
            TIMEOUT,
            Initial::Word("Disabled"),
        ),
        connection(
            Property::KeepAliveTimeout,
            "keepAliveTimeout",
            "8.1.4",
            TIMEOUT,
            Initial::Word("Disabled"),
        ),
        connection(
            Property::ConnScheduler,
            "connScheduler",
            "8.1.5",
            SCHEDULER,
            Initial::Word("Weighted Fair Queueing"),
        ),
        connection(
            Property::ConnCapacityProfile,
            "connCapacityProfile",
            "8.1.6",
            PROFILE,
            Initial::Word("Default"),
        ),
        connection(
            Property::MultipathPolicy,
            "multipathPolicy",
            "8.1.7",
            POLICY,
            Initial::Word("Handover"),
        ),
        connection(
            Property::MinSendRate,
            "minSendRate",
            "8.1.8",
            RATE,
            Initial::Word("Unlimited"),
        ),
        connection(
            Property::MinRecvRate,
            "minRecvRate",
            "8.1.8",
            RATE,
            Initial::Word("Unlimited"),
        ),
        connection(
            Property::MaxSendRate,
            "maxSendRate",
            "8.1.8",
            RATE,
            Initial::Word("Unlimited"),
        ),
        connection(
            Property::MaxRecvRate,
            "maxRecvRate",
            "8.1.8",
            RATE,
            Initial::Word("Unlimited"),
        ),
        connection(
            Property::GroupConnLimit,
            "groupConnLimit",
            "8.1.9",
            RATE,
            Initial::Word("Unlimited"),
        ),
        connection(
            Property::IsolateSession,
            "isolateSession",
            "8.1.10",
            Type::Boolean,
            Initial::Boolean(false),
        ),
        connection(
            Property::ConnState,
            "connState",
            "8.1.11.1",
            STATE,
            Initial::ReadOnly,
        ),
        connection(
            Property::CanSend,
            "canSend",
            "8.1.11.2",
            Type::Boolean,
            Initial::ReadOnly,
        ),
        connection(
            Property::CanReceive,
            "canReceive",
            "8.1.11.3",
            Type::Boolean,
            Initial::ReadOnly,
        ),
        connection(
            Property::SingularTransmissionMsgMaxLen,
            "singularTransmissionMsgMaxLen",
            "8.1.11.4",
            SINGULAR,
            Initial::ReadOnly,
        ),
        connection(
            Property::SendMsgMaxLen,
            "sendMsgMaxLen",
            "8.1.11.5",
            NUMBER,
            Initial::ReadOnly,
        ),
        connection(
            Property::RecvMsgMaxLen,
            "recvMsgMaxLen",
            "8.1.11.6",
            NUMBER,
            Initial::ReadOnly,
        ),
        connection(
            Property::TcpUserTimeoutValue,
            "tcp.userTimeoutValue",
            "8.2.1",
            USER_TIMEOUT,
            Initial::Word("TCP default"),
        ),
        connection(
            Property::TcpUserTimeoutEnabled,
            "tcp.userTimeoutEnabled",
            "8.2.2",
            Type::Boolean,
            Initial::Boolean(false),
        ),
        connection(
            Property::TcpUserTimeoutChangeable,
            "tcp.userTimeoutChangeable",
            "8.2.3",
            Type::Boolean,
            Initial::Boolean(true),
        ),
        message(
            Property::MsgLifetime,
            "msgLifetime",
            "9.1.3.1",
            LIFETIME,
            Initial::Word("Infinite"),
        ),
        message(
            Property::MsgPriority,
            "msgPriority",
            "9.1.3.2",
            NUMBER,
            Initial::Integer(100),
        ),
        message(
            Property::MsgOrdered,
            "msgOrdered",
            "9.1.3.3",
            Type::Boolean,
            Initial::Of(Property::PreserveOrder),
        ),
        message(
            Property::SafelyReplayable,
            "safelyReplayable",
            "9.1.3.4",
            Type::Boolean,
            Initial::Boolean(false),
        ),
        message(
            Property::Final,
            "final",
            "9.1.3.5",
            Type::Boolean,
            Initial::Boolean(false),
        ),
        message(
            Property::MsgChecksumLen,
            "msgChecksumLen",
            "9.1.3.6",
            COVERAGE,
            Initial::Word("Full Coverage"),
        ),
        message(
            Property::MsgReliable,
            "msgReliable",
            "9.1.3.7",
            Type::Boolean,
            Initial::Of(Property::Reliability),
        ),
        message(
            Property::MsgCapacityProfile,
            "msgCapacityProfile",
            "9.1.3.8",
            PROFILE,
            Initial::Of(Property::ConnCapacityProfile),
        ),
        message(
            Property::NoFragmentation,
            "noFragmentation",
            "9.1.3.9",
            Type::Boolean,
            Initial::Boolean(false),
        ),
        message(
            Property::NoSegmentation,
            "noSegmentation",
            "9.1.3.10",
            Type::Boolean,
            Initial::Boolean(false),
        ),
    ];

    /// Returns whether an application can only read it (8.1.11).
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.initial == Initial::ReadOnly
    }

    /// Returns its default value; `None` if another property or the Connection determines it.
    #[must_use]
    pub fn value_for(&self, action: Action) -> Option<Value> {
        let is_listener = action == Action::Listen;
        Some(match self.initial {
            Initial::Preference(preference) => Value::Preference(preference),
            Initial::Empty => Value::Preferences(BTreeMap::new()),
            Initial::Boolean(is_so) => Value::Boolean(is_so),
            Initial::Integer(number) => Value::Integer(number),
            Initial::Word(word) => Value::Word(word),
            Initial::Temporary if action == Action::Initiate => Value::Preference(Preference::Prefer),
            Initial::Temporary => Value::Preference(Preference::Avoid),
            Initial::Multipath => Value::Word(if is_listener { "Passive" } else { "Disabled" }),
            Initial::Of(_) | Initial::ReadOnly => return None,
        })
    }
}
