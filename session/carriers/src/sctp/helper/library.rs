//! The C library usrsctp, and a safe interface to its sockets.
//!
//! * The library is loaded when the first association is requested, so that a program without it works except
//!   for SCTP. It is never unloaded, because its threads run for as long as the process.
//! * A [`Socket`] is closed once, when it is dropped. Only non-blocking calls are made.
//! * The library's own locks make it safe to use from any thread. Its receiving threads and its timer thread
//!   use it at any time.
#![allow(unsafe_code)] // The boundary to C.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::ptr::{self, NonNull};

use bytemuck::{Pod, bytes_of, bytes_of_mut};
use libc::socklen_t;
use libloading::os::unix as loader;

use super::abi::{self, ReceiveInformation, SendInformation};
use super::address;
use super::interpose::interpose;
use super::wakers::WakerRegistration;
use crate::sctp::error::{FILE, Fault};
use crate::sctp::udp::Sockets;

/// The maximum number of addresses of one association that are read. The library's own limit is 1,080.
const ADDRESSES: usize = 64;

type Handle = *mut c_void;
type Upcall = extern "C" fn(Handle, *mut c_void, c_int);
/// The two callbacks of `usrsctp_init`, which are not used here.
type NoCallback = *const c_void;
type SetTunable = unsafe extern "C" fn(u32) -> c_int;

/// The functions of usrsctp.h that are used, under its names.
struct Functions {
    init: unsafe extern "C" fn(u16, NoCallback, NoCallback),
    socket: unsafe extern "C" fn(c_int, c_int, c_int, NoCallback, NoCallback, u32, *mut c_void) -> Handle,
    setsockopt: unsafe extern "C" fn(Handle, c_int, c_int, *const c_void, socklen_t) -> c_int,
    getsockopt: unsafe extern "C" fn(Handle, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    getpaddrs: unsafe extern "C" fn(Handle, u32, *mut *mut u8) -> c_int,
    freepaddrs: unsafe extern "C" fn(*mut u8),
    getladdrs: unsafe extern "C" fn(Handle, u32, *mut *mut u8) -> c_int,
    freeladdrs: unsafe extern "C" fn(*mut u8),
    sendv: unsafe extern "C" fn(
        Handle,
        *const u8,
        usize,
        *mut c_void,
        c_int,
        *mut SendInformation,
        socklen_t,
        c_uint,
        c_int,
    ) -> isize,
    recvv: unsafe extern "C" fn(
        Handle,
        *mut u8,
        usize,
        *mut c_void,
        *mut socklen_t,
        *mut ReceiveInformation,
        *mut socklen_t,
        *mut c_uint,
        *mut c_int,
    ) -> isize,
    bindx: unsafe extern "C" fn(Handle, *mut u8, c_int, c_int) -> c_int,
    connectx: unsafe extern "C" fn(Handle, *const u8, c_int, *mut u32) -> c_int,
    listen: unsafe extern "C" fn(Handle, c_int) -> c_int,
    accept: unsafe extern "C" fn(Handle, *mut c_void, *mut socklen_t) -> Handle,
    shutdown: unsafe extern "C" fn(Handle, c_int) -> c_int,
    close: unsafe extern "C" fn(Handle),
    set_non_blocking: unsafe extern "C" fn(Handle, c_int) -> c_int,
    set_upcall: unsafe extern "C" fn(Handle, Upcall, *mut c_void) -> c_int,
}

/// The loaded library.
pub(crate) struct Library {
    functions: Functions,
    /// The loader's handle, which is never closed.
    handle: *mut c_void,
}

// SAFETY: a handle is not tied to a thread.
unsafe impl Send for Library {}
// SAFETY: as above; the handle is only used for look-ups.
unsafe impl Sync for Library {}

impl Library {
    /// Loads the library permanently.
    pub(crate) fn load() -> Result<&'static Self, Fault> {
        let missing = |error: libloading::Error| Fault::NoLibrary(error.to_string());
        // SAFETY: the file is the system's usrsctp, whose initialisers do not affect our memory.
        let loaded = unsafe { loader::Library::new(FILE) }.map_err(missing)?;
        macro_rules! functions {
            ($($field:ident: $symbol:literal,)*) => {
                Functions {
                    // SAFETY: the types are those of usrsctp.h for this version of the interface. The
                    // functions are used only while the library is loaded, and it is never unloaded.
                    $($field: unsafe { *loaded.get($symbol).map_err(missing)? },)*
                }
            };
        }
        let functions = functions! {
            init: b"usrsctp_init\0",
            socket: b"usrsctp_socket\0",
            setsockopt: b"usrsctp_setsockopt\0",
            getsockopt: b"usrsctp_getsockopt\0",
            getpaddrs: b"usrsctp_getpaddrs\0",
            freepaddrs: b"usrsctp_freepaddrs\0",
            getladdrs: b"usrsctp_getladdrs\0",
            freeladdrs: b"usrsctp_freeladdrs\0",
            sendv: b"usrsctp_sendv\0",
            recvv: b"usrsctp_recvv\0",
            bindx: b"usrsctp_bindx\0",
            connectx: b"usrsctp_connectx\0",
            listen: b"usrsctp_listen\0",
            accept: b"usrsctp_accept\0",
            shutdown: b"usrsctp_shutdown\0",
            close: b"usrsctp_close\0",
            set_non_blocking: b"usrsctp_set_non_blocking\0",
            set_upcall: b"usrsctp_set_upcall\0",
        };
        let handle = loaded.into_raw();
        Ok(Box::leak(Box::new(Self { functions, handle })))
    }

    /// Starts the library and its threads, with these sockets for its packets. To be called once in a
    /// process.
    pub(crate) fn begin(&self, udp_port: u16, sockets: Sockets) -> Result<(), Fault> {
        interpose(self.handle, sockets).map_err(|error| Fault::Start(error.to_string()))?;
        // SAFETY: without callbacks, the library keeps no pointers of ours.
        unsafe { (self.functions.init)(udp_port, ptr::null(), ptr::null()) }
        Ok(())
    }

    /// Sets the option that the header calls `sctp_NAME` for the whole stack, after [`Library::begin`].
    pub(crate) fn tune(&self, name: &str, value: u32) -> Result<(), Fault> {
        let symbol = format!("usrsctp_sysctl_set_sctp_{name}\0");
        let failed = |why: String| Fault::Start(format!("{name} cannot be {value}: {why}"));
        // SAFETY: the handle is open, and `ManuallyDrop` keeps the value from closing it.
        let loaded = ManuallyDrop::new(unsafe { loader::Library::from_raw(self.handle) });
        // SAFETY: every function of this name has this type (USRSCTP_SYSCTL_DECL).
        let set = unsafe { loaded.get::<SetTunable>(symbol.as_bytes()) };
        let set = set.map_err(|error| failed(error.to_string()))?;
        // SAFETY: it takes a number and checks it.
        match unsafe { set(value) } {
            0 => Ok(()),
            _ => Err(failed(io::Error::last_os_error().to_string())),
        }
    }

    /// Opens a socket for one association or for listening, whose events wake the tasks of `registration`.
    /// `is_v6` also allows IPv6 addresses.
    pub(crate) fn socket(&'static self, is_v6: bool, registration: &WakerRegistration) -> io::Result<Socket> {
        let domain = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
        // SAFETY: there are no callbacks of this older kind, and therefore no data behind the last argument.
        let handle = unsafe {
            (self.functions.socket)(
                domain,
                libc::SOCK_STREAM,
                abi::PROTOCOL,
                ptr::null(),
                ptr::null(),
                0,
                ptr::null_mut(),
            )
        };
        let handle = NonNull::new(handle).ok_or_else(io::Error::last_os_error)?;
        Socket { library: self, handle }.prepared(registration)
    }
}

/// Receives a socket's events. The library's threads call it without holding its locks.
extern "C" fn upcall(_: Handle, argument: *mut c_void, _: c_int) {
    super::wakers::wake(argument.addr());
}

/// The result of receiving.
pub(crate) enum ReceiveResult {
    /// This number of bytes of a message with this payload protocol identifier.
    Data { length: usize, protocol: u32 },
    /// A notification of this number of bytes.
    Notification { length: usize },
    /// The end of the data.
    End,
}

/// A socket of the library.
pub(crate) struct Socket {
    library: &'static Library,
    handle: NonNull<c_void>,
}

// SAFETY: the library locks its sockets itself; a handle is not tied to a thread.
unsafe impl Send for Socket {}
// SAFETY: as above; the library's locks permit calls on one socket from several threads.
unsafe impl Sync for Socket {}

impl Socket {
    fn prepared(self, registration: &WakerRegistration) -> io::Result<Self> {
        // SAFETY: the handle is open. `upcall` exists permanently, and its argument is a number in a pointer
        // type, which is never dereferenced.
        check(unsafe { (self.library.functions.set_non_blocking)(self.handle.as_ptr(), 1) })?;
        let argument = ptr::without_provenance_mut(registration.number());
        // SAFETY: as above.
        check(unsafe { (self.library.functions.set_upcall)(self.handle.as_ptr(), upcall, argument) })?;
        Ok(self)
    }

    /// Sets an SCTP option.
    pub(crate) fn set<T: Pod>(&self, option: c_int, value: &T) -> io::Result<()> {
        self.set_at(abi::PROTOCOL, option, value)
    }

    /// Sets a buffer size, which is an option of the socket level.
    pub(crate) fn set_buffer(&self, option: c_int, bytes: u32) -> io::Result<()> {
        self.set_at(
            libc::SOL_SOCKET,
            option,
            &i32::try_from(bytes).unwrap_or(i32::MAX),
        )
    }

    fn set_at<T: Pod>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let bytes = bytes_of(value);
        // SAFETY: the library reads at most the given length, which is that of `bytes`.
        check(unsafe {
            (self.library.functions.setsockopt)(
                self.handle.as_ptr(),
                level,
                option,
                bytes.as_ptr().cast(),
                bytes.len() as socklen_t,
            )
        })
    }

    /// Reads an SCTP option into `value`, whose contents state the request.
    pub(crate) fn get<T: Pod>(&self, option: c_int, mut value: T) -> io::Result<T> {
        let bytes = bytes_of_mut(&mut value);
        let mut length = bytes.len() as socklen_t;
        // SAFETY: the library writes at most the given length, which is that of `bytes`. Any bytes are a
        // valid `T` (`Pod`).
        check(unsafe {
            (self.library.functions.getsockopt)(
                self.handle.as_ptr(),
                abi::PROTOCOL,
                option,
                bytes.as_mut_ptr().cast(),
                &mut length,
            )
        })?;
        Ok(value)
    }

    /// Returns the peer's addresses.
    pub(crate) fn peer_addresses(&self) -> Vec<SocketAddr> {
        self.addresses(
            self.library.functions.getpaddrs,
            self.library.functions.freepaddrs,
        )
    }

    /// Returns this end's addresses.
    pub(crate) fn local_addresses(&self) -> Vec<SocketAddr> {
        self.addresses(
            self.library.functions.getladdrs,
            self.library.functions.freeladdrs,
        )
    }

    fn addresses(
        &self,
        list: unsafe extern "C" fn(Handle, u32, *mut *mut u8) -> c_int,
        free: unsafe extern "C" fn(*mut u8),
    ) -> Vec<SocketAddr> {
        let mut first = ptr::null_mut();
        // SAFETY: the library allocates the list and stores its address in `first`.
        let count = unsafe { list(self.handle.as_ptr(), 0, &mut first) };
        if count <= 0 || first.is_null() {
            return Vec::new();
        }
        let mut length = 0;
        for _ in 0..(count as usize).min(ADDRESSES) {
            // SAFETY: `count` addresses lie there one after the other, each beginning with its family.
            // `length` is the sum of the lengths of those before.
            let family = unsafe { first.add(length).cast::<u16>().read_unaligned() };
            let Some(address) = address::length_of(family) else {
                break;
            };
            length += address;
        }
        // SAFETY: these are the bytes of the addresses just counted.
        let addresses = address::unpack(unsafe { std::slice::from_raw_parts(first, length) });
        // SAFETY: the pointer came from `list`, and is not used afterwards.
        unsafe { free(first) };
        addresses
    }

    /// Binds to all these addresses.
    pub(crate) fn bind(&self, addresses: &[SocketAddr]) -> io::Result<()> {
        let mut bytes = address::pack(addresses);
        // SAFETY: `bytes` holds the stated number of addresses.
        check(unsafe {
            (self.library.functions.bindx)(
                self.handle.as_ptr(),
                bytes.as_mut_ptr(),
                addresses.len() as c_int,
                abi::BIND_ADD,
            )
        })
    }

    /// Begins to connect to a peer with all these addresses. Returns before the handshake.
    pub(crate) fn connect(&self, addresses: &[SocketAddr]) -> io::Result<()> {
        let bytes = address::pack(addresses);
        let mut association = 0;
        // SAFETY: `bytes` holds the stated number of addresses, and `association` receives the number.
        let result = check(unsafe {
            (self.library.functions.connectx)(
                self.handle.as_ptr(),
                bytes.as_ptr(),
                addresses.len() as c_int,
                &mut association,
            )
        });
        match result {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            result => result,
        }
    }

    /// Begins to accept associations.
    pub(crate) fn listen(&self, backlog: u16) -> io::Result<()> {
        // SAFETY: the handle is open.
        check(unsafe { (self.library.functions.listen)(self.handle.as_ptr(), backlog.into()) })
    }

    /// Accepts the next association of a listening socket, whose events wake the tasks of `registration` from
    /// now on.
    pub(crate) fn accept(&self, registration: &WakerRegistration) -> io::Result<Self> {
        // SAFETY: the address is not requested; the result is a new handle that we own, or null.
        let handle = unsafe {
            (self.library.functions.accept)(self.handle.as_ptr(), ptr::null_mut(), ptr::null_mut())
        };
        let handle = NonNull::new(handle).ok_or_else(io::Error::last_os_error)?;
        Self { library: self.library, handle }.prepared(registration)
    }

    /// Sends one message in order on stream 0, completely or not at all.
    pub(crate) fn send(&self, message: &[u8], protocol: u32, flags: u16) -> io::Result<usize> {
        let mut information =
            SendInformation { protocol: protocol.to_be(), flags, ..SendInformation::default() };
        // SAFETY: `message` and `information` are read up to the stated lengths; the address is that of the
        // association.
        let sent = unsafe {
            (self.library.functions.sendv)(
                self.handle.as_ptr(),
                message.as_ptr(),
                message.len(),
                ptr::null_mut(),
                0,
                &mut information,
                size_of::<SendInformation>() as socklen_t,
                abi::SEND_WITH_INFORMATION,
                0,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<ReceiveResult> {
        let mut information = ReceiveInformation::default();
        let mut information_length = size_of::<ReceiveInformation>() as socklen_t;
        let (mut kind, mut flags): (c_uint, c_int) = (0, 0);
        // SAFETY: `buffer` and `information` are written up to the stated lengths, and every other argument
        // receives one value. The address is not requested.
        let length = unsafe {
            (self.library.functions.recvv)(
                self.handle.as_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                ptr::null_mut(),
                ptr::null_mut(),
                &mut information,
                &mut information_length,
                &mut kind,
                &mut flags,
            )
        };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        Ok(match length {
            0 => ReceiveResult::End,
            _ if flags & abi::MESSAGE_IS_NOTIFICATION != 0 => ReceiveResult::Notification { length },
            _ => ReceiveResult::Data { length, protocol: u32::from_be(information.protocol) },
        })
    }

    /// Announces the end of this side's data (SHUTDOWN, RFC 9260, 9.2).
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        check(unsafe { (self.library.functions.shutdown)(self.handle.as_ptr(), libc::SHUT_WR) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and is not used afterwards.
        unsafe { (self.library.functions.close)(self.handle.as_ptr()) }
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
