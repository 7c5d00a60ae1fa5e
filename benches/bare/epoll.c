/* A bare server: what bytecost's `epoll` and `uring` are held against.
 *
 * One thread, epoll by level, glibc's wrappers, and what comes is sent back: no messages, no
 * limits, no time. A client that does not read its answers is closed.
 *
 *     epoll PORT
 *
 * Listens on 127.0.0.1 until its standard input ends. Its output says at which port: 0 takes a
 * free one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 512, BYTES = 65536, BACKLOG = 4096 };

static int set;
static char bytes[BYTES];

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void wait_for(int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0)
		fail("epoll_ctl");
}

static int listen_on(int port)
{
	struct sockaddr_in own = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof own;
	int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (fd < 0)
		fail("socket");
	/* Connections inherit TCP_NODELAY. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
		fail("setsockopt");
	if (bind(fd, (struct sockaddr *)&own, sizeof own) != 0 || listen(fd, BACKLOG) != 0 ||
	    getsockname(fd, (struct sockaddr *)&own, &length) != 0)
		fail("listen");
	printf("%d\n", ntohs(own.sin_port));
	fflush(stdout);
	return fd;
}

static void take(int listener)
{
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		if (fd >= 0)
			wait_for(fd);
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR && errno != ECONNABORTED)
			fail("accept4");
	}
}

static void serve(int fd)
{
	ssize_t got = recv(fd, bytes, BYTES, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0 || send(fd, bytes, (size_t)got, MSG_NOSIGNAL) != got)
		close(fd);
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS];
	if (argc != 2) {
		puts("wanted: PORT");
		return 2;
	}
	set = epoll_create1(0);
	if (set < 0)
		fail("epoll_create1");
	int listener = listen_on(atoi(argv[1]));
	wait_for(listener);
	wait_for(STDIN_FILENO);
	for (;;) {
		int ready = epoll_wait(set, events, EVENTS, -1);
		for (int i = 0; i < ready; i++) {
			int fd = events[i].data.fd;
			if (fd == STDIN_FILENO)
				return 0;
			if (fd == listener)
				take(listener);
			else
				serve(fd);
		}
	}
}
