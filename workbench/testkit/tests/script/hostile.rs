//! The property of the fuzz target, on the stable toolchain: texts with many kinds of damage end in a report.

use std::path::Path;

use fastrand::Rng;
use hawser_load::{Engine, LoadedProgram};
use hawser_testkit::script::{IpVersion, Leniency, RunTarget, ScriptEnvironment, Table, run};

const GOOD: &str = "\
--tolerance_usecs=5000
`sysctl -q net.ipv4.tcp_sack=1 net.ipv4.tcp_rmem=\"4096 540000 $((15*1024*1024))\"`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 setsockopt(3, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0
   +0 bind(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"192.168.0.1\")}, ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 65535 <mss 1000,sackOK,TS val 1 ecr 0,nop,wscale 7>
   +0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 257 <nop,nop,TS val 2 ecr 1>
   +0 accept(3, ..., ...) = 4
   +0 poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 0) = 1
   +0 %{ cwnd = tcpi_snd_cwnd; assert cwnd == 10, 'cwnd=%d' % cwnd }%
   +0 write(4, ..., 1000) = 1000
 * > P. 1:989(988) ack 1 <...>
+.1 < icmp unreachable frag_needed mtu 1200 [1:989(988)]
+.1...0.3 read(4, ..., 5) = 5
+.1 < P. 1:6(5) ack 1001 win 257 <nop,nop,TS val 3 ecr 1,sack 1:2 3:4>
+0 `ip link set dev tun0 mtu 1400`
+0 setsockopt(4, SOL_SOCKET, SO_ZEROCOPY, [1], 4) = 0
+0 send(4, ..., 10, MSG_ZEROCOPY) = 10
+0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{...,0}], msg_flags=0, msg_control=[]}, MSG_ERRQUEUE) = -1 EAGAIN
+0 `sysctl -q net.ipv4.tcp_fastopen=0x5 net.ipv4.tcp_fastopen_key=1-2-3-4`
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 5
+0 sendto(5, ..., 9, MSG_FASTOPEN|MSG_DONTWAIT, ..., ...) = 9
 * > S 0:9(9) <mss 1460,nop,nop,sackOK,nop,wscale 8,FO abcd1234>
+1~+2 close(4) = 0
";

fn broken(rng: &mut Rng) -> String {
    const PIECES: &[&str] = &[
        "",
        "...",
        "<",
        ">",
        "%{",
        "}%",
        "`",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "=",
        "4294967295",
        "99999999999999999999",
        "-1",
        "*",
        "+",
        "~",
        "|",
        "\"",
        "é",
        "\n",
        ":",
        ",",
        "0x",
        "assert ",
        "**9**9",
        "1000000 ",
        "S.",
        "FO 0",
        "//",
    ];
    let mut text = GOOD.to_owned();
    for _ in 0..1 + rng.usize(..4) {
        let at = rng.usize(..text.len());
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let end = (at + rng.usize(..6)).min(text.len());
        let end = (end..=text.len())
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(text.len());
        text.replace_range(at..end, PIECES[rng.usize(..PIECES.len())]);
    }
    text
}

#[test]
fn broken_scripts_end_in_reports() {
    let program = LoadedProgram::open("tcp", Some(Engine::Native)).expect("it comes with Hawser");
    let table = Table::parse(hawser_load::script_table("tcp").expect("its table")).expect("a good table");
    let bench = ScriptEnvironment {
        program: &|params| program.with(params),
        table: &table,
        read: &|_| None,
        defines: Default::default(),
        version: IpVersion::V4,
        target: RunTarget::Sim,
        system: Some(hawser_testkit::script::System::Linux),
        leniency: Leniency { option_order: true, push: true, extra_acks: true, window: true },
        observe: None,
    };
    let mut rng = Rng::with_seed(1);
    let mut words = std::collections::BTreeMap::new();
    for _ in 0..1500 {
        let text = broken(&mut rng);
        let report = run(&text, Path::new(""), &bench);
        let _ = report.explain("script");
        *words.entry(report.word()).or_insert(0) += 1;
    }
    // The damage is neither too weak nor too strong to reach the parser and the runner.
    assert!(words.get("unreadable").is_some_and(|n| *n > 100), "{words:?}");
    assert!(words.get("failed").is_some_and(|n| *n > 20), "{words:?}");
}
