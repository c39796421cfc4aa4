//! A script as a tree. What words mean (constants, names of calls) is settled when it runs.

use super::text::Place;
use crate::python::Block;

/// A script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// `--name=value`, in order.
    pub options: Vec<Setting>,
    /// The shell command before the first event.
    pub init: Option<Command>,
    /// What happens, in order.
    pub events: Vec<Event>,
    /// The shell command after the last event.
    pub cleanup: Option<Command>,
}

/// An option line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its line and column.
    pub place: Place,
    /// Without the dashes.
    pub name: String,
    /// Behind the `=`.
    pub value: Option<String>,
}

/// A shell command, between backticks. It is interpreted, never executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its line and column.
    pub place: Place,
    /// Its lines.
    pub text: String,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its line and column.
    pub place: Place,
    /// When it happens, or has to happen.
    pub when: When,
    /// What happens, or has to happen.
    pub action: Action,
}

/// A time in nanoseconds. Relative times count from the event before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// `0.5`: after the start.
    At(u64),
    /// `+0.5`: after the event before.
    After(u64),
    /// `0.5~0.7`: at some time between.
    Between(u64, u64),
    /// `+0.5~+0.7`.
    AfterBetween(u64, u64),
    /// `*`: whenever.
    Any,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `<`: the peer sends it.
    Inbound(Packet),
    /// `>`: the stack has to send it.
    Outbound(Packet),
    /// The application calls the system.
    Call(Call),
    /// A shell command.
    Command(Command),
    /// `%{ … }%`: Python, about TCP_INFO.
    Code(Block),
}

/// A system call with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// When it returns, for a call that blocks: on the same clock as the event's time.
    pub until: Option<u64>,
    /// Its name.
    pub name: String,
    /// Its arguments; some are results (`[1000]` of getsockopt).
    pub arguments: Vec<Expression>,
    /// What it returns.
    pub result: Expression,
    /// Which errno it sets.
    pub errno: Option<String>,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `...`: anything, or what is usual.
    Anything,
    /// A number.
    Number(i64),
    /// A constant by name.
    Word(String),
    /// A text; the flag says that `...` follows.
    Text(String, bool),
    /// `a|b`.
    Or(Box<Expression>, Box<Expression>),
    /// `name=value`, `name(argument)=value`.
    Field(String, Option<Box<Expression>>, Box<Expression>),
    /// `[…]`.
    Array(Vec<Expression>),
    /// `{…}`.
    Struct(Vec<Expression>),
    /// `name(arguments)`.
    Apply(String, Vec<Expression>),
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The fields of the IP header that are stated.
    pub ip: IpFields,
    /// What it carries.
    pub body: Body,
}

/// What is stated of the IP header; what is not is usual (inbound), or anything (outbound).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpFields {
    /// The ECN bits; two values are allowed by `ect01`.
    pub ecn: Option<Ecn>,
    /// The whole TOS byte.
    pub tos: Option<u8>,
    /// Time to live.
    pub ttl: Option<u8>,
    /// IPv6's flow label.
    pub flow_label: Option<u32>,
}

/// ECN codepoints (RFC 3168, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECT.
    None,
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Either of them.
    Ect01,
    /// Congestion experienced.
    Ce,
}

/// What an IP packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram of so many bytes.
    Udp(Ports, u16),
    /// An ICMP message.
    Icmp(Icmp),
    /// An encapsulation that is read but not run: what it is.
    Encapsulated(String),
}

/// Source and destination, where the packet states them.
pub type Ports = Option<(u16, u16)>;

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its ports.
    pub ports: Ports,
    /// Its flags, as in the header: FIN is bit 0, AE (RFC 9768's A) is bit 8.
    pub flags: u16,
    /// The script's sequence number.
    pub seq: u32,
    /// What it counts from.
    pub numbering: Numbering,
    /// Bytes of text.
    pub len: u16,
    /// The script's acknowledgement number.
    pub ack: Option<u32>,
    /// The window field, as in the header.
    pub window: Option<u16>,
    /// The urgent pointer.
    pub urgent: Option<u16>,
    /// The options.
    pub options: Options,
}

/// What a sequence number means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// `1:1(0)`: it counts from the SYN of its side.
    #[default]
    FromSyn,
    /// `0:0(0)!`: it is as in the header.
    Wire,
    /// `...(0)`: any; as the stack chose it.
    Any,
}

/// The options of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Options {
    /// `<...>`.
    Any,
    /// These; without `<…>` none.
    List(Vec<TcpOption>),
}

/// A TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// End of the list.
    Eol,
    /// Padding.
    Nop,
    /// Maximum segment size.
    Mss(u16),
    /// Window scale (RFC 7323, 2).
    Wscale(u8),
    /// SACK permitted (RFC 2018, 2).
    SackOk,
    /// SACK blocks (RFC 2018, 3).
    Sack(Vec<(u32, u32)>),
    /// Timestamps (RFC 7323, 3).
    Timestamp {
        /// TSval.
        val: u32,
        /// TSecr.
        ecr: u32,
    },
    /// A TCP MD5 signature (RFC 2385).
    Md5(Vec<u8>),
    /// A Fast Open cookie (RFC 7413); the flag: under the experimental kind (RFC 6994).
    FastOpen(Vec<u8>, bool),
    /// Counters of accurate ECN (RFC 9768): `(name, value)`, in order.
    AccEcn(Vec<(String, u32)>),
    /// Any other.
    Other(u8, Vec<u8>),
}

/// An ICMP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Its type, by name.
    pub kind: String,
    /// Its code, by name.
    pub code: Option<String>,
    /// The next hop's MTU.
    pub mtu: Option<u32>,
    /// The identifier of an echo.
    pub id: Option<u16>,
    /// What it quotes.
    pub quoted: Quoted,
}

/// What an ICMP message quotes of a packet of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoted {
    /// Nothing is stated.
    Unsaid,
    /// A TCP segment: sequence number, bytes of text.
    Tcp(u32, u16),
    /// A UDP datagram of so many bytes.
    Udp(u16),
    /// So many bytes.
    Raw(u16),
    /// A TCP segment in UDP, with these ports.
    TcpInUdp(u16, u16),
}

/// The flags' letters, from bit 0 on; `.` is ACK.
pub(crate) const FLAG_LETTERS: [char; 9] = ['F', 'S', 'R', 'P', '.', 'U', 'E', 'W', 'A'];
/// FIN.
pub(crate) const FIN: u16 = 1;
/// SYN.
pub(crate) const SYN: u16 = 2;
/// RST.
pub(crate) const RST: u16 = 4;
/// PSH.
pub(crate) const PSH: u16 = 8;
/// ACK.
pub(crate) const ACK: u16 = 16;
/// URG.
pub(crate) const URG: u16 = 32;
