//! Reads a [`Document`] from text: the syntax, the schema, and rules that a schema cannot express.

use std::net::Ipv6Addr;
use std::sync::LazyLock;
use std::time::Duration;

use hawser_carriers::quic::Congestion;
use hawser_documents::Fault;
use hawser_session_machine::{Opening, Security};
use hawser_sockets::host::{DeviceSpecError, Setup, parse_address};
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::values::{hex, limit_of, size, time};
use super::{
    Connection, Document, DocumentError, Family, Format, PORT, Period, SCHEMA, Stack, StatePlace, Transport,
    Warning,
};

static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the published schema is JSON");
    jsonschema::validator_for(&schema).expect("the published schema is a schema")
});

fn error(path: &str, message: impl Into<String>, hint: Option<&str>) -> DocumentError {
    DocumentError { path: path.into(), message: message.into(), hint: hint.map(Into::into) }
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// All mistakes found, each with its path. They concern syntax, keys and values that the schema does not
    /// allow, and properties that contradict each other.
    pub fn parse(text: &str, format: Format) -> Result<Self, Vec<DocumentError>> {
        let value: Value = match format {
            Format::Json => hawser_documents::json(text),
            Format::Toml => hawser_documents::toml(text),
        }
        .map_err(|fault: Fault| vec![error("", fault.to_string(), None)])?;
        let mut errors: Vec<_> = VALIDATOR
            .iter_errors(&value)
            .flat_map(|wrong| explain(&wrong))
            .collect();
        too_large("", &value, &mut errors);
        if !errors.is_empty() {
            errors.dedup();
            return Err(errors);
        }
        let mut document = fill(&value).map_err(|wrong| vec![wrong])?;
        let errors = contradictions(&document, &value);
        if !errors.is_empty() {
            return Err(errors);
        }
        document.unfulfilled = unfulfilled(&document, &value);
        Ok(document)
    }
}

/// Reports times and sizes that exceed their limits.
fn too_large(path: &str, value: &Value, errors: &mut Vec<DocumentError>) {
    match value {
        Value::String(text) => {
            if let Some(limit) = limit_of(text) {
                errors.push(error(path, format!("{text:?} is too large"), Some(limit)));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                too_large(&format!("{path}[{index}]"), item, errors);
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries {
                let path = match path {
                    "" => key.clone(),
                    _ => format!("{path}.{key}"),
                };
                too_large(&path, entry, errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Describes a violation of the schema in words.
fn explain(wrong: &jsonschema::ValidationError<'_>) -> Vec<DocumentError> {
    let path = dotted(wrong.instance_path().as_str());
    match wrong.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => unexpected
            .iter()
            .map(|key| {
                let within = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                let like = nearest(key).map(|like| format!("did you mean `{like}`?"));
                error(&within, "unknown key", like.as_deref())
            })
            .collect(),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            // Reports the errors of the nearest branch, the one with the right type.
            let array = wrong.instance().is_array();
            let text = wrong.instance().is_string();
            let branch = match path.contains("connection_priority") && (array || wrong.instance().is_object())
            {
                true => context.get(usize::from(!array)),
                false => context.get(usize::from(text)),
            };
            let details: Vec<_> = branch.into_iter().flatten().flat_map(explain).collect();
            if details.is_empty() {
                vec![error(&path, wrong.to_string(), None)]
            } else {
                details
            }
        }
        ValidationErrorKind::Pattern { .. } if path.ends_with("scheduler") => vec![error(
            &path,
            format!("{} is not a scheduler", wrong.instance()),
            Some(
                "RR, weighted, lowest-latency, top-latency:N, top-throughput:N, redundant, ecf, blest, cheapest",
            ),
        )],
        ValidationErrorKind::Pattern { .. } if path.ends_with("[0]") || path.ends_with("transport") => {
            vec![error(
                &path,
                format!("{} is not a transport", wrong.instance()),
                Some(Transport::NAMES),
            )]
        }
        ValidationErrorKind::Pattern { .. } => {
            let form = match path.rsplit('.').next().unwrap_or_default() {
                "session_id" => "`random`, or 32 hexadecimal digits",
                "pin" => "64 hexadecimal digits",
                "quota" | "not_sent" | "pacing" => "bytes, or a number with B, KB, MB, GB, KiB, MiB or GiB",
                _ => "seconds, or a number with ms, s or min",
            };
            vec![error(
                &path,
                format!("{} cannot be parsed", wrong.instance()),
                Some(form),
            )]
        }
        // The library names at most two of four or more options.
        ValidationErrorKind::Enum { options } if options.as_array().is_some_and(|all| all.len() > 3) => {
            let all = options.as_array().into_iter().flatten().map(ToString::to_string);
            let all: Vec<String> = all.collect();
            let (last, others) = all.split_last().expect("more than three");
            let message = format!(
                "{} is not one of {} or {last}",
                wrong.instance(),
                others.join(", ")
            );
            vec![error(&path, message, None)]
        }
        _ => vec![error(&path, wrong.to_string(), None)],
    }
}

/// Returns a JSON pointer such as `/connection_priority/1/quota` in the form that people write.
fn dotted(pointer: &str) -> String {
    pointer
        .split('/')
        .skip(1)
        .fold(String::new(), |path, part| match part.parse::<usize>() {
            Ok(index) => format!("{path}[{index}]"),
            Err(_) if path.is_empty() => part.to_owned(),
            Err(_) => format!("{path}.{part}"),
        })
}

/// Returns a key of the schema with a similar name.
fn nearest(key: &str) -> Option<String> {
    fn collect(schema: &Value, keys: &mut Vec<String>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            keys.extend(properties.keys().cloned());
        }
        match schema {
            Value::Object(fields) => fields.values().for_each(|field| collect(field, keys)),
            Value::Array(items) => items.iter().for_each(|item| collect(item, keys)),
            _ => {}
        }
    }
    let mut keys = Vec::new();
    collect(&serde_json::from_str(SCHEMA).ok()?, &mut keys);
    keys.into_iter()
        .map(|known| (strsim::damerau_levenshtein(key, &known), known))
        .filter(|(distance, known)| *distance <= 2.max(known.len() / 3))
        .min()
        .map(|(_, known)| known)
}

/// Builds the document from a valid value.
fn fill(value: &Value) -> Result<Document, DocumentError> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut document = Document::new(value["remote_host"].as_str().unwrap_or_default())?;
    document.session_id = value["session_id"]
        .as_str()
        .filter(|id| *id != "random")
        .and_then(hex);
    document.connections = value["connection_priority"]
        .as_array()
        .into_iter()
        .flatten()
        .map(connection)
        .collect();
    if let Some(names) = value["interfaces"].as_object() {
        document.interfaces = names
            .iter()
            .filter_map(|(word, name)| Some((word.clone(), text(name)?)))
            .collect();
    }
    fill_session(&mut document, &value["multi_config"]);
    let tcp = &value["tcp_config"];
    document.tcp.nagle = tcp["nagle"].as_bool().unwrap_or(document.tcp.nagle);
    document.tcp.idle_timeout = time(&tcp["idle_timeout"]).filter(|time| !time.is_zero());
    document.tcp.congestion = text(&tcp["congestion"]);
    document.tcp.not_sent = size(&tcp["not_sent"]).map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    document.tcp.pacing = size(&tcp["pacing"]);
    let quic = &value["quic_config"];
    if let Some(idle) = time(&quic["idle_timeout"]) {
        document.quic.idle_timeout = (!idle.is_zero()).then_some(idle);
    }
    document.quic.congestion = quic["congestion"]
        .as_str()
        .and_then(Congestion::by_name)
        .unwrap_or(document.quic.congestion);
    document.quic.keep_alive = time(&quic["keep_alive"]).filter(|time| !time.is_zero());
    let sctp = &value["sctp_config"];
    document.sctp.idle_timeout = time(&sctp["idle_timeout"]).unwrap_or(document.sctp.idle_timeout);
    document.sctp.peer_udp_port = sctp["udp_port"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok())
        .unwrap_or(document.sctp.peer_udp_port);
    let mtp = &value["mtp_config"];
    document.mtp.nagle = mtp["nagle"].as_bool().unwrap_or(document.mtp.nagle);
    document.mtp.idle_timeout = time(&mtp["idle_timeout"]).filter(|time| !time.is_zero());
    document.mtp.not_sent = size(&mtp["not_sent"]).unwrap_or(document.mtp.not_sent);
    for (name, described) in mtp["stacks"].as_object().into_iter().flatten() {
        document.stacks.push(stack(name, described)?);
    }
    let tls = &value["ssl_config"];
    document.tls.certificate = text(&tls["cert"]).map(Into::into);
    document.tls.key = text(&tls["key"]).map(Into::into);
    document.tls.name = text(&tls["name"]);
    document.tls.pin = tls["pin"].as_str().and_then(hex);
    if tls["tls"] == "none" {
        document.session.security = Security::None;
    }
    document.fallback = value["fallback"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(text)
        .collect();
    document.state = match value["state"].as_str() {
        None => StatePlace::Usual,
        Some("none") => StatePlace::Nowhere,
        Some(path) => StatePlace::File(path.into()),
    };
    Ok(document)
}

fn fill_session(document: &mut Document, multi: &Value) {
    let stagger = time(&multi["stagger"]).unwrap_or(Duration::from_millis(250));
    document.session.opening = match multi["connect"].as_str() {
        Some("seq") => Opening::Sequential,
        Some("par") => Opening::Parallel,
        _ => Opening::Staggered(stagger),
    };
    if let Some(name) = multi["scheduler"].as_str() {
        document.scheduler = name.to_ascii_lowercase();
    }
    let session = &mut document.session;
    session.keep_alive = time(&multi["keep_alive"]).unwrap_or(session.keep_alive);
    session.idle = time(&multi["idle_timeout"]).unwrap_or(session.idle);
    session.open_timeout = time(&multi["open_timeout"]).unwrap_or(session.open_timeout);
    session.resume = time(&multi["resume"]).unwrap_or(session.resume);
    session.reinject = multi["reinject"].as_bool().unwrap_or(session.reinject);
}

fn connection(value: &Value) -> Connection {
    let part = |index: usize, key: &str| match value {
        Value::Array(parts) => parts.get(index).cloned().unwrap_or_default(),
        _ => value[key].clone(),
    };
    let number = |key: &str| {
        value
            .get(key)
            .and_then(Value::as_u64)
            .and_then(|number| u32::try_from(number).ok())
    };
    let interfaces = match part(2, "interfaces") {
        Value::String(one) => vec![one],
        Value::Array(several) => several
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    };
    Connection {
        transport: part(0, "transport")
            .as_str()
            .and_then(Transport::by_name)
            .unwrap_or(Transport::Tcp),
        family: match part(1, "ip").as_str() {
            Some("ipv4") => Family::V4,
            Some("ipv6") => Family::V6,
            _ => Family::Any,
        },
        interfaces: interfaces.into_iter().filter(|word| word != "any").collect(),
        address: value.get("address").and_then(Value::as_str).map(str::to_owned),
        path: number("path"),
        backup: value.get("backup").and_then(Value::as_bool).unwrap_or(false),
        weight: number("weight").unwrap_or(1),
        cost: number("cost").unwrap_or(0),
        quota: value.get("quota").and_then(size),
        period: match value.get("period").and_then(Value::as_str) {
            Some("day") => Period::Day,
            Some("month") => Period::Month,
            _ => Period::Ever,
        },
    }
}

/// Reads the stack on the interface of this name.
fn stack(name: &str, described: &Value) -> Result<Stack, DocumentError> {
    let wrong = |key: &str, why: String| error(&format!("mtp_config.stacks.{name}.{key}"), why, None);
    let texts = |key: &str| match &described[key] {
        Value::String(one) => vec![one.clone()],
        several => several
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    };
    let addresses = |key: &str| {
        let parsed = texts(key)
            .into_iter()
            .map(|text| parse_address(&text).map_err(|why| wrong(key, why.to_string())));
        parsed.collect::<Result<Vec<_>, _>>()
    };
    let device = format!("{}:{name}", described["device"].as_str().unwrap_or("packet"));
    let gateway = |text: String| {
        text.parse()
            .map_err(|_| wrong("gateway", format!("{text:?} is not an address")))
    };
    Ok(Stack {
        program: described["program"].as_str().unwrap_or("tcp").to_owned(),
        params: texts("params"),
        engine: None,
        setup: Setup {
            device: device
                .parse()
                .map_err(|why: DeviceSpecError| wrong("device", why.to_string()))?,
            addresses: addresses("address")?,
            gateways: texts("gateway")
                .into_iter()
                .map(gateway)
                .collect::<Result<_, _>>()?,
            kernel_addresses: addresses("kernel_address")?,
            offload: true,
            faults: None,
            buffer: size(&described["buffer"]),
        },
    })
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
