//! Session documents. For each file in `documents/`, the `.expected` file beside it holds the resulting plan
//! on a certain machine, or the document's errors. `UPDATE_EXPECT=1` rewrites those files; read the
//! difference before committing.
//!
//! The machine has eth0, wlan0 and MPTCP; `mcserver` has an IPv6 and an IPv4 address.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hawser_session::PathCandidate;
use hawser_session::document::{Document, Format, Interface, LinkKind, PlanFacts};
use serde_json::{Value, json};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending != "expected"));
    files.sort();
    files
}

fn parse(path: &Path) -> Result<Document, Vec<hawser_session::document::DocumentError>> {
    let text = std::fs::read_to_string(path).expect("a readable file");
    let json = path.extension().is_some_and(|ending| ending == "json");
    Document::parse(&text, if json { Format::Json } else { Format::Toml })
}

fn machine(document: &Document) -> PlanFacts {
    let interface = |index: u32, name: &str| Interface {
        name: name.into(),
        index,
        is_up: true,
        kind: LinkKind::of_name(name),
    };
    let addresses = |name: String| {
        let known = if name == "mcserver" {
            vec!["2001:db8::5", "192.0.2.5"]
        } else {
            vec![name.as_str()]
        };
        let parsed = known
            .iter()
            .map(|address| address.parse().expect("an address"))
            .collect();
        (name, parsed)
    };
    PlanFacts {
        interfaces: vec![interface(1, "lo"), interface(2, "eth0"), interface(3, "wlan0")],
        mptcp: true,
        routes: [
            ("2001:db8::5", vec!["eth0", "wlan0"]),
            ("192.0.2.5", vec!["wlan0"]),
        ]
        .map(|(to, names)| {
            let names = names.into_iter().map(str::to_owned).collect();
            (to.parse().expect("an address"), names)
        })
        .into(),
        mptcp_lacks: document
            .tcp
            .idle_timeout
            .map(|_| "idle_timeout")
            .into_iter()
            .collect(),
        addresses: document.names().into_iter().map(addresses).collect(),
        ..PlanFacts::default()
    }
}

fn describe(document: &Document) -> String {
    let mut text = String::new();
    let plan = match document.plan(&machine(document)) {
        Ok(plan) => plan,
        Err(error) => return format!("error {error}\n"),
    };
    let session = &document.session;
    let _ = writeln!(
        text,
        "{} {:?} resume {:?}",
        document.scheduler, session.opening, session.resume
    );
    let _ = writeln!(
        text,
        "tcp nagle {} idle {:?}",
        document.tcp.nagle, document.tcp.idle_timeout
    );
    let _ = writeln!(text, "quic idle {:?}", document.quic.idle_timeout);
    let _ = writeln!(text, "certificate {:?}", document.tls.certificate);
    for (path_candidate, candidate) in &plan.candidates {
        let (transport, peer, interface) = match path_candidate {
            PathCandidate::Tcp { peer, options, .. } if options.mptcp => {
                ("mptcp", peer, options.interface.as_deref())
            }
            PathCandidate::Tcp { peer, options, .. } => ("tcp", peer, options.interface.as_deref()),
            PathCandidate::Quic { peer, options, .. } => ("quic", peer, options.interface.as_deref()),
            PathCandidate::Mtp { peer, stack, .. } => (stack.transport(), peer, Some(stack.interface())),
            PathCandidate::Sctp { peers, .. } => ("sctp", peers.first().expect("a peer"), None),
        };
        let interface = interface.unwrap_or("any interface");
        let _ = write!(
            text,
            "path {} {transport} to {peer} over {interface}",
            candidate.path
        );
        let _ = write!(text, "{}", if candidate.backup { ", backup" } else { "" });
        let _ = write!(
            text,
            "{}",
            candidate
                .quota
                .map_or_else(String::new, |quota| format!(", quota {quota}"))
        );
        let _ = writeln!(text, "{}", if candidate.cost > 0 { ", costs" } else { "" });
    }
    for meter in &plan.meters {
        let (path, key, period, place) = (meter.path, &meter.key, meter.period, &meter.place);
        let _ = writeln!(
            text,
            "path {path} is counted as {key}, {period:?}, by {place} in {:?}",
            document.state
        );
    }
    plan.warnings.iter().for_each(|warning| {
        let _ = writeln!(text, "warning {warning}");
    });
    text
}

#[test]
fn session_documents_match_the_expected_files() {
    let files = files();
    assert!(files.len() >= 12, "{}", files.len());
    for path in files {
        let found = match parse(&path) {
            Ok(document) => describe(&document),
            Err(errors) => errors.iter().fold(String::new(), |mut text, error| {
                let _ = writeln!(text, "error {error}");
                text
            }),
        };
        let beside = path.with_extension(format!(
            "{}.expected",
            path.extension().unwrap().to_string_lossy()
        ));
        hawser_testing::expect_file(&beside, &found).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The paper's document means the same in both forms.
#[test]
fn figure_2_is_the_same_in_json_and_in_toml() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let [json, toml] =
        ["figure-2.json", "figure-2.toml"].map(|name| parse(&folder.join(name)).expect("a document"));
    assert_eq!(describe(&json), describe(&toml));
}

/// Returns a document with every key of the schema.
fn whole_document() -> Value {
    json!({
        "remote_host": "mcserver",
        "session_id": "random",
        "connection_priority": [
            ["tcp", "any", "eth"],
            { "transport": "mtp-tcp", "ip": "ipv4", "interfaces": ["eth0"], "address": "192.0.2.1", "path": 1,
              "backup": true, "weight": 2, "cost": 3, "quota": "1 GB", "period": "month" },
        ],
        "interfaces": { "eth": "eth0" },
        "multi_config": { "connect": "stagger", "stagger": "5 ms", "scheduler": "RR", "keep_alive": 1.5,
            "idle_timeout": "1 min", "open_timeout": 0, "resume": "300s", "reinject": false },
        "tcp_config": { "nagle": true, "idle_timeout": 5, "congestion": "cubic", "not_sent": 5, "pacing": "1 MB" },
        "quic_config": { "idle_timeout": 5, "keep_alive": 5, "congestion": "bbr" },
        "mptcp_config": { "scheduler": "default" },
        "sctp_config": { "idle_timeout": 5, "udp_port": 9899 },
        "mtp_config": { "nagle": true, "idle_timeout": 5, "not_sent": "16 KiB", "stacks": { "eth0": {
            "device": "tun", "address": ["192.0.2.9/24"], "router": ["192.0.2.1"],
            "kernel_address": "192.0.2.10/24", "program": "tcp", "params": ["MIN_RTO=200ms"],
            "buffer": "1.5 MB" } } },
        "ssl_config": { "cert": "a.pem", "key": "b.pem", "name": "mcserver", "tls": "TLS_v3" },
        "wifi_config": { "power_savings": true },
        "state": "none",
        "fallback": ["http/1.1"],
    })
}

#[test]
fn the_old_name_of_a_stacks_router_is_read() {
    let text = include_str!("documents/stacks.toml");
    let read = |router: &str| {
        let text = text.replace("router = \"192.0.2.1\"", router);
        Document::parse(&text, Format::Toml).map(|document| format!("{document:?}"))
    };
    let new = read("router = '192.0.2.1'").expect("a document");
    assert_eq!(read("gateway = '192.0.2.1'").expect("a document"), new);
    let both = read("router = '192.0.2.1'\ngateway = '192.0.2.1'").expect_err("two names of one key");
    assert!(
        format!("{both:?}").contains("the old name of `router`"),
        "{both:?}"
    );
}

/// Returns the pointers of all values in a document.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let within: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, value)| (i.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (key, value) in within {
        let at = format!("{at}/{key}");
        pointers(value, &at, all);
        all.push(at);
    }
}

/// The published schema and the reader refuse the same values, and the same keys. The reader alone knows
/// contradictions, the forms of addresses, and which connections can all be backups.
#[test]
fn the_reader_agrees_with_the_published_schema() {
    let schema = include_str!("../../../docs/schemas/session.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let schema = jsonschema::validator_for(&schema).expect("the schema is a schema");
    let whole = whole_document();
    let beyond = [
        "address",
        "router",
        "remove one of the two",
        "every connection is a backup",
    ];
    let check = |document: &Value, change: &str| {
        let read = Document::parse(&document.to_string(), Format::Json);
        let errors = read.map_or_else(|errors| format!("{errors:?}"), |_| String::new());
        let is_beyond = beyond.iter().any(|known| errors.contains(known));
        let agrees = errors.is_empty() == schema.is_valid(document) || is_beyond;
        assert!(agrees, "{change}: the reader says {errors:?}");
    };
    check(&whole, "unchanged");
    let mut all = Vec::new();
    pointers(&whole, "", &mut all);
    assert!(all.len() > 60, "{}", all.len());
    let others = ["x", "", "5 s", "5 B", "5  B", "1e3 s", "99999 KB", "none"].map(Value::from);
    let others = others.into_iter().chain([
        json!(null),
        json!(true),
        json!(0),
        json!(-5),
        json!(1.5),
        json!(99_999),
        json!([]),
        json!({}),
        json!(["x", "x", "x"]),
        json!([5]),
    ]);
    for (pointer, other) in all
        .iter()
        .flat_map(|pointer| others.clone().map(move |other| (pointer, other)))
    {
        let mut document = whole.clone();
        let change = format!("{pointer} = {other}");
        *document.pointer_mut(pointer).expect("it is there") = other;
        check(&document, &change);
    }
    for pointer in all {
        let (table, key) = pointer.rsplit_once('/').expect("a pointer");
        let mut document = whole.clone();
        if let Some(fields) = document.pointer_mut(table).and_then(Value::as_object_mut) {
            fields.remove(key);
            check(&document, &format!("without {pointer}"));
        }
        let mut document = whole.clone();
        if let Some(fields) = document.pointer_mut(table).and_then(Value::as_object_mut) {
            fields.insert("nosuch".to_owned(), Value::from("x"));
            check(&document, &format!("{table}/nosuch"));
        }
    }
}
