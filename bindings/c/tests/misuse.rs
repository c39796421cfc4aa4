//! Wrong uses: each is an error with a text.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use hawser_c::*;

/// Returns the text of the last error.
fn error() -> String {
    // SAFETY: the text is never NULL, and lives until the thread's next error.
    unsafe { CStr::from_ptr(hawser_error()) }
        .to_str()
        .expect("UTF-8")
        .to_owned()
}

fn context() -> hawser_context {
    let mut context = hawser_context { id: 0 };
    // SAFETY: the pointer is valid.
    let status = unsafe { hawser_context_new(&raw mut context) };
    assert_eq!(status, hawser_status::HAWSER_OK, "{}", error());
    context
}

#[test]
fn handles_that_name_nothing_are_errors() {
    let context = context();
    for id in [0, 1 << 40, u64::MAX, context.id] {
        let status = hawser_close(hawser_connection { id });
        assert_eq!(status, hawser_status::HAWSER_ERROR_HANDLE);
        assert_eq!(
            error(),
            "the handle names no connection: it was never valid, or was freed"
        );
        assert_eq!(
            hawser_listener_free(hawser_listener { id }),
            hawser_status::HAWSER_ERROR_HANDLE
        );
        let freed = hawser_preconnection_free(hawser_preconnection { id });
        assert_eq!(freed, hawser_status::HAWSER_ERROR_HANDLE);
    }
    assert_eq!(hawser_context_free(context), hawser_status::HAWSER_OK);
    assert_eq!(hawser_context_free(context), hawser_status::HAWSER_ERROR_HANDLE);
    assert_eq!(hawser_context_start(context), hawser_status::HAWSER_ERROR_HANDLE);
}

#[test]
fn null_and_broken_texts_are_errors() {
    let context = context();
    let mut preconnection = hawser_preconnection { id: 0 };
    let argument = hawser_status::HAWSER_ERROR_ARGUMENT;
    // SAFETY: the pointers are NULL or valid, as the functions demand.
    unsafe {
        assert_eq!(hawser_context_new(null_mut()), argument);
        assert_eq!(error(), "`context` is NULL");
        assert_eq!(hawser_preconnection_new(context, null_mut()), argument);
        assert_eq!(
            hawser_preconnection_new(context, &raw mut preconnection),
            hawser_status::HAWSER_OK
        );
        assert_eq!(hawser_preconnection_add_remote(preconnection, null()), argument);
        assert_eq!(
            hawser_preconnection_set_property(preconnection, null(), c"x".as_ptr()),
            argument
        );
        let broken = c"\xff";
        assert_eq!(
            hawser_preconnection_set_server_name(preconnection, broken.as_ptr()),
            argument
        );
        assert_eq!(error(), "`name` is no UTF-8");
        let unknown = hawser_preconnection_set_property(preconnection, c"colour".as_ptr(), c"red".as_ptr());
        assert_eq!(unknown, hawser_status::HAWSER_ERROR_PROPERTY);
        let json = hawser_preconnection_set_properties(preconnection, c"[1]".as_ptr());
        assert_eq!(
            (json, error()),
            (argument, "the properties: they are no object of JSON".to_owned())
        );
        assert_eq!(
            hawser_initiate(preconnection, 0, None, null_mut(), null_mut()),
            argument
        );
        let mut connection = hawser_connection { id: 0 };
        let none = hawser_initiate(preconnection, 0, None, null_mut(), &raw mut connection);
        assert_eq!(
            none,
            hawser_status::HAWSER_ERROR_ESTABLISHMENT,
            "there is no remote endpoint"
        );
    }
    assert_eq!(hawser_preconnection_set_security(preconnection, 3), argument);
    assert_eq!(hawser_context_free(context), hawser_status::HAWSER_OK);
    assert_eq!(
        hawser_preconnection_free(preconnection),
        hawser_status::HAWSER_ERROR_HANDLE
    );
}

/// What a callback has seen.
struct Seen {
    context: hawser_context,
    kinds: Vec<hawser_event_kind>,
    statuses: Vec<hawser_status>,
}

unsafe extern "C" fn free_all(user: *mut c_void, event: *const hawser_event) {
    // SAFETY: the test passes a pointer to `Seen`, and the event lives until the callback returns.
    let (seen, event) = unsafe { (&mut *user.cast::<Seen>(), &*event) };
    seen.kinds.push(event.kind);
    // SAFETY: the pointer may be NULL.
    seen.statuses
        .push(unsafe { hawser_run_once(seen.context, 0, null_mut()) });
    seen.statuses.push(hawser_context_free(seen.context));
    seen.statuses.push(hawser_connection_free(event.connection));
    seen.statuses.push(hawser_connection_free(event.connection));
}

/// A callback that frees the connection that it is called for, and does what it must not.
#[test]
fn a_callback_may_free_its_connection_and_nothing_above() {
    let context = context();
    let mut seen = Seen { context, kinds: Vec::new(), statuses: Vec::new() };
    let mut preconnection = hawser_preconnection { id: 0 };
    let mut connection = hawser_connection { id: 0 };
    // Nothing listens at the port 1 of the loopback interface.
    let endpoint = hawser_endpoint {
        host_name: null(),
        ip_address: c"127.0.0.1".as_ptr(),
        port: 1,
        service: null(),
        interface_name: null(),
    };
    let user: *mut c_void = (&raw mut seen).cast();
    // SAFETY: all pointers are valid, and `seen` outlives the context.
    unsafe {
        hawser_preconnection_new(context, &raw mut preconnection);
        hawser_preconnection_set_security(preconnection, 2);
        assert_eq!(
            hawser_preconnection_add_remote(preconnection, &raw const endpoint),
            hawser_status::HAWSER_OK
        );
        let begun = hawser_initiate(preconnection, 5_000, Some(free_all), user, &raw mut connection);
        assert_eq!(begun, hawser_status::HAWSER_OK, "{}", error());
        let mut count = 0;
        while count == 0 {
            assert_eq!(
                hawser_run_once(context, 10_000, &raw mut count),
                hawser_status::HAWSER_OK
            );
        }
    }
    assert_eq!(seen.kinds, [hawser_event_kind::HAWSER_ESTABLISHMENT_ERROR]);
    let busy = hawser_status::HAWSER_ERROR_BUSY;
    let freed = [hawser_status::HAWSER_OK, hawser_status::HAWSER_ERROR_HANDLE];
    assert_eq!(seen.statuses, [busy, busy, freed[0], freed[1]]);
    assert_eq!(hawser_context_free(context), hawser_status::HAWSER_OK);
}
