//! A port of DPDK with a safe interface.
//!
//! Invariants: the holder of a [`Queue`] uses it, one thread at a time. The port is closed once, when the
//! last of its queues is gone. A received frame belongs to its [`Batch`] until the batch returns it, and its
//! bytes do not change during that time. A shared port is the exception: its frames are copied once before
//! they are read ([`Info::is_shared`]). A peer of such a port is trusted with this process's memory, because
//! DPDK keeps its metadata of frames there. A [`Frame`] belongs to its holder until the port has sent it.
//! Payload that frames refer to is kept alive by a [`PayRef`] beside the reference, which is dropped after
//! the port's last use.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use hawser_engine::wire::PayRef;

/// The maximum number of frames that one call receives.
pub(crate) const BATCH: usize = 64;
/// The space for a [`PayRef`] beside a reference, in bytes.
const PLACE: usize = 32;
const _: () = assert!(size_of::<PayRef>() <= PLACE && align_of::<PayRef>() <= 8);

/// The properties of a port: `struct hw_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Info {
    /// The port's Ethernet address.
    pub(crate) mac: [u8; 6],
    /// The maximum length of an IP packet, in bytes.
    pub(crate) mtu: u16,
    /// The index of the host's interface on which it stands; 0 if there is none.
    pub(crate) interface: u32,
    /// The maximum number of queues.
    pub(crate) queues: u16,
    /// The maximum number of pieces in a frame to send.
    pub(crate) pieces: u16,
    /// True if it completes checksums of the protocols numbered 6 and 17.
    pub(crate) sums: bool,
    /// True if it verifies these checksums.
    pub(crate) verifies: bool,
    /// True if it cuts super-segments of the protocol numbered 6.
    pub(crate) cuts: bool,
    /// True if it may join received packets to super-segments.
    pub(crate) joins: bool,
    /// True if the processor moves the bytes, so that they may be anywhere in memory.
    pub(crate) copies: bool,
    /// True if it uses AF_XDP sockets, which need a program on its interface.
    pub(crate) is_af_xdp: bool,
    /// True if the port's peer can write to received frames until they are released.
    pub(crate) is_shared: bool,
}

/// `struct hw_received`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Received {
    frame: *mut c_void,
    head: *const u8,
    head_len: u32,
    tail_len: u32,
    seg_size: u16,
    is_verified: bool,
}

#[repr(C)]
struct Counts {
    missed: u64,
}

#[allow(clashing_extern_declarations)]
unsafe extern "C" {
    fn hw_log_begin();
    fn hw_log_end(text: *mut u8, room: usize) -> usize;
    fn hw_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn hw_probe(device: *const c_char, port: *mut u16) -> c_int;
    fn hw_remove(port: u16);
    fn hw_info(port: u16, info: *mut Info) -> c_int;
    fn hw_open(
        port: u16,
        info: *const Info,
        count: u16,
        program: c_int,
        free_piece: extern "C" fn(*mut c_void, *mut c_void),
        opened: *mut *mut c_void,
    ) -> c_int;
    fn hw_close(port: *mut c_void);
    fn hw_counts(port: *const c_void, counts: *mut Counts) -> c_int;
    fn hw_depth(port: *const c_void) -> u16;
    fn hw_queue(port: *mut c_void, number: u16) -> *mut c_void;
    fn hw_receive(queue: *mut c_void, frames: *mut Received, max: u16) -> u16;
    fn hw_copy_tail(frame: *const Received, to: *mut u8);
    fn hw_release(frames: *const Received, count: u16);
    fn hw_frame(queue: *mut c_void, head: *const u8, len: u16) -> *mut c_void;
    fn hw_append(queue: *mut c_void, frame: *mut c_void, bytes: *const u8, len: u16) -> bool;
    fn hw_refer(queue: *mut c_void, frame: *mut c_void, bytes: *const u8, len: u16) -> *mut c_void;
    fn hw_complete(frame: *mut c_void, ipv4: bool, udp: bool, network: u16, transport: u16);
    fn hw_cut(frame: *mut c_void, head: u16, size: u16);
    fn hw_send(queue: *mut c_void, frames: *mut *mut c_void, count: u16, refused: *mut u16) -> u16;
    fn hw_drop(frames: *mut *mut c_void, count: u16);
}

/// Converts a status of C, which is a negative errno or a success. Drivers fail with -1 for any reason.
fn check(status: c_int) -> io::Result<()> {
    match status {
        -1 => Err(io::Error::other("no reason was given")),
        ..0 => Err(io::Error::from_raw_os_error(-status)),
        _ => Ok(()),
    }
}

/// Runs `act`, and returns its result with the text that DPDK printed. Only one caller may use it at a time:
/// `environment::with_messages`.
pub(crate) fn logged<T>(act: impl FnOnce() -> T) -> (T, String) {
    let mut text = vec![0; 4096];
    // SAFETY: callers use it one at a time.
    unsafe { hw_log_begin() };
    let result = act();
    // SAFETY: the buffer has the given length.
    let len = unsafe { hw_log_end(text.as_mut_ptr(), text.len()) };
    text.truncate(len);
    (result, String::from_utf8_lossy(&text).into_owned())
}

/// Starts DPDK, once in a process.
pub(crate) fn start(arguments: &[String]) -> io::Result<()> {
    let mut arguments: Vec<*mut c_char> = arguments
        .iter()
        .filter_map(|argument| CString::new(argument.as_str()).ok())
        // DPDK keeps the arguments.
        .map(CString::into_raw)
        .collect();
    let count = arguments.len() as c_int;
    arguments.push(ptr::null_mut());
    let arguments: &'static mut [*mut c_char] = arguments.leak();
    // SAFETY: the count matches the texts, which live forever, and a null follows them as in `main`.
    check(unsafe { hw_start(count, arguments.as_mut_ptr()) })
}

/// A port for which a driver was found.
#[derive(Debug)]
pub(crate) struct Probed(u16);

impl Probed {
    /// Lets a driver take a device.
    pub(crate) fn new(device: &str) -> io::Result<Probed> {
        let device = CString::new(device)?;
        let mut port = 0;
        // SAFETY: the arguments are a text, and space for a number.
        check(unsafe { hw_probe(device.as_ptr(), &raw mut port) })?;
        Ok(Probed(port))
    }

    pub(crate) fn info(&self) -> io::Result<Info> {
        let mut info = Info::default();
        // SAFETY: the port exists, and `Info` is the same structure as in C.
        check(unsafe { hw_info(self.0, &raw mut info) })?;
        Ok(info)
    }

    /// Opens it with `count` queues, within its maximum. `program` is the link of the program that redirects
    /// frames to its sockets.
    pub(crate) fn open(self, info: &Info, count: u16, program: Option<OwnedFd>) -> io::Result<Vec<Queue>> {
        let mut opened = ptr::null_mut();
        let program = program.map_or(-1, IntoRawFd::into_raw_fd);
        // SAFETY: the port and the link exist. C owns them from now on, and ends them if the port does not
        // open.
        let status = unsafe { hw_open(self.0, info, count, program, free_piece, &raw mut opened) };
        std::mem::forget(self);
        check(status)?;
        let opened = NonNull::new(opened).ok_or(io::ErrorKind::OutOfMemory)?;
        let port = Arc::new(Port(opened));
        let queues = (0..count).map(|number| {
            // SAFETY: the port was opened with this many queues.
            let queue = unsafe { hw_queue(opened.as_ptr(), number) };
            NonNull::new(queue).map(|queue| Queue { queue, port: port.clone() })
        });
        queues
            .collect::<Option<_>>()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for Probed {
    fn drop(&mut self) {
        // SAFETY: the port is not in use.
        unsafe { hw_remove(self.0) }
    }
}

/// Drops the reference that kept a piece of payload alive.
extern "C" fn free_piece(_: *mut c_void, place: *mut c_void) {
    // SAFETY: `Queue::refer` stored it there, and no reference to the bytes remains. C calls this once.
    unsafe { ptr::drop_in_place(place.cast::<PayRef>()) }
}

/// An open port.
#[derive(Debug)]
struct Port(NonNull<c_void>);

// SAFETY: DPDK does not bind a port to a thread, and several threads may make the calls below at once.
unsafe impl Send for Port {}
// SAFETY: the same as above.
unsafe impl Sync for Port {}

/// A queue of an open port, for receiving and sending.
#[derive(Debug)]
pub(crate) struct Queue {
    queue: NonNull<c_void>,
    port: Arc<Port>,
}

// SAFETY: DPDK does not bind a queue to a thread; only one thread uses it at a time.
unsafe impl Send for Queue {}

impl Queue {
    /// Returns the number of frames that the queue holds until they are received.
    pub(crate) fn depth(&self) -> u16 {
        // SAFETY: the port is open.
        unsafe { hw_depth(self.port.0.as_ptr()) }
    }

    /// Returns the number of frames for which the port had no room, over all queues.
    pub(crate) fn missed(&self) -> io::Result<u64> {
        let mut counts = Counts { missed: 0 };
        // SAFETY: the port is open.
        check(unsafe { hw_counts(self.port.0.as_ptr(), &raw mut counts) })?;
        Ok(counts.missed)
    }

    /// Receives frames into an empty batch.
    pub(crate) fn receive(&mut self, batch: &mut Batch, max: usize) {
        debug_assert!(batch.0.is_empty(), "the port was returned");
        let room = max.min(BATCH);
        batch.0.reserve(BATCH);
        // SAFETY: there is space for `room` frames, and C has written as many as it returns.
        unsafe {
            let count = hw_receive(self.queue.as_ptr(), batch.0.as_mut_ptr(), room as u16);
            batch.0.set_len(usize::from(count).min(room));
        }
    }

    /// Creates a frame with its first bytes. Returns `None` if memory has run out, or if there are too many
    /// bytes.
    pub(crate) fn frame(&mut self, head: &[u8]) -> Option<Frame> {
        let len = u16::try_from(head.len()).ok()?;
        // SAFETY: the port is open, and `head` has `len` bytes.
        let frame = unsafe { hw_frame(self.queue.as_ptr(), head.as_ptr(), len) };
        NonNull::new(frame).map(Frame)
    }

    /// Appends a copy of bytes to a frame. Returns false if memory has run out.
    pub(crate) fn append(&mut self, frame: &mut Frame, bytes: &[u8]) -> bool {
        let Ok(len) = u16::try_from(bytes.len()) else {
            return false;
        };
        // SAFETY: the port is open, the frame is ours, and `bytes` has `len` bytes.
        unsafe { hw_append(self.queue.as_ptr(), frame.0.as_ptr(), bytes.as_ptr(), len) }
    }

    /// Appends payload to a frame by reference. Returns false if memory has run out, or if the payload is too
    /// long for one reference.
    pub(crate) fn refer(&mut self, frame: &mut Frame, payload: &PayRef) -> bool {
        let Ok(len) = u16::try_from(payload.len()) else {
            return false;
        };
        // SAFETY: the port is open and the frame is ours. The bytes stay until `free_piece` drops the
        // `PayRef` that keeps them.
        unsafe {
            let place = hw_refer(
                self.queue.as_ptr(),
                frame.0.as_ptr(),
                payload.bytes().as_ptr(),
                len,
            );
            if place.is_null() {
                return false;
            }
            place.cast::<PayRef>().write(payload.clone());
        }
        true
    }

    /// Sends frames from the front and removes them from the list; the others stay. Returns the number of
    /// removed frames, and the number of these that the port cannot send at all.
    pub(crate) fn send(&mut self, frames: &mut Vec<Frame>) -> (usize, usize) {
        let count = frames.len().min(usize::from(u16::MAX)) as u16;
        let mut refused = 0;
        // SAFETY: a `Frame` is a pointer, and C takes as many as it returns.
        let done = unsafe {
            hw_send(
                self.queue.as_ptr(),
                frames.as_mut_ptr().cast(),
                count,
                &raw mut refused,
            )
        };
        let done = usize::from(done.min(count));
        frames.drain(..done).for_each(std::mem::forget);
        (done, usize::from(refused))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: the port is no longer in use.
        unsafe { hw_close(self.0.as_ptr()) }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Batch(Vec<Received>);

// SAFETY: DPDK does not bind frames to a thread.
unsafe impl Send for Batch {}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the first piece of a frame, through a port that is not shared ([`Info::is_shared`]).
    pub(crate) fn head(&self, i: usize) -> &[u8] {
        let frame = &self.0[i];
        // SAFETY: the bytes belong to the frame, which is ours as long as the batch is borrowed. No peer
        // writes to them, because the caller does not use this function for a shared port.
        unsafe { std::slice::from_raw_parts(frame.head, frame.head_len as usize) }
    }

    /// Returns the length of a frame's first piece, in bytes.
    pub(crate) fn head_len(&self, i: usize) -> usize {
        self.0[i].head_len as usize
    }

    /// Appends a copy of the first piece of a frame. Later writes of a peer do not change the copy.
    pub(crate) fn copy_head(&self, i: usize, to: &mut Vec<u8>) {
        let (frame, len) = (&self.0[i], self.head_len(i));
        to.reserve(len);
        // SAFETY: there is space for `len` bytes, which are read as raw memory without creating a reference.
        unsafe {
            ptr::copy_nonoverlapping(frame.head, to.as_mut_ptr().add(to.len()), len);
            to.set_len(to.len() + len);
        }
    }

    /// Returns true if the port has verified the frame's checksum.
    pub(crate) fn is_verified(&self, i: usize) -> bool {
        self.0[i].is_verified
    }

    /// For a super-segment, returns the number of payload bytes in each packet but the last; 0 for a single
    /// packet.
    pub(crate) fn seg_size(&self, i: usize) -> u16 {
        self.0[i].seg_size
    }

    /// Appends a copy of the further pieces of a frame.
    pub(crate) fn copy_tail(&self, i: usize, to: &mut Vec<u8>) {
        let len = self.0[i].tail_len as usize;
        if len == 0 {
            return;
        }
        let begin = to.len();
        to.resize(begin + len, 0);
        // SAFETY: C writes at most `tail_len` bytes, for which there is space.
        unsafe { hw_copy_tail(&raw const self.0[i], to[begin..].as_mut_ptr()) }
    }

    pub(crate) fn release(&mut self) {
        // SAFETY: the frames are ours, and are removed from the list.
        unsafe { hw_release(self.0.as_ptr(), self.0.len() as u16) }
        self.0.clear();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.release();
    }
}

#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Frame(NonNull<c_void>);

// SAFETY: DPDK does not bind frames to a thread.
unsafe impl Send for Frame {}

impl Frame {
    /// Makes the port complete the checksum of the protocol numbered 6, or 17 if `udp` is set. Its header
    /// starts at `transport`, and the network header at `network`.
    pub(crate) fn complete(&mut self, ipv4: bool, udp: bool, network: u16, transport: u16) {
        // SAFETY: the frame is ours.
        unsafe { hw_complete(self.0.as_ptr(), ipv4, udp, network, transport) }
    }

    /// Makes the port cut the frame, whose headers are `head` bytes long, into packets with `size` bytes of
    /// payload. It is called after `complete`.
    pub(crate) fn cut(&mut self, head: u16, size: u16) {
        // SAFETY: the frame is ours.
        unsafe { hw_cut(self.0.as_ptr(), head, size) }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut frame = self.0.as_ptr();
        // SAFETY: the frame is ours, and is not used afterwards.
        unsafe { hw_drop(&raw mut frame, 1) }
    }
}
