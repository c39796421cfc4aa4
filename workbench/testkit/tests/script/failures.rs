//! A deviation from the script fails it: each comparison is made.

use std::path::Path;

use hawser_load::{Engine, LoadedProgram};
use hawser_testkit::script::syntax::Defines;
use hawser_testkit::script::{
    IpVersion, Leniency, RunTarget, ScriptEnvironment, ScriptReport, System, Table, run,
};

fn report(text: &str) -> ScriptReport {
    report_with(text, Leniency::default())
}

fn report_with(text: &str, leniency: Leniency) -> ScriptReport {
    report_as(text, leniency, Defines::new())
}

fn report_as(text: &str, leniency: Leniency, defines: Defines) -> ScriptReport {
    report_for(None, text, leniency, defines)
}

fn report_for(system: Option<System>, text: &str, leniency: Leniency, defines: Defines) -> ScriptReport {
    let program = LoadedProgram::open("tcp", Some(Engine::Interp)).expect("it comes with Hawser");
    let table = Table::parse(hawser_load::script_table("tcp").expect("its table")).expect("a good table");
    let bench = ScriptEnvironment {
        program: &|params| program.with(params),
        table: &table,
        read: &|_| None,
        defines,
        version: IpVersion::V4,
        target: RunTarget::Sim,
        system,
        leniency,
        observe: None,
    };
    run(text, Path::new(""), &bench)
}

const OPEN: &str = "\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 win 65535 <mss 1460>
+.1 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
";

#[test]
fn every_comparison_of_a_script_is_made() {
    // Text after an open connection, and the expected text of the report; an empty one means that it passes.
    let cases = [
        ("+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1 win 65535", ""),
        ("+0 write(4, ..., 10) = 11", "returned 10"),
        ("+0 write(9, ..., 10) = -1 EPIPE", "EBADF"),
        (
            "+0 write(4, ..., 10) = 10\n+0 > . 1:11(10) ack 1",
            "flags are P., not .",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 2:12(10) ack 1",
            "sequence number is 1, not 2",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:10(9) ack 1",
            "length is 10, not 9",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:12(11) ack 1",
            "only 10 bytes",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 2",
            "acknowledgement is 1, not 2",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1 win 9",
            "window is 65535, not 9",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1 <nop,nop,sackOK>",
            "options are <>",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > [ect0] P. 1:11(10) ack 1",
            "ECN field is noecn",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > [tos 0x8] P. 1:11(10) ack 1",
            "TOS byte is 0, not 8",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+.1 > P. 1:11(10) ack 1",
            "at 0.100000",
        ),
        ("+0 > P. 1:11(10) ack 1", "no packet"),
        ("+0 write(4, ..., 1500) = 1500\n+0 > P. 1:1501(1500) ack 1", ""),
        (
            "+0 write(4, ..., 1500) = 1500\n+0 > FP. 1:1501(1500) ack 1",
            "flags are P., not FP.",
        ),
        (
            "+0...0.1 read(4, ..., 10) = 10\n+.1 < P. 1:11(10) ack 1 win 65535",
            "",
        ),
        (
            "+0...0.2 read(4, ..., 10) = 10\n+.1 < P. 1:11(10) ack 1 win 65535",
            "it returned at",
        ),
        ("+0...0.2 read(4, ..., 10) = 10", "has not returned"),
        ("+0 read(4, ..., 10) = 10", "has not returned"),
        ("+0 %{ assert tcpi_snd_cwnd == 10 }%", ""),
        (
            "+0 %{ assert tcpi_snd_cwnd == 11, 'is %d' % tcpi_snd_cwnd }%",
            "is 10",
        ),
        ("+0 %{ assert tcpi_nothing == 11 }%", "tcpi_nothing is not mapped"),
        (
            "+0 getsockopt(4, SOL_TCP, TCP_MAXSEG, [999], [4]) = 0",
            "value is 1000, not 999",
        ),
        ("+0 ioctl(4, SIOCINQ, [5]) = 0", "value is 0, not 5"),
        (
            "+0 poll([{fd=4, events=POLLOUT, revents=POLLIN}], 1, 0) = 1",
            "revents=0x4, not 0x1",
        ),
        ("+0 sendfile(4, 5, [0], 9) = 9", "not supported in scripts here"),
        ("+0 > udp (9)", "not supported in scripts here"),
        (
            "+0 < . 1:1(0) ack 1 win 9/udp(1 > 2)",
            "encapsulated packets (`TCP in UDP, /udp(1 > 2)`)",
        ),
        ("+0 write(4, ..., 10) = 10\n+0 > P. ...(10) ack 1", ""),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. ...(11) ack 1",
            "only 10 bytes",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10)! ack 1",
            "sequence number on the wire is",
        ),
        (
            "+0 < . ...(0) ack 1 win 9",
            "an inbound packet has its sequence number",
        ),
        // A port without a listener resets a segment without an ACK with number 0 (RFC 9293, 3.10.7.1).
        ("+0 < 5 > 99 F 7:7(0) win 9\n+0 > 99 > 5 R. 0:0(0)! ack 8", ""),
        (
            "+0 < 5 > 99 F 7:7(0) win 9\n+0 > 99 > 5 R. 1:1(0)! ack 8",
            "sequence number on the wire is 0, not 1",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > (ttl 64, tos 0) P. 1:11(10) ack 1",
            "",
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > (hlim 9) P. 1:11(10) ack 1",
            "time to live is 64, not 9",
        ),
        (
            "+0 setsockopt(4, SOL_IP, IP_TTL, [9], 4) = 0\n+0 write(4, ..., 10) = 10\n+0 > (ttl 9) P. 1:11(10) ack 1",
            "",
        ),
        ("+0 getsockopt(4, SOL_IP, IP_TTL, [64], [4]) = 0", ""),
        (
            "+0 setsockopt(4, SOL_TCP, TCP_NOOPT, [1], 4) = 0",
            "the option TCP_NOOPT",
        ),
        (
            "+0 setsockopt(4, SOL_TCP, TCP_FUNCTION_BLK, {...}, 4) = 0",
            "the option TCP_FUNCTION_BLK",
        ),
        ("+0 getsockopt(4, SOL_TCP, TCP_KEEPIDLE, [7200], [4]) = 0", ""),
        ("+0 getsockopt(4, SOL_TCP, TCP_KEEPINTVL, [75], [4]) = 0", ""),
        ("+0 getsockopt(4, SOL_TCP, TCP_KEEPCNT, [9], [4]) = 0", ""),
        ("+0 getsockopt(4, SOL_TCP, TCP_KEEPINIT, [180], [4]) = 0", ""),
        (
            "+0 getsockopt(4, SOL_TCP, TCP_KEEPCNT, [8], [4]) = 0",
            "value is 9, not 8",
        ),
        (
            "+0 setsockopt(4, SOL_TCP, TCP_KEEPCNT, [5], 4) = 0\n+0 getsockopt(4, SOL_TCP, TCP_KEEPCNT, [5], [4]) = 0",
            "",
        ),
        (
            "+0 `sysctl -w net.inet.tcp.keepidle=15000`\n+0 getsockopt(4, SOL_TCP, TCP_KEEPIDLE, [15], [4]) = 0",
            "",
        ),
        ("+0 %{ assert tcpi_state == TCPI_ESTABLISHED }%", ""),
        (
            "+0 < icmp unreachable [1:1(0)/udp(9899 > 1)]",
            "encapsulated packets (`TCP in UDP, /udp(9899 > 1)`)",
        ),
        (
            "+0 `sysctl -w net.inet.tcp.keepcnt=8`\n+0 getsockopt(4, SOL_TCP, TCP_KEEPCNT, [8], [4]) = 0",
            "",
        ),
        (
            "+0 `sysctl net.ipv4.tcp_keepalive_intvl=9`\n+0 getsockopt(4, SOL_TCP, TCP_KEEPINTVL, [9], [4]) = 0",
            "",
        ),
        ("+0 `netstat -an | grep -c LISTEN | grep 1`", "asks the machine"),
        ("+0 `grep \" 0A \" /proc/net/tcp | grep \":1F90\"`", ""),
        (
            "+0 `grep \" 0A \" /proc/net/tcp | grep \":1F91\"`",
            "no socket listens at this port",
        ),
        ("* > P. 1:11(10) ack 1", "no packet"),
    ];
    for (rest, wanted) in cases {
        let report = report(&format!("{OPEN}{rest}\n"));
        let text = report.explain("script");
        match wanted {
            "" => assert!(report.passed(), "{rest}\n{text}"),
            wanted => assert!(!report.passed() && text.contains(wanted), "{rest}\n{text}"),
        }
    }
}

/// Invalid arguments of a call make a script unreadable, and the report names them.
#[test]
fn a_call_with_wrong_arguments_is_rejected_with_its_reason() {
    for (call, why) in [
        (
            "close(four)",
            "argument 1 of close(): `four` is not a known constant",
        ),
        ("close()", "close() takes more arguments"),
        ("write(4, ..., -1)", "a length is negative"),
        ("writev(4, 7, 1)", "buffers are written [{..., 1000}]"),
        (
            "poll(4, 1, 0)",
            "poll() takes [{fd=3, events=POLLIN, revents=POLLIN}]",
        ),
        (
            "setsockopt(4, SOL_SOCKET, SO_LINGER, [1], 4)",
            "{onoff=1, linger=0}",
        ),
    ] {
        let report = report(&format!("{OPEN}+0 {call} = 0\n"));
        let text = report.explain("script");
        assert!(
            report.word() == "unreadable" && text.contains(why),
            "{call}: {text}"
        );
    }
}

/// A packet that never comes is reported when no further event can happen, and not at the end of virtual
/// time.
#[test]
fn a_missing_packet_is_reported_at_the_last_event() {
    let text = report(&format!("{OPEN}* > P. 1:11(10) ack 1\n")).explain("script");
    assert!(
        text.contains("at 0.100000") && !text.contains("18446743073"),
        "{text}"
    );
}

#[test]
fn an_unavailable_call_makes_a_script_unsupported() {
    let asking = "`netstat -an | grep -c LISTEN | grep 1`\n";
    for text in [
        format!("{asking}{OPEN}"),
        format!("0 {asking}{OPEN}"),
        format!("{OPEN}+0 {asking}"),
    ] {
        let report = report(&text);
        assert_eq!(report.word(), "unsupported", "{}", report.explain("script"));
    }
    let encapsulated = report(&format!("--udp_encapsulation=tcp\n{OPEN}"));
    assert_eq!(
        encapsulated.word(),
        "unsupported",
        "{}",
        encapsulated.explain("script")
    );
}

#[test]
fn excluded_lines_depend_on_the_given_defines() {
    let text = format!(
        "{OPEN}#ifdef FreeBSD\n+0 write(4, ..., 10) = 11\n#else\n+0 write(4, ..., 10) = 10\n#endif\n+0 > P. 1:11(10) ack 1\n"
    );
    assert!(report(&text).passed(), "{}", report(&text).explain("script"));
    let report = report_as(
        &text,
        Leniency::default(),
        [("FreeBSD".to_owned(), "1".to_owned())].into(),
    );
    assert!(
        report.explain("script").contains("9 | +0 write(4, ..., 10) = 11"),
        "{}",
        report.explain("script")
    );
}

/// TCP_KEEPINIT limits only the handshake.
#[test]
fn the_handshake_has_a_limit_of_its_own() {
    let connect =
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 setsockopt(3, SOL_TCP, TCP_KEEPINIT, [5], 4) = 0\n";
    let fails = format!("{connect}+0...5.000 connect(3, ..., ...) = -1 ETIMEDOUT\n+0 > S 0:0(0) <...>\n");
    assert!(report(&fails).passed(), "{}", report(&fails).explain("script"));
    // No data is acknowledged for ten seconds, and the connection remains.
    let opens = format!(
        "{connect}+0...0.1 connect(3, ..., ...) = 0\n+0 > S 0:0(0) <...>\n+.1 < S. 0:0(0) ack 1 win 65535 <mss 1000>\n\
         +0 > . 1:1(0) ack 1\n+0 write(3, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n\
         +10 getsockopt(3, SOL_SOCKET, SO_ERROR, [0], [4]) = 0\n"
    );
    assert!(report(&opens).passed(), "{}", report(&opens).explain("script"));
}

/// FreeBSD's settings, as far as the program has them.
#[test]
fn sysctls_of_freebsd_map_to_those_of_linux() {
    let text = "`sysctl -w net.inet.tcp.rfc1323=0 net.inet.tcp.sack.enable=0 net.inet.tcp.recvspace=20000`\n\
        +0 `sysctl -w net.inet.tcp.blackhole=0 net.inet.tcp.hostcache.purgenow=1 kern.ipc.maxsockbuf=2097152`\n\
        0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 getsockopt(3, SOL_SOCKET, SO_RCVBUF, [20000], [4]) = 0\n\
        +0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n+0 connect(3, ..., ...) = -1 EINPROGRESS\n\
        +0 > S 0:0(0) win 20000 <mss 1460>\n";
    let report = report(text);
    assert!(
        report.passed() && report.notes.is_empty(),
        "{:?} {}",
        report.notes,
        report.explain("script")
    );
}

/// Tests the assumptions of scripts for FreeBSD. `sendto` connects and does not wait, and the window scale
/// follows the kernel's limit of buffers. Buffers hold whole segments, sockets are counted by state, and
/// windows fall short of a segment.
#[test]
fn a_script_for_freebsd_connects_by_sendto_and_counts_sockets() {
    let text = "`sysctl -w kern.ipc.maxsockbuf=2097152 net.inet.tcp.recvspace=65536`\n\
        +0 `sockstat -4 -P tcp -s | grep packetdril | grep -c SYN_SENT | grep 0`\n\
        0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 setsockopt(3, IPPROTO_TCP, TCP_FASTOPEN, [1], 4) = 0\n\
        +0 sendto(3, ..., 100, 0, ..., ...) = 100\n\
        +0 > S 0:0(0) win 65535 <mss 1460,sackOK,TS val 0 ecr 0,nop,wscale 6,FO>\n\
        +0 `sockstat -4 -P tcp -s -p 8080 | grep -c SYN_SENT | grep 1`\n\
        +.05 < S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK>\n+0 > P. 1:101(100) ack 1 win 65535\n\
        +0 getsockopt(3, SOL_SOCKET, SO_RCVBUF, [65700], [4]) = 0\n\
        +.05 < . 1:3(2) ack 101 win 65535\n+.04 > . 101:101(0) ack 3 win WINDOW\n+0 read(3, ..., 2) = 2\n\
        +0 `sockstat -4 -P tcp -s | grep packetdril | grep -c ESTABLISHED | grep 1`\n";
    let lenient = Leniency { option_order: true, window: true, ..Leniency::default() };
    for (window, passes) in [("65533", true), ("65535", true), ("65532", false)] {
        let text = text.replace("WINDOW", window);
        let report = report_for(Some(System::FreeBsd), &text, lenient, Defines::new());
        assert_eq!(report.passed(), passes, "{window}: {}", report.explain("script"));
    }
    let counts = text
        .replace("WINDOW", "65533")
        .replace("ESTABLISHED | grep 1", "ESTABLISHED | grep 2");
    let report = report_for(Some(System::FreeBsd), &counts, lenient, Defines::new());
    assert!(
        report.explain("script").contains("2 sockets in TCP_ESTABLISHED"),
        "{}",
        report.explain("script")
    );
}

/// Each name of an ICMP error is valid in the families that have it.
#[test]
fn icmp_errors_have_their_names() {
    let both = [
        "unreachable port_unreachable",
        "time_exceeded",
        "parameter_problem",
        "parameter_problem code_1",
    ];
    let four = [
        "net_unknown",
        "host_unknown",
        "source_host_isolated",
        "net_unreachable_for_tos",
        "host_unreachable_for_tos",
        "precedence_violation",
        "precedence_cutoff",
        "packet_filtered",
    ];
    let four = four.map(|code| format!("unreachable {code}"));
    let times = [
        "time_exceeded ttl_exceeded_in_transit",
        "time_exceeded frag_reass_exceeded",
    ]
    .map(str::to_owned);
    let six = [
        "parameter_problem header_field",
        "parameter_problem unknown_next_header",
        "parameter_problem unknown_option",
        "time_exceeded exceeded_hop_limit",
        "time_exceeded exceeded_frag_time",
    ];
    let outcome = |version: &str, message: &str| {
        let sends = "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n";
        let mss = if version == "ipv4" { 1460 } else { 1440 };
        let open = OPEN.replace("mss 1460", &format!("mss {mss}"));
        let report = report(&format!(
            "--ip_version={version}\n{open}{sends}+0 < icmp {message} [1:11(10)]\n"
        ));
        (report.word(), report.explain("script"))
    };
    for message in both {
        assert_eq!(
            (outcome("ipv4", message).0, outcome("ipv6", message).0),
            ("ok", "ok"),
            "{message}"
        );
    }
    for message in four.iter().chain(&times) {
        assert_eq!(
            (outcome("ipv4", message).0, outcome("ipv6", message).0),
            ("ok", "unsupported"),
            "{message}"
        );
    }
    for message in six {
        assert_eq!(
            (outcome("ipv4", message).0, outcome("ipv6", message).0),
            ("unsupported", "ok"),
            "{message}"
        );
    }
}

#[test]
fn timestamps_are_compared_when_their_tick_is_known() {
    let script = |stamp: u32| {
        format!(
            "--tcp_ts_tick_usecs=1000\n\
             0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
             +0 < S 0:0(0) win 65535 <mss 1000,nop,nop,TS val 7 ecr 0>\n\
             +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,TS val 100 ecr 7>\n\
             +.1 < . 1:1(0) ack 1 win 65535 <nop,nop,TS val 8 ecr 100>\n+0 accept(3, ..., ...) = 4\n\
             +1 write(4, ..., 5) = 5\n+0 > P. 1:6(5) ack 1 <nop,nop,TS val {stamp} ecr 8>\n"
        )
    };
    for (stamp, passes) in [
        (1200, true),
        (1203, true),
        (1210, false),
        (1190, false),
        (200, false),
    ] {
        let report = report(&script(stamp));
        assert_eq!(report.passed(), passes, "{stamp}: {}", report.explain("script"));
    }
}

#[test]
fn sequence_numbers_are_relative_to_the_syn() {
    let script = |ack: u32| {
        format!(
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
             +0 < S 1000:1000(0) win 65535 <mss 1000>\n+0 > S. 5:5(0) ack 1001 <mss 1460>\n\
             +.1 < . 1:11(10) ack 1 win 65535\n+0 accept(3, ..., ...) = 4\n+0 read(4, ..., 20) = 10\n\
             +0 write(4, ..., 5) = 5\n+0 > P. 1:6(5) ack {ack}\n"
        )
    };
    assert!(
        report(&script(11)).passed(),
        "{}",
        report(&script(11)).explain("script")
    );
    assert!(
        report(&script(1011))
            .explain("script")
            .contains("acknowledgement is 11, not 1011")
    );
}

#[test]
fn an_extra_ack_is_passed_over_only_where_that_is_declared() {
    let text = format!(
        "{OPEN}+0 < . 1:1001(1000) ack 1 win 65535\n+0 < . 1001:2001(1000) ack 1 win 65535\n\
         +0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 2001\n"
    );
    let lenient = Leniency { extra_acks: true, ..Leniency::default() };
    assert!(
        report_with(&text, lenient).passed(),
        "{}",
        report_with(&text, lenient).explain("script")
    );
    assert!(!report(&text).passed());
    // A packet without further events after it is expected all the same.
    let alone = text.replace("+0 write(4, ..., 10) = 10\n", "");
    assert!(!report_with(&alone, lenient).passed());
}

#[test]
fn params_can_change_during_a_script() {
    let connect = |options: &str| {
        format!(
            "{OPEN}+0 `sysctl -q net.ipv4.tcp_timestamps=0 net.ipv4.tcp_window_scaling=0`\n\
             +0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 5\n+0 fcntl(5, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n\
             +0 connect(5, ..., ...) = -1 EINPROGRESS\n+0 > S 0:0(0) <{options}>\n"
        )
    };
    assert!(report(&connect("mss 1460,nop,nop,sackOK")).passed());
    assert!(!report(&connect("mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 5")).passed());
}

#[test]
fn a_failure_shows_the_line() {
    let text = report(&format!("{OPEN}+0 write(4, ..., 10) = 11\n")).explain("script");
    assert!(text.contains("8 | +0 write(4, ..., 10) = 11\n    | ^"), "{text}");
}
