//! Handles: numbers that are never used twice, so that a stale or invented one names nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, RwLock};

use crate::connection::Connection;
use crate::context::Context;
use crate::listener::Listener;
use crate::preconnection::Preconnection;
use crate::status::{Failure, hawser_status};

/// A context: the threads and queues that serve connections. The value 0 names none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct hawser_context {
    /// The number of the context. Programs have no use for it.
    pub id: u64,
}

/// A preconnection: requirements from which connections and listeners are made (RFC 9622, section 6).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct hawser_preconnection {
    /// The number of the preconnection. Programs have no use for it.
    pub id: u64,
}

/// A connection, which carries messages in both directions (RFC 9622, sections 7 to 10).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct hawser_connection {
    /// The number of the connection. Programs have no use for it.
    pub id: u64,
}

/// A listener, which accepts connections (RFC 9622, section 7.2).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct hawser_listener {
    /// The number of the listener. Programs have no use for it.
    pub id: u64,
}

/// An object that a handle names.
#[derive(Clone)]
pub(crate) enum Object {
    Context(Arc<Context>),
    Preconnection(Arc<Mutex<Preconnection>>),
    Connection(Arc<Connection>),
    Listener(Arc<Listener>),
}

static OBJECTS: LazyLock<RwLock<HashMap<u64, Object>>> = LazyLock::new(RwLock::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Returns a number for an object that is about to be made.
pub(crate) fn reserve() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn insert(id: u64, object: Object) {
    OBJECTS.write().insert(id, object);
}

/// Removes the objects for which `is_wanted` is true.
pub(crate) fn remove_all(is_wanted: impl Fn(&Object) -> bool) {
    // Dropped behind the lock, because ends of connections may look up handles.
    let _removed: Vec<Object> = OBJECTS
        .write()
        .extract_if(|_, object| is_wanted(object))
        .map(|(_, object)| object)
        .collect();
}

macro_rules! handle {
    ($handle:ident, $kind:ident, $object:ty, $name:literal) => {
        impl $handle {
            pub(crate) fn get(self) -> Result<Arc<$object>, Failure> {
                match OBJECTS.read().get(&self.id) {
                    Some(Object::$kind(object)) => Ok(Arc::clone(object)),
                    _ => Err(unknown($name)),
                }
            }

            /// Removes the object from the table of handles.
            pub(crate) fn take(self) -> Result<Arc<$object>, Failure> {
                let object = self.get()?;
                let removed = OBJECTS.write().remove(&self.id);
                removed
                    .is_some()
                    .then_some(object)
                    .ok_or_else(|| unknown($name))
            }
        }
    };
}

handle!(hawser_context, Context, Context, "context");
handle!(
    hawser_preconnection,
    Preconnection,
    Mutex<Preconnection>,
    "preconnection"
);
handle!(hawser_connection, Connection, Connection, "connection");
handle!(hawser_listener, Listener, Listener, "listener");

fn unknown(name: &str) -> Failure {
    let text = format!("the handle names no {name}: it was never valid, or was freed");
    Failure::new(hawser_status::HAWSER_ERROR_HANDLE, text)
}
