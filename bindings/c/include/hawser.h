/* Hawser for C: connections by the transport that wins a race, in the words of RFC 9622.
 *
 * Every function that can fail returns a hawser_status; hawser_error() gives the reason. Texts are UTF-8 and end
 * with a zero byte. Pointers that are given to a function are read only during the call. Handles are numbers: one
 * that was freed, or never valid, yields HAWSER_ERROR_HANDLE. All functions may be called in any thread.
 *
 * This file is generated from the library's source. docs/c.md explains it with examples. */

#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * The result of a call. Every value other than `HAWSER_OK` is an error, which hawser_error() describes.
 */
typedef enum hawser_status {
  /**
   * The call succeeded.
   */
  HAWSER_OK = 0,
  /**
   * The handle names no object of the kind that the function takes: it was never valid, or was freed.
   */
  HAWSER_ERROR_HANDLE = -1,
  /**
   * An argument is NULL, is no UTF-8, or is out of its range.
   */
  HAWSER_ERROR_ARGUMENT = -2,
  /**
   * There is no such property, or it does not take the value.
   */
  HAWSER_ERROR_PROPERTY = -3,
  /**
   * The call is not allowed now: events are being dispatched in another thread, or in a callback above.
   */
  HAWSER_ERROR_BUSY = -4,
  /**
   * Too much is queued. HAWSER_SENDABLE reports when to try again.
   */
  HAWSER_ERROR_FULL = -5,
  /**
   * The connection has ended, or the direction is closed.
   */
  HAWSER_ERROR_ENDED = -6,
  /**
   * The connection or the listener could not be established.
   */
  HAWSER_ERROR_ESTABLISHMENT = -7,
  /**
   * The buffer is too small; the needed size is returned.
   */
  HAWSER_ERROR_SPACE = -8,
  /**
   * The lifetime of the message ended before it was sent.
   */
  HAWSER_ERROR_EXPIRED = -9,
  /**
   * The operating system refused an operation.
   */
  HAWSER_ERROR_SYSTEM = -10,
  /**
   * The library has a fault. Please report it.
   */
  HAWSER_ERROR_INTERNAL = -11,
} hawser_status;

/**
 * What an event reports.
 */
typedef enum hawser_event_kind {
  /**
   * The connection is established, including its security. `text` names the transport.
   */
  HAWSER_READY = 1,
  /**
   * A call to hawser_receive() has its message, or a part of it: `data`, `len`, `end_of_message`.
   */
  HAWSER_RECEIVED = 2,
  /**
   * A call to hawser_receive() has no message: `status` and `text`. No message follows.
   */
  HAWSER_RECEIVE_ERROR = 3,
  /**
   * The transport has accepted a message of hawser_send(): `send_id`.
   */
  HAWSER_SENT = 4,
  /**
   * A message was not sent: `send_id`, `status` (HAWSER_ERROR_EXPIRED after its lifetime) and `text`.
   */
  HAWSER_SEND_ERROR = 5,
  /**
   * hawser_send() refused a message because too much was queued, and may succeed now.
   */
  HAWSER_SENDABLE = 6,
  /**
   * The paths below the connection have changed: `text`.
   */
  HAWSER_PATH_CHANGE = 7,
  /**
   * The connection has left its group: `status` and `text`.
   */
  HAWSER_CLONE_ERROR = 8,
  /**
   * The connection was closed by either side. After it and each of the next two, a connection has no events
   * but the answers to calls of hawser_receive().
   */
  HAWSER_CLOSED = 9,
  /**
   * The connection could not be established: `status` and `text`.
   */
  HAWSER_ESTABLISHMENT_ERROR = 10,
  /**
   * The connection has ended otherwise: `status` and `text`.
   */
  HAWSER_CONNECTION_ERROR = 11,
  /**
   * The listener has accepted a connection: `connection`. Its events go to the listener's callback until
   * hawser_connection_set_callback() names another.
   */
  HAWSER_CONNECTION_RECEIVED = 12,
  /**
   * The listener has stopped. It is its last event.
   */
  HAWSER_STOPPED = 13,
  /**
   * Something was asked for that this machine does not provide, and the connection goes on without it:
   * `text`.
   */
  HAWSER_SOFT_ERROR = 14,
} hawser_event_kind;

/**
 * The protection of connections (RFC 9622, section 6.3).
 */
typedef enum hawser_security {
  /**
   * TLS 1.3 with peers that authenticate themselves. This is the default.
   */
  HAWSER_SECURITY_REQUIRED = 0,
  /**
   * TLS 1.3 without authentication if the peer speaks it, otherwise none.
   */
  HAWSER_SECURITY_OPPORTUNISTIC = 1,
  /**
   * None.
   */
  HAWSER_SECURITY_DISABLED = 2,
} hawser_security;

/**
 * A connection, which carries messages in both directions (RFC 9622, sections 7 to 10).
 */
typedef struct hawser_connection {
  /**
   * The number of the connection. Programs have no use for it.
   */
  uint64_t id;
} hawser_connection;

/**
 * A listener, which accepts connections (RFC 9622, section 7.2).
 */
typedef struct hawser_listener {
  /**
   * The number of the listener. Programs have no use for it.
   */
  uint64_t id;
} hawser_listener;

/**
 * An event. It and all that it points to is valid until the callback returns. Later versions of the library
 * may append members.
 */
typedef struct hawser_event {
  /**
   * What the event reports.
   */
  enum hawser_event_kind kind;
  /**
   * The reason of an event that reports an error, otherwise HAWSER_OK.
   */
  enum hawser_status status;
  /**
   * The connection that the event is about; 0 if it is about a listener alone.
   */
  struct hawser_connection connection;
  /**
   * The listener that the event is about, otherwise 0.
   */
  struct hawser_listener listener;
  /**
   * The number that hawser_send() returned for the message.
   */
  uint64_t send_id;
  /**
   * The received bytes; never NULL.
   */
  const uint8_t *data;
  /**
   * The number of received bytes.
   */
  size_t len;
  /**
   * True if the received bytes are the last of their message.
   */
  bool end_of_message;
  /**
   * A description for people, in UTF-8; never NULL.
   */
  const char *text;
} hawser_event;

/**
 * A function that receives events. `user` is the pointer that was given with the function. It may call any
 * function of the library except hawser_run_once() and hawser_context_free(), and may free the object that
 * the event is about.
 */
typedef void (*hawser_callback)(void *user, const struct hawser_event *event);

/**
 * A context: the threads and queues that serve connections. The value 0 names none.
 */
typedef struct hawser_context {
  /**
   * The number of the context. Programs have no use for it.
   */
  uint64_t id;
} hawser_context;

/**
 * A preconnection: requirements from which connections and listeners are made (RFC 9622, section 6).
 */
typedef struct hawser_preconnection {
  /**
   * The number of the preconnection. Programs have no use for it.
   */
  uint64_t id;
} hawser_preconnection;

/**
 * One end of a connection, by the identifiers that are known of it. Members that are NULL or 0 are not stated.
 */
typedef struct hawser_endpoint {
  /**
   * The host's name, such as `www.example.org`. Only remote endpoints have one.
   */
  const char *host_name;
  /**
   * An address of IPv4 or IPv6, such as `192.0.2.1`.
   */
  const char *ip_address;
  /**
   * The port; a local endpoint's port is chosen by the system if it is 0.
   */
  uint16_t port;
  /**
   * The service in place of the port, such as `https`.
   */
  const char *service;
  /**
   * The interface of this machine, such as `wlan0`.
   */
  const char *interface_name;
} hawser_endpoint;

/**
 * An error or a warning of a program. It and its texts are valid until the callback returns. Places count from
 * 1, columns in characters; the end is exclusive.
 */
typedef struct hawser_diagnostic {
  /**
   * The code, such as `E0201`, which hawser_explain() explains.
   */
  const char *code;
  /**
   * True for an error, false for a warning.
   */
  bool is_error;
  /**
   * What is wrong.
   */
  const char *message;
  /**
   * What the place shows; empty if there is nothing to add.
   */
  const char *label;
  /**
   * What to do; empty if there is no advice.
   */
  const char *hint;
  /**
   * The file.
   */
  const char *file;
  /**
   * The line of the place.
   */
  uint32_t line;
  /**
   * Its column.
   */
  uint32_t column;
  /**
   * The line of its end.
   */
  uint32_t end_line;
  /**
   * The column of its end.
   */
  uint32_t end_column;
} hawser_diagnostic;

/**
 * A function that receives diagnostics.
 */
typedef void (*hawser_diagnostic_callback)(void *user, const struct hawser_diagnostic *diagnostic);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Sends a message, or a part of one: `len` bytes, which are copied. Parts of one message are sent in order,
 * the last with `end_of_message`. `properties` is NULL, or an object of JSON with message properties (RFC
 * 9622, section 9.1.3), such as `{"msgLifetime": 500, "final": true}`; it belongs to the first part. The
 * message's number is written to `send_id`, unless that is NULL; HAWSER_SENT or HAWSER_SEND_ERROR reports it.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY, HAWSER_ERROR_ENDED,
 * HAWSER_ERROR_FULL while too much is queued: bytes that the transport has not taken, or 1,024 messages whose
 * events have not been dispatched. HAWSER_SENDABLE reports when to try again.
 */
enum hawser_status hawser_send(struct hawser_connection connection,
                               const uint8_t *data,
                               size_t len,
                               bool end_of_message,
                               const char *properties,
                               uint64_t *send_id);

/**
 * Asks for the next message; HAWSER_RECEIVED or HAWSER_RECEIVE_ERROR answers each call, in order. A message
 * comes in parts if it is longer than `max_len` bytes, and a part has at least `min_incomplete_len` bytes.
 * With 0 and 0, whole messages are reported, as long as they fit into the library's buffer of 1 MiB; without
 * a framer, over a stream of bytes, what has arrived.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_FULL while 1,024 calls wait.
 */
enum hawser_status hawser_receive(struct hawser_connection connection,
                                  size_t min_incomplete_len,
                                  size_t max_len);

/**
 * Closes a connection when all sent messages are delivered, which HAWSER_CLOSED reports.
 *
 * Errors: HAWSER_ERROR_HANDLE.
 */
enum hawser_status hawser_close(struct hawser_connection connection);

/**
 * Ends a connection at once, and discards what was not sent. HAWSER_CONNECTION_ERROR follows.
 *
 * Errors: HAWSER_ERROR_HANDLE.
 */
enum hawser_status hawser_abort(struct hawser_connection connection);

/**
 * Frees a connection's handle. If the connection has not ended, it is closed; sent messages are still
 * delivered while the context lives. No event of it follows.
 *
 * Errors: HAWSER_ERROR_HANDLE.
 */
enum hawser_status hawser_connection_free(struct hawser_connection connection);

/**
 * Sends the events of a connection to another callback from now on.
 *
 * Errors: HAWSER_ERROR_HANDLE.
 */
enum hawser_status hawser_connection_set_callback(struct hawser_connection connection,
                                                  hawser_callback callback,
                                                  void *user);

/**
 * Makes another connection of the same group: a further stream of the same transport connection if that has
 * several, otherwise a connection of its own to the same peer (RFC 9622, section 7.4). Its events go to this
 * callback.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_ESTABLISHMENT.
 */
enum hawser_status hawser_clone(struct hawser_connection connection,
                                hawser_callback callback,
                                void *user,
                                struct hawser_connection *clone);

/**
 * Sets a connection property by its name and a value as text; see hawser_preconnection_set_property(). All
 * except `connPriority` apply to the whole group.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY.
 */
enum hawser_status hawser_connection_set_property(struct hawser_connection connection,
                                                  const char *name,
                                                  const char *value);

/**
 * Writes the value of a property as text to a buffer of `size` bytes, with a zero byte behind it, and its
 * length to `len`, unless that is NULL, also if the buffer is too small.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY if the connection has no value of
 * it, HAWSER_ERROR_SPACE.
 */
enum hawser_status hawser_connection_property(struct hawser_connection connection,
                                              const char *name,
                                              char *buffer,
                                              size_t size,
                                              size_t *len);

/**
 * Writes the remote address of a connection, such as `192.0.2.1:443`, to a buffer as
 * hawser_connection_property() does. The text is empty while it is not known.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_SPACE.
 */
enum hawser_status hawser_connection_remote(struct hawser_connection connection,
                                            char *buffer,
                                            size_t size,
                                            size_t *len);

/**
 * Makes a context, and writes its handle to `context`. Its I/O runs in threads of its own. Events wait until
 * hawser_run_once() dispatches them in the thread that calls it, or hawser_context_start() has a thread of the
 * context do so. All functions of the library may be called in any thread.
 *
 * Errors: HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_SYSTEM.
 */
enum hawser_status hawser_context_new(struct hawser_context *context);

/**
 * Returns, through `fd`, a descriptor that is readable while events wait, for poll(), epoll and event loops.
 * The library owns it: a program must neither read it nor close it.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_context_fd(struct hawser_context context,
                                     int32_t *fd);

/**
 * Waits at most `timeout_ms` milliseconds for events (0: not at all, negative: without limit), and calls the
 * callbacks of those that wait, at most 256, in this thread. Their number is written to `count`, unless that
 * is NULL. If more wait, the descriptor stays readable.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_BUSY in a callback or while another thread dispatches,
 * HAWSER_ERROR_SYSTEM.
 */
enum hawser_status hawser_run_once(struct hawser_context context,
                                   int32_t timeout_ms,
                                   size_t *count);

/**
 * Starts a thread of the context that dispatches events from now on, until the context is freed. All
 * callbacks run in this thread, one at a time.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_BUSY if it was started before, HAWSER_ERROR_SYSTEM.
 */
enum hawser_status hawser_context_start(struct hawser_context context);

/**
 * Frees a context with all that was made from it. Connections end as if they were aborted; a program that
 * wants their data delivered closes them first and waits for HAWSER_CLOSED. No callback is called after it
 * has returned.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_BUSY in a callback.
 */
enum hawser_status hawser_context_free(struct hawser_context context);

/**
 * Writes one of the addresses at which a listener listens, such as `127.0.0.1:4433`, to a buffer of `size`
 * bytes, with a zero byte behind it. `index` counts them from 0. Its length is written to `len`, unless that
 * is NULL, also if the buffer is too small.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT if there are not that many, HAWSER_ERROR_SPACE.
 */
enum hawser_status hawser_listener_address(struct hawser_listener listener,
                                           size_t index,
                                           char *buffer,
                                           size_t size,
                                           size_t *len);

/**
 * Stops a listener and frees it. Connections that it has accepted stay. No event of it follows.
 *
 * Errors: HAWSER_ERROR_HANDLE.
 */
enum hawser_status hawser_listener_free(struct hawser_listener listener);

/**
 * Makes a preconnection without endpoints, with the RFC's default properties, and writes its handle. Those of
 * one context share what they learn about the network.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_new(struct hawser_context context,
                                            struct hawser_preconnection *preconnection);

/**
 * Frees a preconnection. What was made from it stays.
 *
 * Errors: HAWSER_ERROR_HANDLE.
 */
enum hawser_status hawser_preconnection_free(struct hawser_preconnection preconnection);

/**
 * Adds a remote endpoint.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_add_remote(struct hawser_preconnection preconnection,
                                                   const struct hawser_endpoint *endpoint);

/**
 * Adds a local endpoint: where a connection begins, or where a listener listens.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_add_local(struct hawser_preconnection preconnection,
                                                  const struct hawser_endpoint *endpoint);

/**
 * Chooses a property by the RFC's name, in any case, with its value as text: `reliability` and `Require`,
 * `multipath` and `Active`, `connTimeout` and a number of milliseconds. docs/rfc9622.md lists them.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY.
 */
enum hawser_status hawser_preconnection_set_property(struct hawser_preconnection preconnection,
                                                     const char *name,
                                                     const char *value);

/**
 * Chooses properties by an object of JSON, such as `{"reliability": "Require", "multipath": "Active"}`. If
 * one is refused, those before it are chosen all the same.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_PROPERTY.
 */
enum hawser_status hawser_preconnection_set_properties(struct hawser_preconnection preconnection,
                                                       const char *json);

/**
 * Chooses the protection of connections.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_set_security(struct hawser_preconnection preconnection,
                                                     int32_t mode);

/**
 * Trusts the servers that these certificates name or vouch for, a file in PEM, in place of those that the
 * system trusts. It is read when a connection is made.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_trust_file(struct hawser_preconnection preconnection,
                                                   const char *path);

/**
 * Trusts the one server whose certificate has this SHA-256, 32 bytes.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_trust_digest(struct hawser_preconnection preconnection,
                                                     const uint8_t *sha256);

/**
 * Sets the name that a server's certificate must have, if that differs from its host name.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_set_server_name(struct hawser_preconnection preconnection,
                                                        const char *name);

/**
 * Adds an application protocol to negotiate (RFC 7301), such as `http/1.1`. The first is the best.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_add_alpn(struct hawser_preconnection preconnection,
                                                 const char *protocol);

/**
 * Sets the certificate of a listener, by the files in PEM of its chain and of its key. They are read when a
 * listener is made.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT.
 */
enum hawser_status hawser_preconnection_set_certificate(struct hawser_preconnection preconnection,
                                                        const char *chain,
                                                        const char *key);

/**
 * Marks the ends of messages by a length in front of each, a number of 32 bits in network order, and refuses
 * messages of more than `max_len` bytes. Both ends need it. Without it, messages over a stream of bytes have
 * no end.
 *
 * Errors: HAWSER_ERROR_HANDLE.
 */
enum hawser_status hawser_preconnection_add_length_prefix(struct hawser_preconnection preconnection,
                                                          size_t max_len);

/**
 * Begins a connection to a remote endpoint, and writes its handle. The call returns at once: HAWSER_READY or
 * HAWSER_ESTABLISHMENT_ERROR follows. Messages may be sent before. A `timeout_ms` above 0 limits the time for
 * establishment, in milliseconds. The callback may be NULL.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_ESTABLISHMENT if the requirements cannot
 * be fulfilled whatever the peer does.
 */
enum hawser_status hawser_initiate(struct hawser_preconnection preconnection,
                                   uint32_t timeout_ms,
                                   hawser_callback callback,
                                   void *user,
                                   struct hawser_connection *connection);

/**
 * Listens for connections at the local endpoints, and writes the listener's handle. The listener is ready
 * when the call returns. Events of its connections go to the callback, too.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT, HAWSER_ERROR_ESTABLISHMENT.
 */
enum hawser_status hawser_listen(struct hawser_preconnection preconnection,
                                 hawser_callback callback,
                                 void *user,
                                 struct hawser_listener *listener);

/**
 * Checks a program, a file in MTP with its imports, and calls the callback for each error and warning, file by
 * file in the order of the text, in this thread. The callback may be NULL. The number of errors is written to
 * `errors`; with 0, the program can be run.
 *
 * Errors: HAWSER_ERROR_ARGUMENT. A program with errors is no error of the call.
 */
enum hawser_status hawser_check(const char *path,
                                hawser_diagnostic_callback callback,
                                void *user,
                                size_t *errors);

/**
 * Writes the explanation of a code of diagnostics, in Markdown, to a buffer of `size` bytes, with a zero byte
 * behind it, and its length to `len`, unless that is NULL, also if the buffer is too small.
 *
 * Errors: HAWSER_ERROR_ARGUMENT if there is no such code, HAWSER_ERROR_SPACE.
 */
enum hawser_status hawser_explain(const char *code,
                                  char *buffer,
                                  size_t size,
                                  size_t *len);

/**
 * Begins a connection that is a stream of a new session, and writes its handle. The session's document, in
 * TOML or JSON (docs/sessions.md), names its server, transports, interfaces and security; of the preconnection
 * only framers and properties of messages and connections count. The stream survives the loss of any path
 * while another is left. HAWSER_PATH_CHANGE reports changes of the paths, and HAWSER_SOFT_ERROR a wish of the
 * document that this machine does not fulfil. hawser_clone() opens further streams of the session, which ends
 * with its last connection.
 *
 * Errors: HAWSER_ERROR_HANDLE, HAWSER_ERROR_ARGUMENT with all faults of the document.
 */
enum hawser_status hawser_initiate_session(struct hawser_preconnection preconnection,
                                           const char *document,
                                           uint32_t timeout_ms,
                                           hawser_callback callback,
                                           void *user,
                                           struct hawser_connection *connection);

/**
 * Returns the reason for the last error of this thread, as UTF-8; empty if no call has failed. The text is
 * valid until the thread's next call that fails. It is never NULL, and the library owns it.
 */
const char *hawser_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus
