/* Messages to a server and back, in one process that waits in poll(), as an event loop would.
 *
 *   cc -std=c11 echo.c $(pkg-config --cflags --libs hawser) -o echo */

#include <hawser.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hawser_connection client;
static bool is_done;

/* Ends the program when a call has failed. */
static void check(hawser_status status) {
    if (status != HAWSER_OK) {
        fprintf(stderr, "%s\n", hawser_error());
        exit(1);
    }
}

/* The events of the listener and of the connections that it accepts: each message goes back. */
static void serve(void *user, const hawser_event *event) {
    (void)user;
    switch (event->kind) {
    case HAWSER_CONNECTION_RECEIVED:
        check(hawser_receive(event->connection, 0, 0));
        break;
    case HAWSER_RECEIVED:
        check(hawser_send(event->connection, event->data, event->len, event->end_of_message, NULL, NULL));
        check(hawser_receive(event->connection, 0, 0));
        break;
    case HAWSER_RECEIVE_ERROR: /* the client has sent its last message */
        check(hawser_close(event->connection));
        break;
    case HAWSER_CLOSED:
    case HAWSER_CONNECTION_ERROR:
        check(hawser_connection_free(event->connection));
        break;
    default:
        break;
    }
}

/* The events of the client's connection. */
static void answer(void *user, const hawser_event *event) {
    int *received = user;
    switch (event->kind) {
    case HAWSER_RECEIVED:
        printf("server: %.*s\n", (int)event->len, (const char *)event->data);
        if (++*received == 3)
            check(hawser_close(client));
        else
            check(hawser_receive(client, 0, 0));
        break;
    case HAWSER_CLOSED:
        puts("the connection is closed");
        is_done = true;
        break;
    case HAWSER_ESTABLISHMENT_ERROR:
    case HAWSER_CONNECTION_ERROR:
        fprintf(stderr, "%s\n", event->text);
        exit(1);
    default:
        break;
    }
}

int main(void) {
    hawser_context context;
    hawser_preconnection here, there;
    hawser_listener listener;
    hawser_endpoint endpoint = {.ip_address = "127.0.0.1"};
    char address[64], text[32];
    int fd, received = 0;

    check(hawser_context_new(&context));
    check(hawser_context_fd(context, &fd));

    check(hawser_preconnection_new(context, &here));
    check(hawser_preconnection_set_security(here, HAWSER_SECURITY_DISABLED));
    check(hawser_preconnection_add_length_prefix(here, 65536));
    check(hawser_preconnection_add_local(here, &endpoint));
    check(hawser_listen(here, serve, NULL, &listener));
    check(hawser_listener_address(listener, 0, address, sizeof address, NULL));

    endpoint.port = (uint16_t)atoi(strrchr(address, ':') + 1);
    check(hawser_preconnection_new(context, &there));
    check(hawser_preconnection_set_security(there, HAWSER_SECURITY_DISABLED));
    check(hawser_preconnection_add_length_prefix(there, 65536));
    check(hawser_preconnection_add_remote(there, &endpoint));
    check(hawser_initiate(there, 5000, answer, &received, &client));
    for (int number = 0; number < 3; number++) {
        int len = snprintf(text, sizeof text, "message %d", number);
        check(hawser_send(client, (const uint8_t *)text, (size_t)len, true, NULL, NULL));
    }
    check(hawser_receive(client, 0, 0));

    while (!is_done) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        poll(&polled, 1, -1);
        check(hawser_run_once(context, 0, NULL));
    }
    check(hawser_context_free(context));
    return 0;
}
