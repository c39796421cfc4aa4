//! Reads a [`Document`] from text: its syntax, its keys and values, and the rules about several of them.

use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

use hawser_carriers::quic::Congestion;
use hawser_documents::Fault;
use hawser_session_machine::scheduler::by_name;
use hawser_session_machine::{Opening, Security};
use hawser_sockets::host::{DeviceSpec, StackSetup, parse_address};
use serde_json::Value;

use super::part::{Faults, Part, Table};
use super::{
    ConnectionPriority, Document, DocumentError, Family, Format, PORT, Period, Stack, StatePlace, Transport,
    Warning,
};

const FAMILIES: [(&str, Family); 3] = [("any", Family::Any), ("ipv4", Family::V4), ("ipv6", Family::V6)];
const PERIODS: [(&str, Period); 3] = [
    ("day", Period::Day),
    ("month", Period::Month),
    ("ever", Period::Ever),
];
const DEVICES: [(&str, &str); 3] = [("packet", "packet"), ("tun", "tun"), ("xdp", "xdp")];
const SCHEDULERS: &str =
    "RR, weighted, lowest-latency, top-latency:N, top-throughput:N, redundant, ecf, blest, cheapest";
/// The largest number of carriers.
const MAX_CONNECTIONS: usize = 64;
/// The largest number of stacks, and that of addresses of one stack.
const MAX_STACKS: usize = 16;
/// The number of items of a list that can be of any length.
const ANY: RangeInclusive<usize> = 0..=usize::MAX;

fn error(path: &str, message: impl Into<String>, hint: Option<&str>) -> DocumentError {
    DocumentError { path: path.into(), message: message.into(), hint: hint.map(Into::into) }
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// All mistakes found, each with its path. They concern syntax, unknown keys, values that are not allowed,
    /// and properties that contradict each other.
    pub fn parse(text: &str, format: Format) -> Result<Self, Vec<DocumentError>> {
        let value: Value = match format {
            Format::Json => hawser_documents::json(text),
            Format::Toml => hawser_documents::toml(text),
        }
        .map_err(|fault: Fault| vec![error("", fault.to_string(), None)])?;
        let faults = Faults::default();
        let mut document = fill(Part::whole(&value, &faults).table());
        let faults = faults.into_inner();
        if !faults.is_empty() {
            return Err(faults);
        }
        let errors = contradictions(&document, &value);
        if !errors.is_empty() {
            return Err(errors);
        }
        document.unfulfilled = unfulfilled(&document, &value);
        Ok(document)
    }
}

/// Sets a property if the document has a value for it.
fn set<T>(property: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *property = value;
    }
}

/// Builds the document. A value with a fault leaves its property as it was.
fn fill(mut root: Table<'_>) -> Document {
    let server = root.required("remote_host").and_then(|part| {
        let server = host(part.text()?, "remote_host");
        server.map_err(|wrong| part.add(wrong)).ok()
    });
    let mut document = Document::to(server.unwrap_or_default());
    document.session_id = root
        .get("session_id")
        .filter(|part| *part.value != "random")
        .and_then(|part| part.hex("`random`, or 32 hexadecimal digits"));
    if let Some(part) = root.required("connection_priority") {
        let carriers = part.items(1..=MAX_CONNECTIONS);
        document.connections = carriers.iter().filter_map(connection).collect();
    }
    document.interfaces = root
        .table("interfaces")
        .entries()
        .into_iter()
        .filter_map(|(word, part)| Some((word.to_owned(), part.text()?.to_owned())))
        .collect();
    fill_session(&mut document, root.table("multi_config"));
    fill_transports(&mut document, &mut root);
    let mut mtp = root.table("mtp_config");
    set(&mut document.mtp.nagle, mtp.flag("nagle"));
    document.mtp.idle_timeout = mtp.limit("idle_timeout");
    set(&mut document.mtp.not_sent, mtp.size("not_sent"));
    document.stacks = stacks(mtp.table("stacks"));
    let mut tls = root.table("ssl_config");
    document.tls.certificate = tls.text("cert").map(Into::into);
    document.tls.key = tls.text("key").map(Into::into);
    document.tls.name = tls.text("name").map(Into::into);
    document.tls.pin = tls.get("pin").and_then(|part| part.hex("64 hexadecimal digits"));
    let securities = [("TLS_v3", Security::Tls), ("none", Security::None)];
    set(
        &mut document.session.security,
        tls.get("tls").and_then(|part| part.choice(&securities)),
    );
    root.table("wifi_config").flag("power_savings");
    document.fallback = root.get("fallback").map_or_else(Vec::new, |part| {
        let protocols = part.items(ANY);
        protocols.iter().filter_map(|part| part.short_text(255)).collect()
    });
    document.state = match root.text("state") {
        None => StatePlace::Usual,
        Some("none") => StatePlace::Nowhere,
        Some(path) => StatePlace::File(path.into()),
    };
    document
}

fn fill_session(document: &mut Document, mut multi: Table<'_>) {
    let session = &mut document.session;
    let stagger = multi.time("stagger").unwrap_or(Duration::from_millis(250));
    let openings = [
        ("seq", Opening::Sequential),
        ("stagger", Opening::Staggered(stagger)),
        ("par", Opening::Parallel),
    ];
    let opening = multi.get("connect").and_then(|part| part.choice(&openings));
    session.opening = opening.unwrap_or(Opening::Staggered(stagger));
    if let Some(part) = multi.get("scheduler")
        && let Some(name) = part.text()
    {
        if by_name(name).is_none() {
            part.fault::<()>(format!("{name:?} is not a scheduler"), Some(SCHEDULERS));
        }
        document.scheduler = name.to_ascii_lowercase();
    }
    set(&mut session.keep_alive, multi.time("keep_alive"));
    set(&mut session.idle, multi.time("idle_timeout"));
    set(&mut session.open_timeout, multi.time("open_timeout"));
    set(&mut session.resume, multi.time("resume"));
    set(&mut session.reinject, multi.flag("reinject"));
}

/// Fills in the options of the transports of the kernel and of libraries.
fn fill_transports(document: &mut Document, root: &mut Table<'_>) {
    let mut tcp = root.table("tcp_config");
    set(&mut document.tcp.nagle, tcp.flag("nagle"));
    document.tcp.idle_timeout = tcp.limit("idle_timeout");
    document.tcp.congestion = tcp.get("congestion").and_then(|part| part.short_text(15));
    document.tcp.not_sent = tcp
        .size("not_sent")
        .map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    document.tcp.pacing = tcp.size("pacing");
    let mut quic = root.table("quic_config");
    if let Some(idle) = quic.time("idle_timeout") {
        document.quic.idle_timeout = (!idle.is_zero()).then_some(idle);
    }
    document.quic.keep_alive = quic.limit("keep_alive");
    let controller = quic
        .get("congestion")
        .and_then(|part| part.choice(&Congestion::NAMES));
    set(&mut document.quic.congestion, controller);
    root.table("mptcp_config").text("scheduler");
    let mut sctp = root.table("sctp_config");
    set(&mut document.sctp.idle_timeout, sctp.time("idle_timeout"));
    let port = sctp.get("udp_port").and_then(|part| part.number(1..=65_535));
    set(&mut document.sctp.peer_udp_port, port);
}

/// Reads a carrier: its transport, IP version and interfaces, or a table of all properties.
fn connection(part: &Part<'_>) -> Option<ConnectionPriority> {
    if part.value.is_array() {
        let [transport, family, interfaces] = &part.items(3..=3)[..] else {
            return None;
        };
        return Some(ConnectionPriority {
            family: family.choice(&FAMILIES).unwrap_or(Family::Any),
            interfaces: words(interfaces),
            ..ConnectionPriority::new(transport_of(transport)?)
        });
    }
    let mut table = part.table();
    let transport = table.required("transport").as_ref().and_then(transport_of);
    let mut connection = ConnectionPriority::new(transport.unwrap_or(Transport::Tcp));
    set(
        &mut connection.family,
        table.get("ip").and_then(|part| part.choice(&FAMILIES)),
    );
    connection.interfaces = table.get("interfaces").as_ref().map_or_else(Vec::new, words);
    connection.address = table.text("address").map(Into::into);
    connection.path = table.get("path").and_then(|part| part.number(0..=65_535));
    set(&mut connection.backup, table.flag("backup"));
    let weight = table.get("weight").and_then(|part| part.number(1..=1_000));
    set(&mut connection.weight, weight);
    let cost = table
        .get("cost")
        .and_then(|part| part.number(0..=u32::MAX.into()));
    set(&mut connection.cost, cost);
    connection.quota = table.size("quota");
    let period = table.get("period").and_then(|part| part.choice(&PERIODS));
    set(&mut connection.period, period);
    Some(connection)
}

fn transport_of(part: &Part<'_>) -> Option<Transport> {
    let name = part.text()?;
    Transport::by_name(name)
        .or_else(|| part.fault(format!("{name:?} is not a transport"), Some(Transport::NAMES)))
}

/// Reads the words for a connection's interfaces. `any` is the same as none.
fn words(part: &Part<'_>) -> Vec<String> {
    let words = part.one_or_several(usize::MAX);
    let words = words.iter().filter_map(Part::text);
    words.filter(|word| *word != "any").map(str::to_owned).collect()
}

/// Reads the stacks, by the names of their interfaces.
fn stacks(table: Table<'_>) -> Vec<Stack> {
    let stacks = table.entries();
    if let Some((_, beyond)) = stacks.get(MAX_STACKS) {
        beyond.fault::<()>(format!("there are more than {MAX_STACKS} stacks"), None);
    }
    stacks
        .iter()
        .filter_map(|(name, part)| stack(name, part.table()))
        .collect()
}

/// Reads the stack on the interface of this name.
fn stack(name: &str, mut table: Table<'_>) -> Option<Stack> {
    let device = table.required("device");
    let device = device.and_then(|part| {
        let spec = format!("{}:{name}", part.choice(&DEVICES)?);
        spec.parse::<DeviceSpec>()
            .map_or_else(|why| part.fault(why, None), Some)
    });
    fn addresses<T, E: Display>(part: Option<Part<'_>>, parse: fn(&str) -> Result<T, E>) -> Vec<T> {
        let parts = part.map_or_else(Vec::new, |part| part.one_or_several(MAX_STACKS));
        parts.iter().filter_map(|part| part.parsed(parse)).collect()
    }
    let router = table.get("router");
    let gateway = table.get("gateway");
    if let (Some(_), Some(old)) = (&router, &gateway) {
        old.fault::<()>(
            "`gateway` is the old name of `router`, which is given as well",
            None,
        );
    }
    let params = table.get("params").map_or_else(Vec::new, |part| part.items(ANY));
    let setup = StackSetup {
        addresses: addresses(table.required("address"), parse_address),
        // Documents before version 0.2.0 have `gateway`.
        gateways: addresses(router.or(gateway), router_address),
        kernel_addresses: addresses(table.get("kernel_address"), parse_address),
        buffer: table.size("buffer"),
        offload: true,
        faults: None,
        device: device?,
    };
    Some(Stack {
        program: table.text("program").unwrap_or("tcp").to_owned(),
        params: params
            .iter()
            .filter_map(|part| Some(part.text()?.to_owned()))
            .collect(),
        engine: None,
        setup,
    })
}

fn router_address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an address"))
}

/// Returns an error for each pair of properties that exclude each other.
fn contradictions(document: &Document, value: &Value) -> Vec<DocumentError> {
    let mut errors = Vec::new();
    let mut wrong = |path: &str, message: &str, hint: &str| errors.push(error(path, message, Some(hint)));
    let tls = &document.tls;
    if document.is_secure() {
        for (index, connection) in document.connections.iter().enumerate() {
            if connection.transport == Transport::Sctp {
                let path = format!("connection_priority[{index}]");
                wrong(
                    &path,
                    "SCTP has no security",
                    "write `tls: none` in ssl_config, or remove SCTP",
                );
            }
        }
    } else {
        for (index, connection) in document.connections.iter().enumerate() {
            if connection.transport == Transport::Quic {
                let path = format!("connection_priority[{index}]");
                wrong(
                    &path,
                    "QUIC requires TLS, but ssl_config.tls is `none`",
                    "remove one of the two",
                );
            }
        }
        if tls.certificate.is_some() || tls.pin.is_some() || tls.name.is_some() {
            wrong(
                "ssl_config",
                "certificates are given, but tls is `none`",
                "remove one of the two",
            );
        }
        if !document.fallback.is_empty() {
            wrong(
                "fallback",
                "a plain peer is recognized by TLS's ALPN, but ssl_config.tls is `none`",
                "remove it",
            );
        }
    }
    if tls.pin.is_some() && tls.certificate.is_some() {
        wrong(
            "ssl_config.pin",
            "a pinned certificate excludes `cert`",
            "remove one of the two",
        );
    }
    let stagger = !value["multi_config"]["stagger"].is_null();
    if stagger && !matches!(document.session.opening, Opening::Staggered(_)) {
        wrong(
            "multi_config.stagger",
            "`connect` is not `stagger`",
            "remove one of the two",
        );
    }
    if document.connections.iter().all(|connection| connection.backup) {
        wrong(
            "connection_priority",
            "every connection is a backup",
            "mark at least one as not a backup",
        );
    }
    errors
}

/// Returns a warning for each property that is not provided or not used.
fn unfulfilled(document: &Document, value: &Value) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |path: &str, message: String| warnings.push(Warning { path: path.to_owned(), message });
    let used = |transport| {
        document
            .connections
            .iter()
            .any(|connection| connection.transport == transport)
    };
    for (key, is_used) in [
        ("quic_config", used(Transport::Quic)),
        ("mptcp_config", used(Transport::Mptcp)),
        ("sctp_config", used(Transport::Sctp)),
        (
            "mtp_config",
            document
                .connections
                .iter()
                .any(|one| matches!(one.transport, Transport::Mtp(_))),
        ),
        ("tcp_config", used(Transport::Tcp) || used(Transport::Mptcp)),
    ] {
        if !value[key].is_null() && !is_used {
            warn(key, "no connection uses this section".to_owned());
        }
    }
    if let Some(scheduler) = value["mptcp_config"]["scheduler"].as_str()
        && scheduler != "default"
    {
        let message = format!("Linux has one MPTCP scheduler, `default`; {scheduler} is not used");
        warn("mptcp_config.scheduler", message);
    }
    if !value["wifi_config"]["power_savings"].is_null() {
        let message = "the power saving of WiFi is not set; configure it in the system";
        warn("wifi_config.power_savings", message.to_owned());
    }
    warnings
}

/// Parses a name or an address with an optional port.
pub(super) fn host(text: &str, path: &str) -> Result<(String, u16), DocumentError> {
    let hint = Some("name, name:port, address:port, [IPv6 address]:port");
    let bad = |what: &str| error(path, format!("{text:?}: {what}"), hint);
    let (host, port) = if text.parse::<Ipv6Addr>().is_ok() {
        (text, None)
    } else if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest
            .split_once(']')
            .ok_or_else(|| bad("the bracket is not closed"))?;
        address
            .parse::<Ipv6Addr>()
            .map_err(|_| bad("the brackets do not contain an IPv6 address"))?;
        (
            address,
            port.strip_prefix(':').or((!port.is_empty()).then_some(port)),
        )
    } else {
        text.split_once(':')
            .map_or((text, None), |(host, port)| (host, Some(port)))
    };
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(bad("the name is missing"));
    }
    let port = port.map_or(Ok(PORT), |port| {
        port.parse().ok().filter(|port| *port > 0).ok_or(())
    });
    Ok((
        host.to_owned(),
        port.map_err(|()| bad("the port is not a number from 1 to 65535"))?,
    ))
}
