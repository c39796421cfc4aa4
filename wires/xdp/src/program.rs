//! The eBPF program that selects the stack's frames: loading and attaching it, and the maps that configure
//! it.
//!
//! It is attached by a link that its file descriptor owns, so it is detached however the process ends.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::raw::c_int;

use hawser_host::Interface;
use hawser_host::netns::is_in_user_namespace;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, set_print};
use libbpf_sys::{
    BPF_XDP, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE, bpf_link_create, bpf_link_create_opts,
    bpf_link_get_info_by_fd, bpf_link_info,
};

use crate::OpenError;
use crate::error::About;

/// The compiled program.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hawser.bpf.o"));
/// The program's name in the kernel. From its beginning, libxdp recognizes the map of variables.
const NAME: &str = "xsk_def_hawser";
/// The maximum number of addresses in the program: `MAX_ADDRESSES` of `bpf/`.
const MAX_ADDRESSES: usize = 64;
/// Numbers of <errno.h>.
const EEXIST: i32 = 17;
const EBUSY: i32 = 16;

/// The loaded program.
#[derive(Debug)]
pub(crate) struct Program {
    object: Object,
    name: &'static str,
}

impl Program {
    /// Loads the program for frames to `own` and address queries for `addresses`. `in_pieces` allows frames
    /// of more than one buffer. The number of sockets must equal the number of the interface's receive
    /// queues.
    pub(crate) fn load(
        interface: &Interface,
        own: [u8; 6],
        addresses: &[IpAddr],
        in_pieces: bool,
        sockets: u16,
    ) -> Result<Program, OpenError> {
        let queues = interface.receive_queues()?;
        if queues != u32::from(sockets) {
            return Err(OpenError::Queues { name: interface.name.clone(), queues, count: sockets });
        }
        if addresses.len() > MAX_ADDRESSES {
            let (name, count) = (interface.name.clone(), addresses.len());
            return Err(OpenError::Addresses { name, count });
        }
        let name = if in_pieces { "pieces" } else { "xsk_def_prog" };
        // The error contains the text that libbpf would print.
        let print = set_print(None);
        let object = open(name, own, sockets).and_then(|object| object.load());
        set_print(print);
        let program = object.map(|object| Program { object, name });
        program
            .and_then(|program| program.answer(addresses).map(|()| program))
            .map_err(|error| refused(&interface.name, &error))
    }

    /// Redirects address queries for these addresses.
    fn answer(&self, addresses: &[IpAddr]) -> libbpf_rs::Result<()> {
        addresses.iter().try_for_each(|ip| {
            let mapped = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => *ip,
            };
            self.update("addresses", &mapped.octets(), &[1])
        })
    }

    /// Redirects the frames of a queue to a socket.
    pub(crate) fn redirect_to(&self, queue: u16, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = socket.as_raw_fd().to_ne_bytes();
        self.update("xsks_map", &u32::from(queue).to_ne_bytes(), &socket)
            .map_err(io::Error::other)
    }

    /// Returns one of its maps.
    pub(crate) fn map(&self, name: &str) -> libbpf_rs::Result<MapHandle> {
        let mut maps = self.object.maps();
        let map = maps.find(|map| map.name() == name);
        MapHandle::try_from(&map.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(2))?)
    }

    fn update(&self, name: &str, key: &[u8], value: &[u8]) -> libbpf_rs::Result<()> {
        let mut maps = self.object.maps();
        let map = maps.find(|map| map.name() == name);
        let map = map.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(2))?;
        map.update(key, value, MapFlags::ANY)
    }

    /// Attaches it to an interface: in the driver, or else in front of the kernel's stack if the driver
    /// cannot or must not run it.
    pub(crate) fn attach(&self, interface: &Interface, generic: bool) -> Result<Attached, OpenError> {
        let name = || interface.name.clone();
        let attach = |mode| self.link(interface.index, mode);
        let driver = if generic {
            Err(io::ErrorKind::Unsupported.into())
        } else {
            attach(XDP_FLAGS_DRV_MODE)
        };
        let native = match driver {
            Ok(link) => {
                return Ok(Attached { link, is_native: true });
            }
            Err(error) if is_taken(&error) => return Err(OpenError::Busy { name: name() }),
            Err(error) => error,
        };
        match attach(XDP_FLAGS_SKB_MODE) {
            Ok(link) => Ok(Attached { link, is_native: false }),
            Err(error) if is_taken(&error) => Err(OpenError::Busy { name: name() }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(About(&interface.name).call("attach an XDP program", error))
            }
            Err(generic) => Err(OpenError::NoXdp { name: name(), native, generic }),
        }
    }

    #[allow(unsafe_code)] // It calls libbpf: libbpf-rs attaches in no mode but the default.
    fn link(&self, interface: c_int, mode: u32) -> io::Result<OwnedFd> {
        let mut programs = self.object.progs();
        let program = programs.find(|program| program.name() == self.name);
        let program = program.ok_or(io::ErrorKind::NotFound)?;
        let options = bpf_link_create_opts {
            sz: size_of::<bpf_link_create_opts>() as _,
            flags: mode,
            ..bpf_link_create_opts::default()
        };
        // SAFETY: the program is open. The options are valid and readable during the call, which does not
        // keep them.
        let link = unsafe { bpf_link_create(program.as_fd().as_raw_fd(), interface, BPF_XDP, &options) };
        if link < 0 {
            return Err(io::Error::from_raw_os_error(-link));
        }
        // SAFETY: it is a new descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(link) })
    }
}

/// The program while it is attached.
#[derive(Debug)]
pub(crate) struct Attached {
    link: OwnedFd,
    /// True if it runs in the interface's driver.
    pub(crate) is_native: bool,
}

impl Attached {
    /// Returns true if the program still receives the interface's frames. Root may detach it, and then the
    /// link has no interface any more. If the kernel refuses to answer, the program counts as attached.
    #[allow(unsafe_code)] // It calls libbpf: libbpf-rs reads no link that it has not made.
    pub(crate) fn is_in_force(&self) -> bool {
        let mut info = bpf_link_info::default();
        let mut length = size_of::<bpf_link_info>() as u32;
        // SAFETY: both are writable, and the kernel writes at most `length` bytes of the first.
        let result = unsafe { bpf_link_get_info_by_fd(self.link.as_raw_fd(), &mut info, &mut length) };
        // SAFETY: the link is of the kind XDP, and any bits of its part are a valid number.
        result != 0 || unsafe { info.__bindgen_anon_1.xdp.ifindex } != 0
    }
}

/// Attaches the program to an interface for AF_XDP sockets that other code opens by libxdp, as DPDK does.
/// libxdp takes the program for its own, and adds each socket to its map. There must be `count` sockets, as
/// many as the interface has receive queues. The program stays attached until the returned descriptor is
/// closed, in whatever manner.
///
/// # Errors
/// See [`OpenError`].
pub fn attach_for_libxdp(
    interface: &Interface,
    own: [u8; 6],
    addresses: &[IpAddr],
    count: u16,
) -> Result<OwnedFd, OpenError> {
    let program = Program::load(interface, own, addresses, false, count)?;
    Ok(program.attach(interface, false)?.link)
}

fn open(name: &str, own: [u8; 6], queues: u16) -> libbpf_rs::Result<libbpf_rs::OpenObject> {
    let mut object = ObjectBuilder::default().name(NAME)?.open_memory(OBJECT)?;
    for mut program in object.progs_mut() {
        let is_wanted = program.name() == name;
        program.set_autoload(is_wanted);
    }
    for mut map in object.maps_mut() {
        if map.name() == ".rodata.choices" {
            map.set_initial_value(&own)?;
        } else if map.name() == "xsks_map" {
            map.set_max_entries(queues.into())?;
        }
    }
    Ok(object)
}

/// Returns true if another program is attached.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EBUSY | EEXIST))
}

fn refused(name: &str, error: &libbpf_rs::Error) -> OpenError {
    let name = name.to_owned();
    match error.kind() {
        ErrorKind::PermissionDenied if is_in_user_namespace() => OpenError::UserNamespace { name },
        ErrorKind::PermissionDenied => OpenError::Permission { name, action: "load an eBPF program" },
        _ => OpenError::Refused { name, why: format!("{error:#}") },
    }
}
