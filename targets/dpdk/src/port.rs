//! A port of DPDK, as safe code uses it.
//!
//! Invariants: a queue is used by whoever holds its [`Queue`], one thread at a time; its port is closed once, when the last
//! of them is gone. A received frame belongs
//! to the [`Batch`] that has it until that gives it back. Its bytes do not change meanwhile, but where the port is shared:
//! those are copied once before they are read ([`Info::is_shared`]). A peer of such a port is trusted with this process's
//! memory, since DPDK keeps there what it knows of frames. A [`Frame`] belongs to who
//! holds it until the port has sent it. Payload that frames refer to is kept by a [`PayRef`] beside the reference, which the
//! port's last use of it drops.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use hawser_engine::wire::PayRef;

/// Frames that one call receives, at most.
pub(crate) const BATCH: usize = 64;
/// Bytes that a [`PayRef`] has beside a reference.
const PLACE: usize = 32;
const _: () = assert!(size_of::<PayRef>() <= PLACE && align_of::<PayRef>() <= 8);

/// What a port offers: `struct hw_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Info {
    /// The port's Ethernet address.
    pub(crate) mac: [u8; 6],
    /// The longest IP packet, in bytes.
    pub(crate) mtu: u16,
    /// The number of the host's interface that it stands on; 0: none.
    pub(crate) interface: u32,
    /// How many queues it can have.
    pub(crate) queues: u16,
    /// Pieces that a frame to send may have.
    pub(crate) pieces: u16,
    /// It completes checksums of the protocols numbered 6 and 17.
    pub(crate) sums: bool,
    /// It verifies them.
    pub(crate) verifies: bool,
    /// It cuts super-segments of the protocol numbered 6.
    pub(crate) cuts: bool,
    /// It may join what it receives to such.
    pub(crate) joins: bool,
    /// The processor moves its bytes, so that they may lie anywhere.
    pub(crate) copies: bool,
    /// It stands on AF_XDP sockets, which take a program on its interface.
    pub(crate) is_af_xdp: bool,
    /// The port's peer can write to received frames until they are released.
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

/// A status of C: a negative errno, or not. Drivers fail with -1 for any reason.
fn check(status: c_int) -> io::Result<()> {
    match status {
        -1 => Err(io::Error::other("no reason given")),
        ..0 => Err(io::Error::from_raw_os_error(-status)),
        _ => Ok(()),
    }
}

/// Does something, and returns with its result what DPDK printed. One caller at a time: `environment::with_messages`.
pub(crate) fn logged<T>(act: impl FnOnce() -> T) -> (T, String) {
    let mut text = vec![0; 4096];
    // SAFETY: the callers take turns.
    unsafe { hw_log_begin() };
    let result = act();
    // SAFETY: the buffer has so many bytes.
    let len = unsafe { hw_log_end(text.as_mut_ptr(), text.len()) };
    text.truncate(len);
    (result, String::from_utf8_lossy(&text).into_owned())
}

/// Starts DPDK, once for a process.
pub(crate) fn start(arguments: &[String]) -> io::Result<()> {
    let mut arguments: Vec<*mut c_char> = arguments
        .iter()
        .filter_map(|argument| CString::new(argument.as_str()).ok())
        // DPDK keeps them.
        .map(CString::into_raw)
        .collect();
    let count = arguments.len() as c_int;
    arguments.push(ptr::null_mut());
    let arguments: &'static mut [*mut c_char] = arguments.leak();
    // SAFETY: as many texts as stated, which live on, with a null behind them as `main` has it.
    check(unsafe { hw_start(count, arguments.as_mut_ptr()) })
}

/// A port that a driver has taken.
#[derive(Debug)]
pub(crate) struct Probed(u16);

impl Probed {
    /// Has a driver take a device.
    pub(crate) fn new(device: &str) -> io::Result<Probed> {
        let device = CString::new(device)?;
        let mut port = 0;
        // SAFETY: a text, and room for a number.
        check(unsafe { hw_probe(device.as_ptr(), &raw mut port) })?;
        Ok(Probed(port))
    }

    pub(crate) fn info(&self) -> io::Result<Info> {
        let mut info = Info::default();
        // SAFETY: the port is there, and `Info` is the same structure as in C.
        check(unsafe { hw_info(self.0, &raw mut info) })?;
        Ok(info)
    }

    /// Opens it with so many queues, no more than it can have. `program` is the link of what redirects frames to its sockets.
    pub(crate) fn open(self, info: &Info, count: u16, program: Option<OwnedFd>) -> io::Result<Vec<Queue>> {
        let mut opened = ptr::null_mut();
        let program = program.map_or(-1, IntoRawFd::into_raw_fd);
        // SAFETY: the port and the link are there, and are C's from now on: it ends them where it does not open.
        let status = unsafe { hw_open(self.0, info, count, program, free_piece, &raw mut opened) };
        std::mem::forget(self);
        check(status)?;
        let opened = NonNull::new(opened).ok_or(io::ErrorKind::OutOfMemory)?;
        let port = Arc::new(Port(opened));
        let queues = (0..count).map(|number| {
            // SAFETY: it was opened with so many.
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
        // SAFETY: nothing uses the port.
        unsafe { hw_remove(self.0) }
    }
}

/// Drops what kept a piece of payload.
extern "C" fn free_piece(_: *mut c_void, place: *mut c_void) {
    // SAFETY: `Queue::refer` has put it there, and nothing refers to the bytes any more. C calls this once.
    unsafe { ptr::drop_in_place(place.cast::<PayRef>()) }
}

/// A port that is open.
#[derive(Debug)]
struct Port(NonNull<c_void>);

// SAFETY: DPDK binds a port to no thread; what is asked of it here may be asked by several at a time.
unsafe impl Send for Port {}
// SAFETY: the same.
unsafe impl Sync for Port {}

/// A queue of an open port, to receive by and to send by.
#[derive(Debug)]
pub(crate) struct Queue {
    queue: NonNull<c_void>,
    port: Arc<Port>,
}

// SAFETY: DPDK binds a queue to no thread; it is used by one at a time.
unsafe impl Send for Queue {}

impl Queue {
    /// Frames that it holds until they are received.
    pub(crate) fn depth(&self) -> u16 {
        // SAFETY: the port is open.
        unsafe { hw_depth(self.port.0.as_ptr()) }
    }

    /// Frames that the port has received without room for them, by whichever queue.
    pub(crate) fn missed(&self) -> io::Result<u64> {
        let mut counts = Counts { missed: 0 };
        // SAFETY: the port is open.
        check(unsafe { hw_counts(self.port.0.as_ptr(), &raw mut counts) })?;
        Ok(counts.missed)
    }

    /// Takes frames into an empty batch.
    pub(crate) fn receive(&mut self, batch: &mut Batch, max: usize) {
        debug_assert!(batch.0.is_empty(), "it was given back");
        let room = max.min(BATCH);
        batch.0.reserve(BATCH);
        // SAFETY: there is room for `room` frames, and C has written as many as it returns.
        unsafe {
            let count = hw_receive(self.queue.as_ptr(), batch.0.as_mut_ptr(), room as u16);
            batch.0.set_len(usize::from(count).min(room));
        }
    }

    /// A frame with its first bytes; nothing where memory has run out, or there are too many.
    pub(crate) fn frame(&mut self, head: &[u8]) -> Option<Frame> {
        let len = u16::try_from(head.len()).ok()?;
        // SAFETY: the port is open, and so many bytes are there.
        let frame = unsafe { hw_frame(self.queue.as_ptr(), head.as_ptr(), len) };
        NonNull::new(frame).map(Frame)
    }

    /// Copies bytes behind a frame. False where memory has run out.
    pub(crate) fn append(&mut self, frame: &mut Frame, bytes: &[u8]) -> bool {
        let Ok(len) = u16::try_from(bytes.len()) else {
            return false;
        };
        // SAFETY: the port is open, the frame is ours, and so many bytes are there.
        unsafe { hw_append(self.queue.as_ptr(), frame.0.as_ptr(), bytes.as_ptr(), len) }
    }

    /// Puts payload behind a frame where it lies. False where memory has run out, or it is too long for one reference.
    pub(crate) fn refer(&mut self, frame: &mut Frame, payload: &PayRef) -> bool {
        let Ok(len) = u16::try_from(payload.len()) else {
            return false;
        };
        // SAFETY: the port is open, the frame is ours, and the bytes stay until `free_piece` drops what keeps them.
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

    /// Sends frames from the front, which leave the list; the others stay. Returns how many left it, and how many of those
    /// the port cannot send at all.
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
        // SAFETY: nothing uses the port any more.
        unsafe { hw_close(self.0.as_ptr()) }
    }
}

/// Received frames.
#[derive(Debug, Default)]
pub(crate) struct Batch(Vec<Received>);

// SAFETY: DPDK binds frames to no thread.
unsafe impl Send for Batch {}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the first piece of a frame, through a port that is not shared ([`Info::is_shared`]).
    pub(crate) fn head(&self, i: usize) -> &[u8] {
        let frame = &self.0[i];
        // SAFETY: the bytes are the frame's, which is ours as long as the batch is borrowed. No peer writes to them: the
        // caller has not asked for the piece of a shared port.
        unsafe { std::slice::from_raw_parts(frame.head, frame.head_len as usize) }
    }

    /// Returns the length of a frame's first piece, in bytes.
    pub(crate) fn head_len(&self, i: usize) -> usize {
        self.0[i].head_len as usize
    }

    /// Appends the first piece of a frame. Whatever a peer writes meanwhile, what is appended changes no more.
    pub(crate) fn copy_head(&self, i: usize, to: &mut Vec<u8>) {
        let (frame, len) = (&self.0[i], self.head_len(i));
        to.reserve(len);
        // SAFETY: there is room for `len` bytes, which are read as raw memory and never referred to.
        unsafe {
            ptr::copy_nonoverlapping(frame.head, to.as_mut_ptr().add(to.len()), len);
            to.set_len(to.len() + len);
        }
    }

    /// Whether the port has verified the frame's checksum.
    pub(crate) fn is_verified(&self, i: usize) -> bool {
        self.0[i].is_verified
    }

    /// For a super-segment: payload bytes of each packet but the last; 0 for one packet.
    pub(crate) fn seg_size(&self, i: usize) -> u16 {
        self.0[i].seg_size
    }

    /// Appends the further pieces of a frame.
    pub(crate) fn copy_tail(&self, i: usize, to: &mut Vec<u8>) {
        let len = self.0[i].tail_len as usize;
        if len == 0 {
            return;
        }
        let begin = to.len();
        to.resize(begin + len, 0);
        // SAFETY: C writes `tail_len` bytes at most, for which there is room.
        unsafe { hw_copy_tail(&raw const self.0[i], to[begin..].as_mut_ptr()) }
    }

    /// Gives all frames back.
    pub(crate) fn release(&mut self) {
        // SAFETY: the frames are ours, and leave the list.
        unsafe { hw_release(self.0.as_ptr(), self.0.len() as u16) }
        self.0.clear();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.release();
    }
}

/// A frame to send.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Frame(NonNull<c_void>);

// SAFETY: DPDK binds frames to no thread.
unsafe impl Send for Frame {}

impl Frame {
    /// Has the port complete the checksum of the protocol numbered 6, or 17 where `udp`, whose header starts at `transport`; the network's at `network`.
    pub(crate) fn complete(&mut self, ipv4: bool, udp: bool, network: u16, transport: u16) {
        // SAFETY: the frame is ours.
        unsafe { hw_complete(self.0.as_ptr(), ipv4, udp, network, transport) }
    }

    /// Has it cut the frame, whose headers are `head` bytes long, to packets with `size` bytes of payload; after `complete`.
    pub(crate) fn cut(&mut self, head: u16, size: u16) {
        // SAFETY: the frame is ours.
        unsafe { hw_cut(self.0.as_ptr(), head, size) }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut frame = self.0.as_ptr();
        // SAFETY: the frame is ours, and this is the end of it.
        unsafe { hw_drop(&raw mut frame, 1) }
    }
}
