//! A script as a tree. The meaning of words (constants, names of calls) is resolved at run time.

use super::text::ScriptPosition;
use crate::script::python::Block;

/// A parsed script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The option lines `--name=value`, in order.
    pub options: Vec<Setting>,
    /// The shell command before the first event.
    pub init: Option<CommandText>,
    /// The events, in order.
    pub events: Vec<ScriptEvent>,
    /// The shell command after the last event.
    pub cleanup: Option<CommandText>,
}

/// An option line, `--name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The line and column.
    pub place: ScriptPosition,
    /// The name without the dashes.
    pub name: String,
    /// The text after the `=`.
    pub value: Option<String>,
}

/// A shell command, between backticks. It is interpreted, never executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandText {
    /// The line and column.
    pub place: ScriptPosition,
    /// The command's text, which may have several lines.
    pub text: String,
}

/// An event: an action and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptEvent {
    /// The line and column.
    pub place: ScriptPosition,
    /// The time when the action happens, or has to happen.
    pub when: EventTime,
    /// The action, or the expected action.
    pub action: Action,
}

/// A time in nanoseconds. Relative times count from the previous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTime {
    /// `0.5`: after the start.
    At(u64),
    /// `+0.5`: after the previous event.
    After(u64),
    /// `0.5~0.7`: at some time in between.
    Between(u64, u64),
    /// `+0.5~+0.7`: in between, after the previous event.
    AfterBetween(u64, u64),
    /// `*`: at any time.
    Any,
}

/// The action of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `<`: the peer sends a packet.
    Inbound(IpPacket),
    /// `>`: the stack has to send a packet.
    Outbound(IpPacket),
    /// The application makes a system call.
    Call(Call),
    /// A shell command, in backticks.
    Command(CommandText),
    /// `%{ … }%`: Python code about TCP_INFO.
    Code(Block),
}

/// A system call with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The time when a blocking call returns, on the same clock as the event's time.
    pub until: Option<u64>,
    /// The call's name.
    pub name: String,
    /// The arguments; some are results (`[1000]` of getsockopt).
    pub arguments: Vec<Expression>,
    /// The expected return value.
    pub result: Expression,
    /// The name of the expected errno.
    pub errno: Option<String>,
}

/// An argument or a result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `...`: any value, or the usual one.
    Anything,
    /// An integer.
    Number(i64),
    /// A constant by name.
    Word(String),
    /// A text; the flag states that `...` follows.
    Text(String, bool),
    /// `a|b`, the bitwise or.
    Or(Box<Expression>, Box<Expression>),
    /// `name=value`, `name(argument)=value`.
    Field(String, Option<Box<Expression>>, Box<Expression>),
    /// An array, `[…]`.
    Array(Vec<Expression>),
    /// A structure, `{…}`.
    Struct(Vec<Expression>),
    /// An application, `name(arguments)`.
    Apply(String, Vec<Expression>),
}

/// An IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpPacket {
    /// The stated fields of the IP header.
    pub ip: IpFields,
    /// The packet's content.
    pub body: PacketBody,
}

/// The stated fields of the IP header. Absent fields have the usual value (inbound), or any value (outbound).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpFields {
    /// The ECN bits; `ect01` allows two values.
    pub ecn: Option<Ecn>,
    /// The whole TOS byte.
    pub tos: Option<u8>,
    /// The time to live.
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
    /// Either ECT(0) or ECT(1).
    Ect01,
    /// Congestion experienced.
    Ce,
}

/// The content of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketBody {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram of this many bytes.
    Udp(Ports, u16),
    /// An ICMP message.
    Icmp(Icmp),
    /// The name of an encapsulation that is parsed but cannot run.
    Encapsulated(String),
}

/// The source and destination port, if the packet states them.
pub type Ports = Option<(u16, u16)>;

/// A TCP segment, with the script's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The ports, if stated.
    pub ports: Ports,
    /// The flags, as in the header: FIN is bit 0, AE (RFC 9768's A) is bit 8.
    pub flags: u16,
    /// The script's sequence number.
    pub seq: u32,
    /// The base of the sequence number.
    pub numbering: Numbering,
    /// The number of bytes of data.
    pub len: u16,
    /// The script's acknowledgement number.
    pub ack: Option<u32>,
    /// The window field, as in the header.
    pub window: Option<u16>,
    /// The urgent pointer.
    pub urgent: Option<u16>,
    /// The segment's options.
    pub options: SegmentOptions,
}

/// The base of a sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// `1:1(0)`: the number counts from the SYN of its side.
    #[default]
    FromSyn,
    /// `0:0(0)!`: the number is the one in the header.
    Wire,
    /// `...(0)`: any number, as the stack chose it.
    Any,
}

/// The options of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentOptions {
    /// `<...>`: any options.
    Any,
    /// These options; an empty list without `<…>`.
    List(Vec<TcpOption>),
}

/// A TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// End of the list.
    Eol,
    /// Padding (no operation).
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
        /// The timestamp of the sender (TSval).
        val: u32,
        /// The echoed timestamp (TSecr).
        ecr: u32,
    },
    /// A TCP MD5 signature (RFC 2385).
    Md5(Vec<u8>),
    /// A Fast Open cookie (RFC 7413). The flag states the experimental kind (RFC 6994).
    FastOpen(Vec<u8>, bool),
    /// Counters of accurate ECN (RFC 9768): `(name, value)`, in order.
    AccEcn(Vec<(String, u32)>),
    /// Any other option: its kind and content.
    Other(u8, Vec<u8>),
}

/// An ICMP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// The type, by name.
    pub kind: String,
    /// The code, by name.
    pub code: Option<String>,
    /// The next hop's MTU.
    pub mtu: Option<u32>,
    /// The identifier of an echo.
    pub id: Option<u16>,
    /// The quoted part of a packet.
    pub quoted: Quoted,
}

/// The part of the stack's packet that an ICMP message quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoted {
    /// The script states no quotation.
    Unsaid,
    /// A TCP segment: its sequence number and its bytes of data.
    Tcp(u32, u16),
    /// A UDP datagram of this many bytes.
    Udp(u16),
    /// This many bytes.
    Raw(u16),
    /// A TCP segment in UDP, with these ports.
    TcpInUdp(u16, u16),
}

/// The letters of the flags, from bit 0 on; `.` is ACK.
pub(crate) const FLAG_LETTERS: [char; 9] = ['F', 'S', 'R', 'P', '.', 'U', 'E', 'W', 'A'];
pub(crate) const FIN: u16 = 1;
pub(crate) const SYN: u16 = 2;
pub(crate) const RST: u16 = 4;
pub(crate) const PSH: u16 = 8;
pub(crate) const ACK: u16 = 16;
pub(crate) const URG: u16 = 32;
