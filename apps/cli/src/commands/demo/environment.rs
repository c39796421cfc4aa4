//! Sets up the namespace, the device and the file of the demo.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use data_encoding::HEXLOWER;
use hawser::host::netns::{self, Namespace, Netlink};
use hawser::host::{TunOptions, TunWire};
use sha2::{Digest, Sha256};

use super::directory::Directory;
use crate::exit::Exit;

/// The device between the two stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DeviceKind {
    /// TUN if this user may open it, otherwise a veth pair
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

    fn prefix(self) -> u8 {
        match self {
            Family::V4 => 24,
            Family::V6 => 64,
        }
    }
}

/// One of several parallel devices, each with subnets of its own, so that downloads on different lanes do not
/// disturb each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DemoDevice(pub(super) u8);

impl DemoDevice {
    /// The address of Linux's side.
    pub(super) fn linux(self, family: Family) -> IpAddr {
        self.host(family, 1)
    }

    /// The address of our side.
    pub(super) fn hawser(self, family: Family) -> IpAddr {
        self.host(family, 2)
    }

    fn host(self, family: Family, host: u8) -> IpAddr {
        match family {
            Family::V4 => IpAddr::from([10, 9, self.0, host]),
            Family::V6 => IpAddr::from([0xfd09, 0, 0, self.0.into(), 0, 0, 0, host.into()]),
        }
    }

    /// Our end of the device.
    fn device(self) -> String {
        format!("hawser{}", self.0)
    }

    /// Linux's end of a veth pair.
    fn kernel_end(self) -> String {
        format!("linux{}", self.0)
    }
}

/// Formats an address with its prefix length, as the options expect it.
fn with_prefix(address: IpAddr, family: Family) -> String {
    format!("{address}/{}", family.prefix())
}

/// The stage of the demo. Its files are removed when it is dropped, and its devices when the process ends.
pub(super) struct DemoEnvironment {
    directory: Directory,
    medium: DeviceKind,
    sha256: String,
}

const FILE: &str = "file";
/// The number of lanes.
pub(super) const LANES: u8 = 4;

impl DemoEnvironment {
    /// Enters namespaces of its own, and creates the devices and a file of random bytes. It must be called
    /// before any thread is started.
    pub(super) fn set_up(medium: DeviceKind, bytes: u64) -> Result<DemoEnvironment, Exit> {
        netns::enter_user_namespace().map_err(Exit::environment)?;
        let medium = match medium {
            DeviceKind::Auto if try_tun().is_ok() => DeviceKind::Tun,
            DeviceKind::Auto => DeviceKind::Packet,
            chosen => chosen,
        };
        match medium {
            DeviceKind::Packet => (0..LANES).try_for_each(|n| make_veth(DemoDevice(n)))?,
            DeviceKind::Tun | DeviceKind::Auto => try_tun()?,
        }
        let mut stage = DemoEnvironment { directory: Directory::new()?, medium, sha256: String::new() };
        stage.sha256 = stage.write_file(bytes).map_err(Exit::environment)?;
        Ok(stage)
    }

    pub(super) fn describe(&self) -> &'static str {
        match self.medium {
            DeviceKind::Packet => "AF_PACKET on a veth pair",
            DeviceKind::Tun | DeviceKind::Auto => "a TUN device",
        }
    }

    /// Returns the options that put a Hawser stack on a lane.
    pub(super) fn device_options(&self, lane: DemoDevice, family: Family) -> Vec<String> {
        let own = with_prefix(lane.hawser(family), family);
        match self.medium {
            DeviceKind::Packet => {
                vec![
                    "--dev".into(),
                    format!("packet:{}", lane.device()),
                    "--addr".into(),
                    own,
                ]
            }
            // The command creates the device and removes it when it ends.
            DeviceKind::Tun | DeviceKind::Auto => vec![
                "--dev".into(),
                format!("tun:{}", lane.device()),
                "--addr".into(),
                own,
                "--kernel-addr".into(),
                with_prefix(lane.linux(family), family),
            ],
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of a lane's download.
    pub(super) fn download(&self, lane: DemoDevice) -> PathBuf {
        self.directory.join(format!("got{}", lane.0))
    }

    pub(super) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Prepares this command, to be run on the stage.
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
        Ok(HEXLOWER.encode(&digest.finalize()))
    }
}

/// Returns the size and SHA-256 of a file.
pub(super) fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = std::fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((bytes, HEXLOWER.encode(&digest.finalize()))),
            n => {
                bytes += n as u64;
                digest.update(&chunk[..n]);
            }
        }
    }
}

/// Fails if TUN devices are unavailable.
fn try_tun() -> Result<(), Exit> {
    TunWire::open(&DemoDevice(0).device(), TunOptions::default())
        .map(drop)
        .map_err(Exit::environment)
}

/// Creates a veth pair. Linux's end gets addresses; the kernel leaves the other end to Hawser.
fn make_veth(lane: DemoDevice) -> Result<(), Exit> {
    let mut netlink = Netlink::open().map_err(Exit::environment)?;
    let here = Namespace::current().map_err(Exit::environment)?;
    let (linux, hawser) = (lane.kernel_end(), lane.device());
    netlink
        .add_veth(&linux, &hawser, &here)
        .map_err(Exit::environment)?;
    for end in [&linux, &hawser] {
        netlink.bring_up(end).map_err(Exit::environment)?;
    }
    for family in [Family::V4, Family::V6] {
        netlink
            .add_address(&linux, lane.linux(family), family.prefix())
            .map_err(Exit::environment)?;
    }
    netlink.settle(&linux).map_err(Exit::environment)
}
