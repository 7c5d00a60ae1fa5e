/* A bare loop of send(2), sendfile(2) or splice(2): what bytecost's movers of these names are held
 * against.
 *
 * One thread, glibc's wrapper (which is as cheap as a raw call while a process has never had a
 * second thread), the payload ring and the socket options of bytecost, nothing else. A timer's
 * signal tells the phase, so that the loop never reads a clock.
 *
 *     send WAY PORT CONGESTION KEY SIZE RING
 *
 * WAY is send, sendfile or splice. RING is a file with the payload; messages of SIZE bytes go round
 * it, from memory for send and from the file itself for the others. TOKEN is what bytecost's
 * receiver expects first. Says "ready" when connected, then reads three times of CLOCK_MONOTONIC
 * in ns: when to begin, when the window opens, when it closes. At the end it says what was sent
 * within the window, at which cost, and in all.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* 0 warm-up, 1 window, 2 cool-down, 3 stop */
static volatile sig_atomic_t phase;

/* As large as a user may ask for by default, fs.pipe-max-size. */
#define PIPE_BYTES (1 << 20)

static int out, ring_file, ends[2];
static char *ring;
static size_t ring_bytes, size, at;
static uint64_t messages;

static void fail(const char *what)
{
	fprintf(stdout, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void next_phase(int signal)
{
	(void)signal;
	phase++;
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The signal comes after `first_ns`, then each `then_ns`. */
static void set_timer(uint64_t first_ns, uint64_t then_ns)
{
	struct itimerval t = {
		.it_value = { first_ns / 1000000000, first_ns % 1000000000 / 1000 },
		.it_interval = { then_ns / 1000000000, then_ns % 1000000000 / 1000 },
	};
	if (setitimer(ITIMER_REAL, &t, NULL) != 0)
		fail("setitimer");
}

static void send_message(void)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = send(out, ring + at + done, size - done, MSG_NOSIGNAL);
		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR)
			fail("send");
	}
}

static void sendfile_message(void)
{
	off_t from = (off_t)at;
	off_t to = (off_t)(at + size);
	while (from < to) {
		ssize_t n = sendfile(out, ring_file, &from, (size_t)(to - from));
		if (n == 0)
			errno = ENODATA;
		if (n == 0 || (n < 0 && errno != EINTR))
			fail("sendfile");
	}
}

static void splice_message(void)
{
	off64_t from = (off64_t)at;
	off64_t to = (off64_t)(at + size);
	while (from < to) {
		ssize_t filled = splice(ring_file, &from, ends[1], NULL, (size_t)(to - from),
					SPLICE_F_MOVE);
		if (filled == 0)
			errno = ENODATA;
		if (filled == 0 || (filled < 0 && errno != EINTR))
			fail("splice");
		while (filled > 0) {
			unsigned more = from < to ? SPLICE_F_MORE : 0;
			ssize_t n = splice(ends[0], NULL, out, NULL, (size_t)filled,
					   SPLICE_F_MOVE | more);
			if (n > 0)
				filled -= n;
			else if (n == 0 || errno != EINTR)
				fail("splice");
		}
	}
}

static void (*message)(void) = send_message;

/* At least one message in each phase: a large one may outlast them all. */
static void send_until(int until)
{
	do {
		message();
		messages++;
		at += size;
		if (at == ring_bytes)
			at = 0;
	} while (phase < until);
}

static void choose(const char *way)
{
	if (strcmp(way, "sendfile") == 0) {
		message = sendfile_message;
	} else if (strcmp(way, "splice") == 0) {
		message = splice_message;
		if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) < 0)
			fail("pipe");
	} else if (strcmp(way, "send") != 0) {
		puts("the way is send, sendfile or splice");
		exit(2);
	}
}

static void open_ring(const char *path)
{
	struct stat facts;
	ring_file = open(path, O_RDONLY);
	if (ring_file < 0 || fstat(ring_file, &facts) != 0)
		fail(path);
	ring_bytes = (size_t)facts.st_size;
}

static void read_ring(void)
{
	ring = mmap(NULL, ring_bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (ring == MAP_FAILED)
		fail("mmap");
	for (size_t got = 0; got < ring_bytes;) {
		ssize_t n = read(ring_file, ring + got, ring_bytes - got);
		if (n <= 0)
			fail("read");
		got += (size_t)n;
	}
	close(ring_file);
}

static void connect_to(int port, const char *congestion, const char *key)
{
	struct sockaddr_in peer = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	unsigned char hello[16];
	for (size_t i = 0; i < sizeof hello; i++)
		if (sscanf(key + 2 * i, "%2hhx", &hello[i]) != 1)
			fail("the key");
	out = socket(AF_INET, SOCK_STREAM, 0);
	if (out < 0)
		fail("socket");
	if (setsockopt(out, IPPROTO_TCP, TCP_CONGESTION, congestion,
		       (socklen_t)strlen(congestion)) != 0)
		fail(congestion);
	if (connect(out, (struct sockaddr *)&peer, sizeof peer) != 0)
		fail("connect");
	if (send(out, hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
		fail("send");
}

int main(int argc, char **argv)
{
	uint64_t begin, from, to;
	if (argc != 7) {
		puts("wanted: WAY PORT CONGESTION KEY SIZE RING");
		return 2;
	}
	if (strlen(argv[4]) != 32)
		fail("the key");
	choose(argv[1]);
	size = strtoull(argv[5], NULL, 10);
	open_ring(argv[6]);
	if (size == 0 || ring_bytes % size != 0) {
		puts("the ring does not hold whole messages");
		return 2;
	}
	if (message == send_message)
		read_ring();
	connect_to(atoi(argv[2]), argv[3], argv[4]);
	puts("ready");
	fflush(stdout);
	if (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &begin, &from, &to) != 3) {
		puts("no schedule came");
		return 2;
	}

	struct sigaction action = { .sa_handler = next_phase, .sa_flags = SA_RESTART };
	sigaction(SIGALRM, &action, NULL);
	struct timespec start = { (time_t)(begin / 1000000000), (long)(begin % 1000000000) };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL);
	uint64_t late = now(CLOCK_MONOTONIC);
	set_timer(from > late ? from - late : 1000, to - from);

	send_until(1);
	uint64_t sent = messages;
	uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID);
	uint64_t elapsed = now(CLOCK_MONOTONIC);
	send_until(2);
	elapsed = now(CLOCK_MONOTONIC) - elapsed;
	cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	sent = messages - sent;
	/* The receiver's window must end under load as well. */
	set_timer(20000000, 0);
	send_until(3);
	shutdown(out, SHUT_WR);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", sent * size, cpu, elapsed,
	       messages * size);
	return 0;
}
