/* Fetches a page: the race picks the transport and the address.
 *
 *   http_get HOST [PORT [PATH]]        TLS for the port 443, which is the default
 *
 *   cc -std=c11 http_get.c $(pkg-config --cflags --libs hawser) -o http_get */

#include <hawser.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_done;
static int code;

static void check(hawser_status status) {
    if (status != HAWSER_OK) {
        fprintf(stderr, "%s\n", hawser_error());
        exit(1);
    }
}

static void on_event(void *user, const hawser_event *event) {
    (void)user;
    switch (event->kind) {
    case HAWSER_READY:
        fprintf(stderr, "connected over %s\n", event->text);
        break;
    case HAWSER_RECEIVED:
        fwrite(event->data, 1, event->len, stdout);
        check(hawser_receive(event->connection, 1, 65536));
        break;
    case HAWSER_RECEIVE_ERROR: /* the server has sent everything */
        is_done = true;
        break;
    case HAWSER_SEND_ERROR:
    case HAWSER_ESTABLISHMENT_ERROR:
    case HAWSER_CONNECTION_ERROR:
        fprintf(stderr, "%s\n", event->text);
        is_done = true;
        code = 1;
        break;
    default:
        break;
    }
}

int main(int argc, char **argv) {
    hawser_context context;
    hawser_preconnection wanted;
    hawser_connection connection;
    hawser_endpoint remote = {.port = 443};
    char request[2048];

    if (argc < 2) {
        fprintf(stderr, "usage: http_get HOST [PORT [PATH]]\n");
        return 2;
    }
    remote.host_name = argv[1];
    if (argc > 2)
        remote.port = (uint16_t)atoi(argv[2]);
    int len = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                       argc > 3 ? argv[3] : "/", argv[1]);
    if (len < 0 || (size_t)len >= sizeof request)
        return 2;

    check(hawser_context_new(&context));
    check(hawser_preconnection_new(context, &wanted));
    check(hawser_preconnection_add_remote(wanted, &remote));
    check(hawser_preconnection_add_alpn(wanted, "http/1.1"));
    if (remote.port != 443)
        check(hawser_preconnection_set_security(wanted, HAWSER_SECURITY_DISABLED));
    check(hawser_initiate(wanted, 10000, on_event, NULL, &connection));
    check(hawser_send(connection, (const uint8_t *)request, (size_t)len, true, NULL, NULL));
    check(hawser_receive(connection, 1, 65536));
    while (!is_done)
        check(hawser_run_once(context, -1, NULL));
    check(hawser_context_free(context));
    return code;
}
