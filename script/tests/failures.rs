//! What does not happen as written fails a script: each comparison is made.

use std::path::Path;

use hawser_programs::{Engine, Loaded};
use hawser_script::{Bench, IpVersion, Leniency, Report, Table, Target, run};

fn report(text: &str) -> Report {
    report_with(text, Leniency::default())
}

fn report_with(text: &str, leniency: Leniency) -> Report {
    let program = Loaded::open("tcp", Some(Engine::Interp)).expect("it comes with Hawser");
    let table = Table::parse(hawser_programs::script_table("tcp").expect("its table")).expect("a good table");
    let bench = Bench {
        program: &|params| program.with(params),
        table: &table,
        read: &|_| None,
        defines: Default::default(),
        version: IpVersion::V4,
        target: Target::Sim,
        linux: false,
        leniency,
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
fn every_comparison_is_made() {
    // What follows an open connection, and what has to be said of it; nothing: it passes.
    let cases = [
        ("+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1 win 65535", ""),
        ("+0 write(4, ..., 10) = 11", "returned 10"),
        ("+0 write(9, ..., 10) = -1 EPIPE", "EBADF"),
        ("+0 write(4, ..., 10) = 10\n+0 > . 1:11(10) ack 1", "flags are P., not ."),
        ("+0 write(4, ..., 10) = 10\n+0 > P. 2:12(10) ack 1", "sequence number is 1, not 2"),
        ("+0 write(4, ..., 10) = 10\n+0 > P. 1:10(9) ack 1", "length is 10, not 9"),
        ("+0 write(4, ..., 10) = 10\n+0 > P. 1:12(11) ack 1", "only 10 bytes"),
        ("+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 2", "acknowledgement is 1, not 2"),
        ("+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1 win 9", "window is 65535, not 9"),
        ("+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1 <nop,nop,sackOK>", "options are <>"),
        ("+0 write(4, ..., 10) = 10\n+0 > [ect0] P. 1:11(10) ack 1", "ECN field is noecn"),
        ("+0 write(4, ..., 10) = 10\n+0 > [tos 0x8] P. 1:11(10) ack 1", "TOS byte is 0, not 8"),
        ("+0 write(4, ..., 10) = 10\n+.1 > P. 1:11(10) ack 1", "at 0.100000"),
        ("+0 > P. 1:11(10) ack 1", "no packet"),
        ("+0 write(4, ..., 1500) = 1500\n+0 > P. 1:1501(1500) ack 1", ""),
        ("+0 write(4, ..., 1500) = 1500\n+0 > FP. 1:1501(1500) ack 1", "flags are P., not FP."),
        ("+0...0.1 read(4, ..., 10) = 10\n+.1 < P. 1:11(10) ack 1 win 65535", ""),
        ("+0...0.2 read(4, ..., 10) = 10\n+.1 < P. 1:11(10) ack 1 win 65535", "it returned at"),
        ("+0...0.2 read(4, ..., 10) = 10", "has not returned"),
        ("+0 read(4, ..., 10) = 10", "has not returned"),
        ("+0 %{ assert tcpi_snd_cwnd == 10 }%", ""),
        ("+0 %{ assert tcpi_snd_cwnd == 11, 'is %d' % tcpi_snd_cwnd }%", "is 10"),
        ("+0 %{ assert tcpi_nothing == 11 }%", "tcpi_nothing is not mapped"),
        ("+0 getsockopt(4, SOL_TCP, TCP_MAXSEG, [999], [4]) = 0", "value is 1000, not 999"),
        ("+0 ioctl(4, SIOCINQ, [5]) = 0", "value is 0, not 5"),
        ("+0 poll([{fd=4, events=POLLOUT, revents=POLLIN}], 1, 0) = 1", "revents=0x4, not 0x1"),
        ("+0 sendfile(4, 5, [0], 9) = 9", "beyond what scripts may use here"),
        ("+0 > udp (9)", "beyond what scripts may use here"),
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
    for (stamp, passes) in [(1200, true), (1203, true), (1210, false), (1190, false), (200, false)] {
        let report = report(&script(stamp));
        assert_eq!(report.passed(), passes, "{stamp}: {}", report.explain("script"));
    }
}

#[test]
fn numbers_count_from_the_syn() {
    let script = |ack: u32| {
        format!(
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
             +0 < S 1000:1000(0) win 65535 <mss 1000>\n+0 > S. 5:5(0) ack 1001 <mss 1460>\n\
             +.1 < . 1:11(10) ack 1 win 65535\n+0 accept(3, ..., ...) = 4\n+0 read(4, ..., 20) = 10\n\
             +0 write(4, ..., 5) = 5\n+0 > P. 1:6(5) ack {ack}\n"
        )
    };
    assert!(report(&script(11)).passed(), "{}", report(&script(11)).explain("script"));
    assert!(report(&script(1011)).explain("script").contains("acknowledgement is 11, not 1011"));
}

#[test]
fn an_extra_ack_is_passed_over_only_where_that_is_declared() {
    let text = format!(
        "{OPEN}+0 < . 1:1001(1000) ack 1 win 65535\n+0 < . 1001:2001(1000) ack 1 win 65535\n\
         +0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 2001\n"
    );
    let lenient = Leniency { extra_acks: true, ..Leniency::default() };
    assert!(report_with(&text, lenient).passed(), "{}", report_with(&text, lenient).explain("script"));
    assert!(!report(&text).passed());
    // One that nothing follows is wanted all the same.
    let alone = text.replace("+0 write(4, ..., 10) = 10\n", "");
    assert!(!report_with(&alone, lenient).passed());
}

#[test]
fn params_change_midway() {
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
