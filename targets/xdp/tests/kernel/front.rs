//! Chains in the kernel, without a stack behind them: what they know of its contexts, and what is left of them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hawser_emit_c::Machine;
use hawser_engine::front::{Lent, Terms};
use hawser_engine::wire::{TxFrame, Wire};
use hawser_host::{PacketOptions, PacketWire};
use hawser_ir::abi::Id;
use hawser_ir::{ContextId, Module};
use hawser_xdp::{XdpOptions, XdpWire, chains_in_kernel};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};

use crate::TestResult;
use crate::cable::{DEVICE, PEER, TIMEOUT, addresses, frame, ip, lay, receive, send};

const IPV4: [u8; 2] = [0x08, 0x00];
/// For experiments (RFC 3692): the protocol of the program.
const PROTOCOL: u8 = 253;
/// How many ids the kernel keeps: `HW_MAX_IDS`.
const MAX_IDS: u32 = 65_536;

fn program() -> TestResult<Module> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stop-and-wait.mtp");
    let compiled = hawser_driver::compile(&path);
    let module = compiled.module.as_ref().filter(|_| !compiled.failed());
    Ok(module.ok_or_else(|| compiled.render(false))?.clone())
}

fn open(name: &str, module: &Module) -> TestResult<XdpWire> {
    let options = XdpOptions {
        addresses: addresses(),
        answers: true,
        ..XdpOptions::default()
    };
    let mut wire = XdpWire::open(name, &options)?;
    assert!(!chains_in_kernel(module).is_empty());
    wire.run_chains(module, &hawser_equality::compile::c_of(module, Machine::Ebpf).c)?;
    Ok(wire)
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A packet of the program from 10.9.1.1 to 10.9.1.2: an acknowledgement of number 1.
fn packet(to: [u8; 6], ports: [u16; 2]) -> TxFrame {
    let mut header = ports.map(u16::to_be_bytes).concat();
    header.extend([1, 0, 0, 0, 0, 0, 0, 1]);
    let addresses = [10, 9, 1, 1, 10, 9, 1, 2];
    let pseudo = [&addresses[..], &[0, PROTOCOL, 0, header.len() as u8], &header].concat();
    header[6..8].copy_from_slice(&checksum(&pseudo).to_be_bytes());
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
    let sum = checksum(&whole).to_be_bytes();
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

fn lend(wire: &mut XdpWire, module: &Module, is_complete: bool) {
    let params: Vec<u64> = module.params.iter().map(|param| param.default).collect();
    let globals = vec![Vec::new(); module.contexts.len()];
    let front = wire.front().expect("chains run");
    front.open(&Terms {
        until: None,
        chains: 1,
        room: 1 << 20,
        is_complete,
        may_create: true,
        key: (1, 2),
        params: &params,
        globals: &globals,
        mtu: 1500,
    });
}

/// Takes all back; gives how many frames have something left for the stack, and how many came as they were.
fn take_back(wire: &mut XdpWire, module: &Module) -> TestResult<[usize; 2]> {
    let mut globals = vec![Vec::new(); module.contexts.len()];
    let front = wire.front().expect("chains run");
    let kept = front.close(&mut globals, &mut |_, _| ());
    assert_eq!(receive(wire, kept, TIMEOUT)?.len(), kept);
    Ok([kept, receive(wire, 10, Duration::from_millis(50))?.len()])
}

/// While there are more contexts than it has room for, what leads to none that the kernel knows is the stack's; what leads
/// to one is handled all the same.
pub(crate) fn a_full_map_leaves_to_the_stack_what_it_does_not_know() -> TestResult {
    let module = program()?;
    let peer = lay(1500, 1500)?;
    let mut wire = open(DEVICE, &module)?;
    let mut far = peer.run(|| PacketWire::open(PEER, PacketOptions::default()))??;
    let connection = module
        .contexts
        .iter()
        .position(|context| context.name == "sw_conn");
    let kind = ContextId(connection.ok_or("it has connections")? as u32);
    let bytes = vec![0; module.context_size(kind)];
    let (unknown, known) = (packet(wire.mac(), [9, 9]), packet(wire.mac(), [7, 80]));
    let mut one = |wire: &mut XdpWire, frame: &TxFrame, is_complete| -> TestResult<(u64, usize)> {
        let before = wire.handled().0;
        lend(wire, &module, is_complete);
        send(&mut far, &[frame.clone(), frame.clone()])?;
        std::thread::sleep(Duration::from_millis(50));
        let [kept, came] = take_back(wire, &module)?;
        assert_eq!(
            kept, 0,
            "an old acknowledgement, and a packet for nobody, leave nothing to do"
        );
        Ok((wire.handled().0 - before, came))
    };
    // A chain that leaves nothing takes no room from the next.
    let (handled, as_it_came) = ((2, 0), (0, 2));
    assert_eq!(one(&mut wire, &unknown, true)?, handled);
    assert_eq!(one(&mut wire, &unknown, false)?, as_it_came);
    for number in 0..=MAX_IDS {
        let ports = match number {
            0 => [7, 80],
            number => [number as u16, 1000 + (number >> 16) as u16],
        };
        wire.front().ok_or("chains run")?.put(&Lent {
            number,
            kind,
            ids: &[id(ports)],
            bytes: &bytes,
            room: 1 << 20,
        });
    }
    assert_eq!(one(&mut wire, &unknown, true)?, as_it_came);
    assert_eq!(one(&mut wire, &known, true)?, handled);
    wire.front().ok_or("chains run")?.remove(MAX_IDS);
    assert_eq!(one(&mut wire, &unknown, true)?, handled);
    Ok(())
}

/// Holds a wire with chains in the kernel until it is killed.
pub(crate) fn hold(name: &str) -> ExitCode {
    match program().and_then(|module| open(name, &module)) {
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

/// The kernel's numbers of the programs and maps of chains.
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
        // To look at an array of programs in the moment in which the kernel empties it keeps it for ever.
        std::thread::sleep(Duration::from_millis(500));
        let stays: Vec<_> = in_the_kernel().intersection(&held).copied().collect();
        if shown()? == untouched && stays.is_empty() {
            return Ok(());
        }
        assert!(begin.elapsed() < TIMEOUT, "{}\n{stays:?} stay", shown()?);
    }
}
