//! A port of DPDK without a stack: a loop in C (`evaluation/peers/dpdk/bare.c`) fills, sends, receives and empties
//! frames of the size of TCP's. Its rate is the ceiling of stacks on the same port.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::marker::{PhantomData, PhantomPinned};
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::time::Duration;

use super::spec::{BareWork, Spec, StackKind};
use super::transport::Transport;
use crate::sys;

/// The port, as C represents it.
#[repr(C)]
struct Raw {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

unsafe extern "C" {
    fn bare_open(
        count: c_int,
        arguments: *mut *mut c_char,
        device: *const c_char,
        work: c_int,
        error: *mut c_int,
    ) -> *mut Raw;
    fn bare_is_up(port: *const Raw) -> bool;
    fn bare_send(port: *mut Raw, bytes: *const u8, len: usize);
    fn bare_end(port: *mut Raw);
    fn bare_receive(port: *mut Raw, bytes: *mut u8, room: usize, is_over: *mut bool) -> usize;
}

/// A port. There is one in a process, and it exists until the process ends.
pub(crate) struct Bare {
    port: NonNull<Raw>,
    is_over: bool,
}

impl Bare {
    /// Opens the port.
    ///
    /// # Errors
    /// The orders are invalid, or the device failed.
    pub(crate) fn new(spec: &Spec) -> io::Result<Bare> {
        let StackKind::Bare { device, work } = &spec.stack else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let work = match work {
            BareWork::Headers => 0,
            BareWork::Copies => 1,
            BareWork::Sums => 2,
        };
        let device = CString::new(device.as_str())?;
        let mut arguments = Vec::new();
        for argument in arguments_of_dpdk()? {
            // DPDK keeps the pointers, so the strings are leaked.
            arguments.push(CString::new(argument)?.into_raw());
        }
        let count = arguments.len() as c_int;
        arguments.push(std::ptr::null_mut());
        let mut error = 0;
        // SAFETY: there are as many strings as stated, which are leaked, with a null after them as in `main`;
        // the device is a string; the error has room for a number.
        let port = unsafe {
            bare_open(
                count,
                arguments.leak().as_mut_ptr(),
                device.as_ptr(),
                work,
                &raw mut error,
            )
        };
        let port = NonNull::new(port).ok_or_else(|| io::Error::from_raw_os_error(-error))?;
        Ok(Bare { port, is_over: false })
    }

    fn is_up(&self) -> bool {
        // SAFETY: the port is open.
        unsafe { bare_is_up(self.port.as_ptr()) }
    }
}

/// Returns DPDK's arguments, the same as Hawser's (`wires/dpdk`): without files, on this thread's
/// processors, with huge pages if there are any.
fn arguments_of_dpdk() -> io::Result<Vec<String>> {
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let has_huge_pages = memory
        .lines()
        .any(|line| line.starts_with("HugePages_Free:") && !line.ends_with(" 0"));
    let memory: &[&str] = match has_huge_pages {
        true => &["--in-memory"],
        false => &["--no-huge", "-m", "512"],
    };
    let cores: Vec<String> = sys::cores()?.iter().map(usize::to_string).collect();
    let mut arguments = vec!["bare", "--no-shconf", "--no-telemetry"];
    arguments.extend(memory);
    arguments.extend(["--allow", "0000:00:00.0", "--lcores"]);
    let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    arguments.push(format!("0@({})", cores.join(",")));
    arguments.push("--file-prefix=hawser".to_owned());
    Ok(arguments)
}

/// The only connection leads to the process at the other end.
impl Transport for Bare {
    type Connection = ();

    fn listen(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn accept(&mut self) -> io::Result<Option<()>> {
        Ok(self.is_up().then_some(()))
    }

    fn connect(&mut self, _: SocketAddr) -> io::Result<()> {
        Ok(())
    }

    fn opened(&mut self, (): ()) -> io::Result<Option<()>> {
        Ok(self.is_up().then_some(()))
    }

    fn read(&mut self, (): (), out: &mut [u8]) -> io::Result<Option<usize>> {
        if self.is_over {
            return Ok(Some(0));
        }
        // SAFETY: the port is open; C writes no more than there is room for.
        let got = unsafe {
            bare_receive(
                self.port.as_ptr(),
                out.as_mut_ptr(),
                out.len(),
                &raw mut self.is_over,
            )
        };
        Ok((got > 0 || self.is_over).then_some(got))
    }

    fn write(&mut self, (): (), bytes: &[u8]) -> io::Result<Option<usize>> {
        // SAFETY: the port is open, and `bytes` is readable for its length.
        unsafe { bare_send(self.port.as_ptr(), bytes.as_ptr(), bytes.len()) };
        Ok(Some(bytes.len()))
    }

    fn shutdown(&mut self, (): ()) -> io::Result<()> {
        // SAFETY: the port is open.
        unsafe { bare_end(self.port.as_ptr()) };
        Ok(())
    }

    fn close(&mut self, (): ()) {}

    fn turn(&mut self, _: Option<Duration>, _: &mut Vec<()>) -> io::Result<()> {
        Ok(())
    }
}
