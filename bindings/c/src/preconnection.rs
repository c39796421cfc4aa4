//! Preconnections: endpoints, properties, security and framers, from which connections and listeners are made.

use std::ffi::{c_char, c_void};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hawser::connect::taps::{
    self, EstablishmentError, LengthPrefix, LocalEndpoint, PropertyError, RemoteEndpoint, SecurityParameters,
};
use hawser::session::{Identity, Trust};
use parking_lot::Mutex;
use serde_json::Value;

use crate::connection::Connection;
use crate::context::Context;
use crate::event::{Target, hawser_callback};
use crate::handle::{self, Object, hawser_connection, hawser_context, hawser_listener, hawser_preconnection};
use crate::listener::Listener;
use crate::pointer;
use crate::status::{Failure, call, hawser_status};

/// The protection of connections (RFC 9622, section 6.3).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hawser_security {
    /// TLS 1.3 with peers that authenticate themselves. This is the default.
    HAWSER_SECURITY_REQUIRED = 0,
    /// TLS 1.3 without authentication if the peer speaks it, otherwise none.
    HAWSER_SECURITY_OPPORTUNISTIC = 1,
    /// None.
    HAWSER_SECURITY_DISABLED = 2,
}

/// One end of a connection, by the identifiers that are known of it. Members that are NULL or 0 are not stated.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hawser_endpoint {
    /// The host's name, such as `www.example.org`. Only remote endpoints have one.
    pub host_name: *const c_char,
    /// An address of IPv4 or IPv6, such as `192.0.2.1`.
    pub ip_address: *const c_char,
    /// The port; a local endpoint's port is chosen by the system if it is 0.
    pub port: u16,
    /// The service in place of the port, such as `https`.
    pub service: *const c_char,
    /// The interface of this machine, such as `wlan0`.
    pub interface_name: *const c_char,
}

pub(crate) struct Preconnection {
    pub(crate) context: Arc<Context>,
    wanted: taps::Preconnection,
    mode: hawser_security,
    trust: Option<Trust>,
    identity: Option<(String, String)>,
    alpn: Vec<String>,
    server_name: Option<String>,
}

impl Preconnection {
    /// Returns the requirements without security, which a session's document states.
    pub(crate) fn without_security(&self) -> taps::Preconnection {
        self.wanted.clone()
    }

    /// Returns the requirements, complete.
    fn finished(&self) -> Result<taps::Preconnection, Failure> {
        let mut security = match self.mode {
            hawser_security::HAWSER_SECURITY_REQUIRED => SecurityParameters::new(),
            hawser_security::HAWSER_SECURITY_OPPORTUNISTIC => SecurityParameters::opportunistic(),
            hawser_security::HAWSER_SECURITY_DISABLED => SecurityParameters::disabled(),
        };
        if let Some(trust) = &self.trust {
            security = security.with_trust(trust.clone());
        }
        if let Some((chain, key)) = &self.identity {
            let identity = Identity::read(Path::new(chain), Path::new(key)).map_err(Failure::argument)?;
            security = security.with_server_certificate(identity);
        }
        if let Some(name) = &self.server_name {
            security = security.with_server_name(name);
        }
        let security = security.with_alpn(self.alpn.iter().map(String::as_str));
        Ok(self.wanted.clone().with_security(security))
    }
}

pub(crate) fn property(error: PropertyError) -> Failure {
    Failure::new(hawser_status::HAWSER_ERROR_PROPERTY, error)
}

fn establishment(error: EstablishmentError) -> Failure {
    Failure::new(hawser_status::HAWSER_ERROR_ESTABLISHMENT, error)
}

/// Calls `set` with the name and the text of each member of an object in JSON.
pub(crate) fn each_property(
    json: &str,
    mut set: impl FnMut(&str, &str) -> Result<(), PropertyError>,
) -> Result<(), Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::argument(format!("the properties: {why}"));
    let object: Value = serde_json::from_str(json).map_err(|error| wrong(&error))?;
    let members = object
        .as_object()
        .ok_or_else(|| wrong(&"they are no object of JSON"))?;
    for (name, value) in members {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(wrong(&format!("`{name}` is neither text, number nor boolean")));
            }
        };
        set(name, &text).map_err(property)?;
    }
    Ok(())
}

/// Makes a preconnection without endpoints, with the RFC's default properties, and writes its handle. Those of
/// one context share what they learn about the network.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_new(
    context: hawser_context,
    preconnection: *mut hawser_preconnection,
) -> hawser_status {
    call(|| {
        let context = context.get()?;
        let id = handle::reserve();
        // SAFETY: the caller promises that the pointer is NULL or valid.
        unsafe { pointer::write(preconnection, "preconnection", hawser_preconnection { id }) }?;
        let made = Preconnection {
            wanted: context.template.clone(),
            context,
            mode: hawser_security::HAWSER_SECURITY_REQUIRED,
            trust: None,
            identity: None,
            alpn: Vec::new(),
            server_name: None,
        };
        handle::insert(id, Object::Preconnection(Arc::new(Mutex::new(made))));
        Ok(())
    })
}

/// Frees a preconnection. What was made from it stays.
///
/// Errors: HAWSER_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_preconnection_free(preconnection: hawser_preconnection) -> hawser_status {
    call(|| preconnection.take().map(drop))
}

/// Adds a remote endpoint.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_add_remote(
    preconnection: hawser_preconnection,
    endpoint: *const hawser_endpoint,
) -> hawser_status {
    call(|| {
        let preconnection = preconnection.get()?;
        // SAFETY: the caller promises that the pointer and those in the endpoint are NULL or valid.
        let Parts { host_name, address, port, service, interface } = unsafe { parts(endpoint) }?;
        let mut remote = RemoteEndpoint::new();
        if let Some(name) = host_name {
            remote = remote.with_host_name(name);
        }
        if let Some(address) = address {
            remote = remote.with_ip_address(address);
        }
        if port > 0 {
            remote = remote.with_port(port);
        }
        if let Some(service) = service {
            remote = remote.with_service(service);
        }
        if let Some(interface) = interface {
            remote = remote.with_interface(interface);
        }
        preconnection.lock().wanted.add_remote(remote);
        Ok(())
    })
}

/// Adds a local endpoint: where a connection begins, or where a listener listens.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_add_local(
    preconnection: hawser_preconnection,
    endpoint: *const hawser_endpoint,
) -> hawser_status {
    call(|| {
        let preconnection = preconnection.get()?;
        // SAFETY: the caller promises that the pointer and those in the endpoint are NULL or valid.
        let Parts { host_name, address, port, service, interface } = unsafe { parts(endpoint) }?;
        if host_name.is_some() {
            return Err(Failure::argument("a local endpoint has no `host_name`"));
        }
        let mut local = LocalEndpoint::new();
        if let Some(address) = address {
            local = local.with_ip_address(address);
        }
        local = match service {
            Some(service) => local.with_service(service),
            None => local.with_port(port),
        };
        if let Some(interface) = interface {
            local = local.with_interface(interface);
        }
        preconnection.lock().wanted.add_local(local);
        Ok(())
    })
}

/// The members of an endpoint.
struct Parts<'a> {
    host_name: Option<&'a str>,
    address: Option<IpAddr>,
    port: u16,
    service: Option<&'a str>,
    interface: Option<&'a str>,
}

/// Reads an endpoint.
///
/// # Safety
/// The pointer, and those in the endpoint, are NULL or valid.
unsafe fn parts<'a>(endpoint: *const hawser_endpoint) -> Result<Parts<'a>, Failure> {
    if endpoint.is_null() {
        return Err(Failure::argument("`endpoint` is NULL"));
    }
    // SAFETY: by the contract above.
    let endpoint = unsafe { endpoint.read() };
    // SAFETY: as above.
    let text = |from, name| unsafe { pointer::optional(from, name) };
    let address = match text(endpoint.ip_address, "ip_address")? {
        None => None,
        Some(address) => Some(
            address
                .parse()
                .map_err(|_| Failure::argument(format!("`{address}` is no address of IPv4 or IPv6")))?,
        ),
    };
    Ok(Parts {
        host_name: text(endpoint.host_name, "host_name")?,
        address,
        port: endpoint.port,
        service: text(endpoint.service, "service")?,
        interface: text(endpoint.interface_name, "interface_name")?,
    })
}

/// Chooses a property by the RFC's name, in any case, with its value as text: `reliability` and `Require`,
/// `multipath` and `Active`, `connTimeout` and a number of milliseconds. docs/rfc9622.md lists them.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_set_property(
    preconnection: hawser_preconnection,
    name: *const c_char,
    value: *const c_char,
) -> hawser_status {
    call(|| {
        let preconnection = preconnection.get()?;
        // SAFETY: the caller promises that the pointers are NULL or valid.
        let (name, value) = unsafe { (pointer::text(name, "name")?, pointer::text(value, "value")?) };
        let mut state = preconnection.lock();
        state
            .wanted
            .properties_mut()
            .set_by_name(name, value)
            .map(drop)
            .map_err(property)
    })
}

/// Chooses properties by an object of JSON, such as `{"reliability": "Require", "multipath": "Active"}`. If
/// one is refused, those before it are chosen all the same.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_set_properties(
    preconnection: hawser_preconnection,
    json: *const c_char,
) -> hawser_status {
    call(|| {
        let preconnection = preconnection.get()?;
        // SAFETY: the caller promises that the pointer is NULL or valid.
        let json = unsafe { pointer::text(json, "json") }?;
        let mut state = preconnection.lock();
        let properties = state.wanted.properties_mut();
        each_property(json, |name, value| properties.set_by_name(name, value).map(drop))
    })
}

/// Chooses the protection of connections.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_preconnection_set_security(
    preconnection: hawser_preconnection,
    mode: i32,
) -> hawser_status {
    call(|| {
        let mode = match mode {
            0 => hawser_security::HAWSER_SECURITY_REQUIRED,
            1 => hawser_security::HAWSER_SECURITY_OPPORTUNISTIC,
            2 => hawser_security::HAWSER_SECURITY_DISABLED,
            _ => {
                return Err(Failure::argument(format!(
                    "{mode} is no value of hawser_security"
                )));
            }
        };
        preconnection.get()?.lock().mode = mode;
        Ok(())
    })
}

/// Trusts the servers that these certificates name or vouch for, a file in PEM, in place of those that the
/// system trusts. It is read when a connection is made.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_trust_file(
    preconnection: hawser_preconnection,
    path: *const c_char,
) -> hawser_status {
    call(|| {
        // SAFETY: the caller promises that the pointer is NULL or valid.
        let path = unsafe { pointer::text(path, "path") }?;
        preconnection.get()?.lock().trust = Some(Trust::File(path.into()));
        Ok(())
    })
}

/// Trusts the one server whose certificate has this SHA-256, 32 bytes.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_trust_digest(
    preconnection: hawser_preconnection,
    sha256: *const u8,
) -> hawser_status {
    call(|| {
        // SAFETY: the caller promises that the pointer is NULL or valid for 32 bytes.
        let digest = unsafe { pointer::bytes(sha256, 32, "sha256") }?;
        let digest = digest.try_into().map_err(Failure::argument)?;
        preconnection.get()?.lock().trust = Some(Trust::Pin(digest));
        Ok(())
    })
}

/// Sets the name that a server's certificate must have, if that differs from its host name.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_set_server_name(
    preconnection: hawser_preconnection,
    name: *const c_char,
) -> hawser_status {
    call(|| {
        // SAFETY: the caller promises that the pointer is NULL or valid.
        let name = unsafe { pointer::text(name, "name") }?;
        preconnection.get()?.lock().server_name = Some(name.to_owned());
        Ok(())
    })
}

/// Adds an application protocol to negotiate (RFC 7301), such as `http/1.1`. The first is the best.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_add_alpn(
    preconnection: hawser_preconnection,
    protocol: *const c_char,
) -> hawser_status {
    call(|| {
        // SAFETY: the caller promises that the pointer is NULL or valid.
        let protocol = unsafe { pointer::text(protocol, "protocol") }?;
        preconnection.get()?.lock().alpn.push(protocol.to_owned());
        Ok(())
    })
}

/// Sets the certificate of a listener, by the files in PEM of its chain and of its key. They are read when a
/// listener is made.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_preconnection_set_certificate(
    preconnection: hawser_preconnection,
    chain: *const c_char,
    key: *const c_char,
) -> hawser_status {
    call(|| {
        // SAFETY: the caller promises that the pointers are NULL or valid.
        let (chain, key) = unsafe { (pointer::text(chain, "chain")?, pointer::text(key, "key")?) };
        preconnection.get()?.lock().identity = Some((chain.to_owned(), key.to_owned()));
        Ok(())
    })
}

/// Marks the ends of messages by a length in front of each, a number of 32 bits in network order, and refuses
/// messages of more than `max_len` bytes. Both ends need it. Without it, messages over a stream of bytes have
/// no end.
///
/// Errors: HAWSER_ERROR_HANDLE.
#[unsafe(no_mangle)]
pub extern "C" fn hawser_preconnection_add_length_prefix(
    preconnection: hawser_preconnection,
    max_len: usize,
) -> hawser_status {
    call(|| {
        let framer = LengthPrefix::new(max_len);
        preconnection.get()?.lock().wanted.add_framer(framer);
        Ok(())
    })
}

/// Begins a connection to a remote endpoint, and writes its handle. The call returns at once: HAWSER_READY or
/// HAWSER_ESTABLISHMENT_ERROR follows. Messages may be sent before. A `timeout_ms` above 0 limits the time for
/// establishment, in milliseconds. The callback may be NULL.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_ESTABLISHMENT if the requirements cannot
/// be fulfilled whatever the peer does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_initiate(
    preconnection: hawser_preconnection,
    timeout_ms: u32,
    callback: hawser_callback,
    user: *mut c_void,
    connection: *mut hawser_connection,
) -> hawser_status {
    call(|| {
        let preconnection = preconnection.get()?;
        let id = handle::reserve();
        // SAFETY: the caller promises that the pointer is NULL or valid.
        unsafe { pointer::write(connection, "connection", hawser_connection { id }) }?;
        let (context, wanted) = {
            let state = preconnection.lock();
            (Arc::clone(&state.context), state.finished()?.with_sent_events())
        };
        let guard = context.handle.enter();
        let begun = match timeout_ms {
            0 => wanted.initiate(),
            _ => wanted.initiate_within(Duration::from_millis(timeout_ms.into())),
        };
        let begun = begun.map_err(establishment)?;
        drop(guard);
        Connection::start(id, &context, begun, Target::new(callback, user));
        Ok(())
    })
}

/// Listens for connections at the local endpoints, and writes the listener's handle. The listener is ready
/// when the call returns. Events of its connections go to the callback, too.
///
/// Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_ESTABLISHMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hawser_listen(
    preconnection: hawser_preconnection,
    callback: hawser_callback,
    user: *mut c_void,
    listener: *mut hawser_listener,
) -> hawser_status {
    call(|| {
        let preconnection = preconnection.get()?;
        let id = handle::reserve();
        // SAFETY: the caller promises that the pointer is NULL or valid.
        unsafe { pointer::write(listener, "listener", hawser_listener { id }) }?;
        let (context, wanted) = {
            let state = preconnection.lock();
            (Arc::clone(&state.context), state.finished()?.with_sent_events())
        };
        let opened = context.handle.block_on(wanted.listen()).map_err(establishment)?;
        Listener::start(id, &context, opened, Target::new(callback, user));
        Ok(())
    })
}
