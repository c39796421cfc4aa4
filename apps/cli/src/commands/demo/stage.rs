//! Where the demo plays: a namespace, a device, a file.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hawser::host::netns::{self, Namespace, Netlink};
use hawser::host::{TunOptions, TunWire};
use sha2::{Digest, Sha256};

use crate::exit::Exit;

/// Which device lies between the two stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Medium {
    /// TUN where this user may open it, else a veth pair.
    Auto,
    /// A TUN device: IP packets.
    Tun,
    /// A veth pair and AF_PACKET: Ethernet frames.
    Packet,
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    /// The address of Linux's side.
    pub(super) fn linux(self) -> IpAddr {
        match self {
            Family::V4 => IpAddr::from([10, 9, 0, 1]),
            Family::V6 => IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, 1]),
        }
    }

    /// The address of our side.
    pub(super) fn hawser(self) -> IpAddr {
        match self {
            Family::V4 => IpAddr::from([10, 9, 0, 2]),
            Family::V6 => IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, 2]),
        }
    }

    pub(super) fn hawser_with_prefix(self) -> &'static str {
        match self {
            Family::V4 => "10.9.0.2/24",
            Family::V6 => "fd09::2/64",
        }
    }
}

/// The device between the two stacks.
struct Device {
    /// As `--dev` wants it.
    spec: String,
    /// What `--kernel-addr` has to set.
    kernel: Vec<&'static str>,
    /// For the reader.
    name: &'static str,
}

/// The stage; its files go when it is dropped, its devices with the process.
pub(super) struct Stage {
    directory: PathBuf,
    device: Device,
    sha256: String,
    tidier: Child,
}

const FILE: &str = "file";
const DEVICE: &str = "hawser0";
const KERNEL_ADDRESSES: [&str; 2] = ["10.9.0.1/24", "fd09::1/64"];
const KERNEL_END: &str = "linux0";

impl Stage {
    /// Enters namespaces of its own, makes the device and a file of random bytes. Call it before
    /// any thread is started.
    pub(super) fn set_up(medium: Medium, bytes: u64) -> Result<Stage, Exit> {
        netns::enter_user_namespace().map_err(Exit::environment)?;
        let device = match medium {
            Medium::Tun => try_tun()?,
            Medium::Packet => make_veth()?,
            Medium::Auto => try_tun().or_else(|_| make_veth())?,
        };
        let directory = std::env::temp_dir().join(format!("hawser-demo-{}", std::process::id()));
        std::fs::create_dir_all(&directory)
            .map_err(|e| Exit::environment(format!("cannot make {}: {e}", directory.display())))?;
        let tidier = tidy_up_behind(&directory).map_err(Exit::environment)?;
        let mut stage = Stage { directory, device, sha256: String::new(), tidier };
        stage.sha256 = stage.write_file(bytes).map_err(Exit::environment)?;
        Ok(stage)
    }

    pub(super) fn describe(&self) -> &'static str {
        self.device.name
    }

    pub(super) fn device(&self) -> &str {
        &self.device.spec
    }

    pub(super) fn kernel_addresses(&self) -> &[&'static str] {
        &self.device.kernel
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// This very command, to be run on the stage.
    pub(super) fn hawser(&self) -> Result<Command, Exit> {
        let own = std::env::current_exe().map_err(Exit::environment)?;
        Ok(Command::new(own))
    }

    pub(super) fn url(&self, address: IpAddr, port: u16) -> String {
        format!("http://{}/{FILE}", std::net::SocketAddr::new(address, port))
    }

    fn write_file(&self, bytes: u64) -> io::Result<String> {
        let mut file = io::BufWriter::new(std::fs::File::create(self.directory.join(FILE))?);
        let mut digest = Sha256::new();
        let mut chunk = vec![0; 1 << 16];
        let mut random = std::fs::File::open("/dev/urandom")?;
        let mut left = bytes;
        while left > 0 {
            let n = left.min(chunk.len() as u64) as usize;
            random.read_exact(&mut chunk[..n])?;
            digest.update(&chunk[..n]);
            file.write_all(&chunk[..n])?;
            left -= n as u64;
        }
        file.flush()?;
        Ok(hex(&digest.finalize()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.tidier.stdin.take());
        let _ = self.tidier.wait();
    }
}

/// Removes the directory as soon as this process has ended, however it ends: the shell sees its
/// input close.
fn tidy_up_behind(directory: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", "trap '' INT TERM HUP; read -r _; rm -rf -- \"$0\""])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Size and SHA-256 of a file.
pub(super) fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = std::fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((bytes, hex(&digest.finalize()))),
            n => {
                bytes += n as u64;
                digest.update(&chunk[..n]);
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The TUN device is made by the command that uses it; here it is only seen that this works.
fn try_tun() -> Result<Device, Exit> {
    TunWire::open(DEVICE, TunOptions::default()).map_err(Exit::environment)?;
    Ok(Device { spec: format!("tun:{DEVICE}"), kernel: KERNEL_ADDRESSES.to_vec(), name: "a TUN device" })
}

/// A cable between Linux's side, which gets its addresses, and ours, which the kernel leaves alone.
fn make_veth() -> Result<Device, Exit> {
    let mut netlink = Netlink::open().map_err(Exit::environment)?;
    let here = Namespace::current().map_err(Exit::environment)?;
    netlink.add_veth(KERNEL_END, DEVICE, &here).map_err(Exit::environment)?;
    for (ip, bits) in [(Family::V4.linux(), 24), (Family::V6.linux(), 64)] {
        netlink.add_address(KERNEL_END, ip, bits).map_err(Exit::environment)?;
    }
    for end in [KERNEL_END, DEVICE] {
        netlink.bring_up(end).map_err(Exit::environment)?;
    }
    Ok(Device { spec: format!("packet:{DEVICE}"), kernel: Vec::new(), name: "AF_PACKET on a veth pair" })
}
