//! Session documents. For each file in `documents/`, the `.expected` file beside it holds the resulting plan
//! on a certain machine, or the document's errors. `UPDATE_EXPECT=1` rewrites those files; read the
//! difference before committing.
//!
//! The machine has eth0, wlan0 and MPTCP; `mcserver` has an IPv6 and an IPv4 address.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hawser_session::PathCandidate;
use hawser_session::document::{Document, Format, Interface, Kind, Machine};

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

fn machine(document: &Document) -> Machine {
    let interface = |index: u32, name: &str| Interface {
        name: name.into(),
        index,
        is_up: true,
        kind: Kind::of_name(name),
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
    Machine {
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
        ..Machine::default()
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
