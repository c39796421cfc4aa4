//! Many connections, one after the other: nothing that belongs to them is left.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use hawser_c::*;

/// The number of connections. The memory at the end is compared with that after the first tenth.
const COUNT: usize = 10_000;

/// The memory that may be gained after the first tenth, in bytes: 10 bytes for each connection.
const GROWTH: usize = (COUNT - COUNT / 10) * 10;

struct Client {
    preconnection: hawser_preconnection,
    begun: usize,
    ended: usize,
    /// Resident memory after the first tenth.
    memory: usize,
}

fn ok(status: hawser_status) {
    // SAFETY: the text is never NULL, and lives until the thread's next error.
    let text = unsafe { CStr::from_ptr(hawser_error()) };
    assert_eq!(status, hawser_status::HAWSER_OK, "{text:?}");
}

/// Returns this process's anonymous resident memory in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process's status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .expect("a line");
    let number = line.trim().trim_end_matches(" kB");
    number.parse::<usize>().expect("a number") * 1024
}

unsafe extern "C" fn serve(_: *mut c_void, event: *const hawser_event) {
    // SAFETY: the event lives until the callback returns.
    let event = unsafe { &*event };
    match event.kind {
        hawser_event_kind::HAWSER_CONNECTION_RECEIVED => ok(hawser_receive(event.connection, 0, 0)),
        hawser_event_kind::HAWSER_RECEIVE_ERROR => ok(hawser_close(event.connection)),
        hawser_event_kind::HAWSER_CLOSED | hawser_event_kind::HAWSER_CONNECTION_ERROR => {
            // The answer to the call of hawser_receive() may come behind it, and is then for nobody.
            ok(hawser_connection_free(event.connection));
        }
        _ => {}
    }
}

unsafe extern "C" fn next(user: *mut c_void, event: *const hawser_event) {
    // SAFETY: the test passes a pointer to `Client`, and the event lives until the callback returns.
    let (client, event) = unsafe { (&mut *user.cast::<Client>(), &*event) };
    match event.kind {
        hawser_event_kind::HAWSER_READY => ok(hawser_close(event.connection)),
        hawser_event_kind::HAWSER_CLOSED => {
            ok(hawser_connection_free(event.connection));
            client.ended += 1;
            if client.ended == COUNT / 10 {
                client.memory = memory();
            }
            if client.begun < COUNT {
                begin(client);
            }
        }
        // SAFETY: the text lives as long as the event.
        kind => panic!("{kind:?}: {:?}", unsafe { CStr::from_ptr(event.text) }),
    }
}

fn begin(client: &mut Client) {
    client.begun += 1;
    let mut connection = hawser_connection { id: 0 };
    let user: *mut c_void = std::ptr::from_mut(client).cast();
    // SAFETY: the pointers are valid, and the client outlives the context.
    ok(unsafe {
        hawser_initiate(
            client.preconnection,
            10_000,
            Some(next),
            user,
            &raw mut connection,
        )
    });
}

#[test]
fn ten_thousand_connections_leave_nothing() {
    let mut context = hawser_context { id: 0 };
    let mut preconnection = hawser_preconnection { id: 0 };
    let mut listener = hawser_listener { id: 0 };
    let mut endpoint = hawser_endpoint {
        host_name: null(),
        ip_address: c"127.0.0.1".as_ptr(),
        port: 0,
        service: null(),
        interface_name: null(),
    };
    let mut address = [0; 64];
    // SAFETY: all pointers are valid, and what they point to outlives the context.
    unsafe {
        ok(hawser_context_new(&raw mut context));
        ok(hawser_preconnection_new(context, &raw mut preconnection));
        ok(hawser_preconnection_set_security(preconnection, 2));
        ok(hawser_preconnection_add_local(preconnection, &raw const endpoint));
        ok(hawser_listen(
            preconnection,
            Some(serve),
            null_mut(),
            &raw mut listener,
        ));
        ok(hawser_listener_address(
            listener,
            0,
            address.as_mut_ptr(),
            address.len(),
            null_mut(),
        ));
        let text = CStr::from_ptr(address.as_ptr()).to_str().expect("UTF-8");
        endpoint.port = text
            .rsplit(':')
            .next()
            .expect("a port")
            .parse()
            .expect("a number");
        ok(hawser_preconnection_free(preconnection));
        ok(hawser_preconnection_new(context, &raw mut preconnection));
        ok(hawser_preconnection_set_security(preconnection, 2));
        ok(hawser_preconnection_add_remote(
            preconnection,
            &raw const endpoint,
        ));
    }
    let client = Box::into_raw(Box::new(Client { preconnection, begun: 0, ended: 0, memory: 0 }));
    // Several at a time, as a server has them.
    for _ in 0..8 {
        // SAFETY: no callback runs, so nothing else refers to it.
        begin(unsafe { &mut *client });
    }
    loop {
        // SAFETY: the count may be NULL.
        ok(unsafe { hawser_run_once(context, -1, null_mut()) });
        // SAFETY: no callback runs while it is read.
        if unsafe { (*client).ended } == COUNT {
            break;
        }
    }
    let last = memory();
    ok(hawser_context_free(context));
    // SAFETY: the context is gone, so no callback has the pointer any more.
    let first = unsafe { Box::from_raw(client) }.memory;
    println!("{first} bytes after {}, {last} after {COUNT}", COUNT / 10);
    assert!(last <= first + GROWTH, "{first} bytes became {last}");
}
