//! Chains in the kernel, without a stack behind them: the contexts that they know, and the results that they
//! leave.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hawser_emit_c::Machine;
use hawser_engine::front::{FrontLimits, Lent};
use hawser_engine::wire::{TxFrame, Wire};
use hawser_host::{PacketOptions, PacketWire};
use hawser_ir::abi::Id;
use hawser_ir::{ContextId, Module};
use hawser_testing::internet_checksum;
use hawser_xdp::{XdpOptions, XdpWire, chains_in_kernel};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};

use crate::TestResult;
use crate::cable::{DEVICE, PEER, SENDER, TIMEOUT, addresses, frame, ip, lay, receive, send};

const IPV4: [u8; 2] = [0x08, 0x00];
/// The program's protocol, for experiments (RFC 3692).
const PROTOCOL: u8 = 253;
const STOP_AND_WAIT: &str = "examples/stop-and-wait.mtp";
/// The maximum number of ids that the kernel keeps: `HW_MAX_IDS`.
const MAX_IDS: u32 = 65_536;

fn program(path: &str) -> TestResult<Module> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let compiled = hawser_driver::compile(&path);
    let module = compiled.module.as_ref().filter(|_| !compiled.failed());
    Ok(module.ok_or_else(|| compiled.render(false))?.clone())
}

fn open(name: &str, module: &Module) -> TestResult<XdpWire> {
    let options = XdpOptions { addresses: addresses(), answers: true, ..XdpOptions::default() };
    let mut wire = XdpWire::open(name, &options)?;
    assert!(!chains_in_kernel(module).is_empty());
    wire.run_chains(module, &hawser_equality::compile::c_of(module, Machine::Ebpf).c)?;
    Ok(wire)
}

/// A packet of stop-and-wait from 10.9.1.1 to 10.9.1.2: an acknowledgement of number 1.
fn packet(to: [u8; 6], ports: [u16; 2]) -> TxFrame {
    let mut header = ports.map(u16::to_be_bytes).concat();
    header.extend([1, 0, 0, 0, 0, 0, 0, 1]);
    let addresses = [10, 9, 1, 1, 10, 9, 1, 2];
    let sum = internet_checksum(&[&addresses, &[0, PROTOCOL, 0, header.len() as u8], &header]);
    header[6..8].copy_from_slice(&sum);
    let mut whole = vec![
        0x45,
        0,
        0,
        20 + header.len() as u8,
        0,
        0,
        0x40,
        0,
        64,
        PROTOCOL,
        0,
        0,
    ];
    whole.extend(addresses);
    let sum = internet_checksum(&[&whole]);
    whole[10..12].copy_from_slice(&sum);
    whole.extend(header);
    whole.resize(60, 0);
    frame(to, IPV4, whole)
}

/// The id of a connection with that packet's sender.
fn id(ports: [u16; 2]) -> Id {
    let mapped = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 1, last];
    let mut id = Id::NONE;
    id.push_bytes(&mapped(2));
    id.push_bytes(&mapped(1));
    id.push(ports[1].into(), 2);
    id.push(ports[0].into(), 2);
    id
}

/// Returns a bit map of these ports, in the form in which the stack passes its ports in use.
fn held(ports: &[u16]) -> Vec<u64> {
    let mut words = vec![0; 1024];
    for port in ports {
        words[usize::from(port / 64)] |= 1 << (port % 64);
    }
    words
}

fn lend(wire: &mut XdpWire, module: &Module, is_complete: bool, ports: &[u64]) {
    let params: Vec<u64> = module.params.iter().map(|param| param.default).collect();
    let globals = vec![Vec::new(); module.contexts.len()];
    let front = wire.front().expect("chains run");
    front.open(&FrontLimits {
        ports,
        until: None,
        chains: 8,
        room: 1 << 20,
        is_complete,
        may_create: true,
        key: (1, 2),
        params: &params,
        globals: &globals,
        mtu: 1500,
    });
}

/// Lends a connection of stop-and-wait.
fn put(wire: &mut XdpWire, module: &Module, number: u32, ports: [u16; 2]) -> TestResult {
    let mut contexts = module.contexts.iter();
    let kind = contexts.position(|context| context.name == "sw_conn");
    let kind = ContextId(kind.ok_or("it has connections")? as u32);
    wire.front().ok_or("chains run")?.put(&Lent {
        number,
        kind,
        ids: &[id(ports)],
        bytes: &vec![0; module.context_size(kind)],
        room: 1 << 20,
    });
    Ok(())
}

/// Takes all contexts back. Returns the number of frames that left output for the stack, and the number that
/// arrived unhandled.
fn take_back(wire: &mut XdpWire, module: &Module) -> TestResult<[usize; 2]> {
    let mut globals = vec![Vec::new(); module.contexts.len()];
    let front = wire.front().expect("chains run");
    let kept = front.close(&mut globals, &mut |_, _| ());
    assert_eq!(receive(wire, kept, TIMEOUT)?.len(), kept);
    Ok([kept, receive(wire, 10, Duration::from_millis(50))?.len()])
}

/// While there are more contexts than the kernel has room for, frames without a known context go to the
/// stack. Frames with a known one are still handled.
pub(crate) fn a_full_map_leaves_unknown_connections_to_the_stack() -> TestResult {
    let module = program(STOP_AND_WAIT)?;
    let peer = lay(1500, 1500)?;
    let mut wire = open(DEVICE, &module)?;
    let mut far = peer.run(|| PacketWire::open(PEER, PacketOptions::default()))??;
    let (unknown, known) = (packet(wire.mac(), [9, 9]), packet(wire.mac(), [7, 80]));
    let mut one = |wire: &mut XdpWire, frame: &TxFrame, is_complete| -> TestResult<(u64, usize)> {
        let before = wire.handled().0;
        lend(wire, &module, is_complete, &[]);
        send(&mut far, &[frame.clone(), frame.clone()])?;
        std::thread::sleep(Duration::from_millis(50));
        let [kept, came] = take_back(wire, &module)?;
        assert_eq!(
            kept, 0,
            "an old acknowledgement, and a packet for nobody, leave nothing to do"
        );
        Ok((wire.handled().0 - before, came))
    };
    // A chain without any output takes no room from the next.
    let (handled, as_it_came) = ((2, 0), (0, 2));
    assert_eq!(one(&mut wire, &unknown, true)?, handled);
    assert_eq!(one(&mut wire, &unknown, false)?, as_it_came);
    for number in 0..=MAX_IDS {
        let ports = match number {
            0 => [7, 80],
            number => [number as u16, 1000 + (number >> 16) as u16],
        };
        put(&mut wire, &module, number, ports)?;
    }
    assert_eq!(one(&mut wire, &unknown, true)?, as_it_came);
    assert_eq!(one(&mut wire, &known, true)?, handled);
    wire.front().ok_or("chains run")?.remove(MAX_IDS);
    assert_eq!(one(&mut wire, &unknown, true)?, handled);
    Ok(())
}

/// While the stack is awake and more than half of its ring waits for it, the kernel drops frames without a
/// connection. The rest of the ring is kept for those with one. After 20 ms, frames without a connection
/// reach the stack again.
pub(crate) fn a_flood_leaves_room_for_connections() -> TestResult {
    let module = program(STOP_AND_WAIT)?;
    let peer = lay(1500, 1500)?;
    let mut wire = open(DEVICE, &module)?;
    let mut far = peer.run(|| PacketWire::open(PEER, PacketOptions::default()))??;
    let (unknown, known) = (packet(wire.mac(), [9, 9]), packet(wire.mac(), [7, 80]));
    put(&mut wire, &module, 0, [7, 80])?;
    lend(&mut wire, &module, true, &[]);
    assert_eq!(take_back(&mut wire, &module)?, [0, 0]);
    let (fits, beyond) = (1024, 300);
    send(&mut far, &vec![unknown.clone(); fits + beyond])?;
    send(&mut far, &vec![known.clone(); 50])?;
    std::thread::sleep(Duration::from_millis(50));
    let came = receive(&mut wire, fits + 51, TIMEOUT)?;
    assert_eq!(came.len(), fits + 51, "one more says that there is a flood");
    let connections = came.iter().filter(|frame| frame[34..36] == [0, 7]);
    assert_eq!(connections.count(), 50);
    assert_eq!(wire.missed()?, beyond as u64 - 1);
    send(&mut far, &[unknown.clone(), known.clone()])?;
    assert_eq!(receive(&mut wire, 2, TIMEOUT)?.len(), 2);
    assert_eq!(wire.missed()?, beyond as u64 - 1);
    // Frames that found no room in the ring do not wait.
    send(&mut far, &vec![known.clone(); 4000])?;
    std::thread::sleep(Duration::from_millis(50));
    let came = receive(&mut wire, 4000, Duration::from_millis(200))?.len();
    assert!((fits + 51..4000).contains(&came), "{came} found room");
    let missed = wire.missed()?;
    send(&mut far, &[unknown, known])?;
    assert_eq!(receive(&mut wire, 2, TIMEOUT)?.len(), 2);
    assert_eq!(wire.missed()?, missed);
    Ok(())
}

/// The addresses of both ends, the sender's first, in the form of a packet, followed by the UDP header.
fn pseudo(is_v4: bool) -> Vec<u8> {
    match is_v4 {
        true => vec![10, 9, 1, 1, 10, 9, 1, 2],
        false => {
            let address = |last| [0xfd, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            [address(1), address(2)].concat()
        }
    }
}

/// A datagram of QUIC-Lite to an unknown connection, long enough to be answered by a stateless reset.
fn datagram(is_v4: bool, to_port: u16) -> Vec<u8> {
    let mut bytes = [40_000_u16, to_port, 8 + 60, 0].map(u16::to_be_bytes).concat();
    bytes.extend([0x43, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 1]);
    bytes.resize(8 + 60, 0);
    let sum = internet_checksum(&[&pseudo(is_v4), &[0, 17, 0, 8 + 60], &bytes]);
    bytes[6..8].copy_from_slice(&sum);
    bytes
}

fn in_ip(to: [u8; 6], is_v4: bool, datagram: &[u8]) -> TxFrame {
    let len = datagram.len() as u8;
    let addresses = pseudo(is_v4);
    if !is_v4 {
        let header = [&[0x60, 0, 0, 0, 0, len, 17, 64][..], &addresses, datagram];
        return frame(to, [0x86, 0xdd], header.concat());
    }
    let mut header = [
        &[0x45, 0, 0, 20 + len, 0, 0, 0x40, 0, 64, 17, 0, 0][..],
        &addresses,
    ]
    .concat();
    let sum = internet_checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    frame(to, IPV4, [&header, datagram].concat())
}

/// Datagrams reach the program in the kernel under the same conditions as in the stack. They are intact (RFC
/// 768), and are for the port that it registers or one that an application holds. The answer is a datagram,
/// too.
pub(crate) fn datagrams_are_answered_as_datagrams() -> TestResult {
    let module = program("transports/quic-lite/quic-lite.mtp")?;
    let peer = lay(1500, 1500)?;
    let mut wire = open(DEVICE, &module)?;
    let options = PacketOptions { mac: Some(SENDER), ..PacketOptions::default() };
    let mut far = peer.run(|| PacketWire::open(PEER, options))??;
    let held = held(&[5_555]);
    let to = wire.mac();
    let mut sent = |frame: TxFrame| -> TestResult<Option<Vec<u8>>> {
        lend(&mut wire, &module, true, &held);
        send(&mut far, &[frame])?;
        let answer = receive(&mut far, 1, Duration::from_millis(100))?.pop();
        let [kept, came] = take_back(&mut wire, &module)?;
        assert_eq!([kept, came], [0, usize::from(answer.is_none())]);
        Ok(answer)
    };
    let mut one = |is_v4, datagram: &[u8]| sent(in_ip(to, is_v4, datagram));
    let with_sum = |mut bytes: Vec<u8>, sum: [u8; 2]| {
        bytes[6..8].copy_from_slice(&sum);
        bytes
    };
    for is_v4 in [true, false] {
        for port in [4_433, 5_555] {
            let frame = one(is_v4, &datagram(is_v4, port))?.ok_or("no reset came")?;
            let network = if is_v4 { 20 } else { 40 };
            let answer = &frame[14 + network..];
            let len = answer.len() as u8;
            assert_eq!(
                answer[..6],
                [port, 40_000, len.into()].map(u16::to_be_bytes).concat()
            );
            assert_eq!(
                (answer[8], len),
                (0x41, 8 + 33),
                "a stateless reset (RFC 9000, 10.3)"
            );
            let pseudo = pseudo(is_v4);
            let sum = internet_checksum(&[&pseudo, &[0, 17, 0, len], answer]);
            assert_eq!(sum, [0; 2], "the sum of addresses does not depend on their order");
            let (source, destination) = pseudo.split_at(pseudo.len() / 2);
            let addresses = &frame[14 + network - pseudo.len()..14 + network];
            assert_eq!(addresses, [destination, source].concat());
            if is_v4 {
                assert_eq!(internet_checksum(&[&frame[14..34]]), [0; 2]);
            } else {
                assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, len, 17, 64]);
            }
        }
        assert_eq!(
            one(is_v4, &datagram(is_v4, 5_556))?,
            None,
            "nobody holds that port"
        );
        let wrong = with_sum(datagram(is_v4, 4_433), [1, 2]);
        assert_eq!(one(is_v4, &wrong)?, None, "it is damaged");
        let without = one(is_v4, &with_sum(datagram(is_v4, 4_433), [0, 0]))?;
        assert_eq!(
            without.is_some(),
            is_v4,
            "IPv6 takes no datagram without a sum (RFC 8200, 8.1)"
        );
        let mut long = datagram(is_v4, 4_433);
        long[5] += 1;
        assert_eq!(
            one(is_v4, &with_sum(long, [0, 0]))?,
            None,
            "it states more than there is"
        );
    }
    let mapped = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 1, last];
    let whole = datagram(true, 4_433); // the sum of mapped addresses differs
    let header = [0x60, 0, 0, 0, 0, whole.len() as u8, 17, 64];
    let sum = internet_checksum(&[&mapped(1), &mapped(2), &[0, 17, 0, 68], &whole[..6], &whole[8..]]);
    let packet = [&header[..], &mapped(1), &mapped(2), &with_sum(whole, sum)].concat();
    let answer = sent(frame(to, [0x86, 0xdd], packet))?;
    assert_eq!(answer, None, "IPv4 addresses have no place in IPv6 packets");
    Ok(())
}

/// Frames that arrive while chains are compiled do not count as passed frames that have yet to arrive.
pub(crate) fn frames_during_compilation_do_not_block_chains() -> TestResult {
    let module = program(STOP_AND_WAIT)?;
    let peer = lay(1500, 1500)?;
    let mut wire = crate::cable::open()?;
    let mut far = peer.run(|| PacketWire::open(PEER, PacketOptions::default()))??;
    let unknown = packet(wire.mac(), [9, 9]);
    send(&mut far, &vec![unknown.clone(); 3])?;
    wire.run_chains(&module, &hawser_equality::compile::c_of(&module, Machine::Ebpf).c)?;
    assert_eq!(receive(&mut wire, 3, TIMEOUT)?.len(), 3);
    lend(&mut wire, &module, true, &[]);
    send(&mut far, &[unknown])?;
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(take_back(&mut wire, &module)?, [0, 0]);
    assert_eq!(wire.handled().0, 1);
    Ok(())
}

/// Holds a wire with chains in the kernel until the process is killed.
pub(crate) fn hold(name: &str) -> ExitCode {
    match program(STOP_AND_WAIT).and_then(|module| open(name, &module)) {
        Ok(wire) => {
            println!("chains run: {}", wire.mode());
            loop {
                std::thread::sleep(TIMEOUT);
            }
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the kernel's ids of the programs and maps of chains.
fn in_the_kernel() -> BTreeSet<(bool, u32)> {
    let ours = |name: &str| name.starts_with("hw_");
    let programs = ProgInfoIter::default().filter(|program| ours(&program.name.to_string_lossy()));
    let maps = MapInfoIter::default().filter(|map| ours(&map.name.to_string_lossy()));
    let programs = programs.map(|program| (true, program.id));
    programs.chain(maps.map(|map| (false, map.id))).collect()
}

pub(crate) fn a_killed_process_leaves_no_chain() -> TestResult {
    let _peer = lay(1500, 1500)?;
    let shown = || ip(&format!("-details link show {DEVICE}"));
    let (untouched, before) = (shown()?, in_the_kernel());
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["hold-chains", DEVICE])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(holder.stdout.take().ok_or("it prints")?).read_line(&mut line)?;
    assert!(line.starts_with("chains run: generic XDP"), "{line}");
    let held: BTreeSet<_> = in_the_kernel().difference(&before).copied().collect();
    let programs = held.iter().filter(|(is_program, _)| *is_program).count();
    assert!(programs >= 4 && held.len() - programs >= 4, "{held:?}");
    holder.kill()?;
    holder.wait()?;
    let begin = Instant::now();
    loop {
        // Inspecting an array of programs while the kernel empties it would keep it forever.
        std::thread::sleep(Duration::from_millis(500));
        let stays: Vec<_> = in_the_kernel().intersection(&held).copied().collect();
        if shown()? == untouched && stays.is_empty() {
            return Ok(());
        }
        assert!(begin.elapsed() < TIMEOUT, "{}\n{stays:?} stay", shown()?);
    }
}

/// A program without chains for the kernel is not compiled or loaded: the given text is not even C.
pub(crate) fn a_program_without_chains_for_the_kernel_is_refused() -> TestResult {
    let _peer = lay(1500, 1500)?;
    let mut wire = XdpWire::open(DEVICE, &XdpOptions::default())?;
    let error = wire
        .run_chains(&program("transports/roce/roce.mtp")?, "no C")
        .err();
    assert!(
        error
            .ok_or("chains of RoCE")?
            .to_string()
            .contains("hawser check --target xdp")
    );
    Ok(())
}
