// SPDX-License-Identifier: MIT
//
// What the device of the transport `wire` does with packets: it takes them off before a queue, a
// socket or another process can see them, and notes what they carried. A packet that is taken off
// is freed and not delivered, so nobody needs a copy of the sender's pages.
//
// Attached to the egress of a tun device, or of one end of a veth pair, by tc-bpf(8). `wire.bpf.o`
// beside this file is what the program brings along; `make bpf` builds it and `make check` compares
// the two. There are no includes, so that the object depends on this file and the compiler alone.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

// Of the interface to user space, linux/bpf.h and linux/pkt_cls.h.
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_F_MMAPABLE (1U << 10)
#define TC_ACT_OK 0
#define TC_ACT_STOLEN 4 // not SHOT, which the sender's TCP takes for congestion

struct __sk_buff {
	u32 len;
	u32 other[18];
	u32 data;
	u32 data_end;
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

// IPv4 without options, and the head of TCP, in network order.
struct segment {
	u8 version_and_length;
	u8 service;
	u16 total_length;
	u16 id;
	u16 fragment;
	u8 hops;
	u8 protocol;
	u16 ip_checksum;
	u32 from;
	u32 to;
	u16 from_port;
	u16 to_port;
	u32 sequence;
	u32 acknowledged;
	u8 length;
	u8 flags;
	u16 window;
	u16 checksum;
	u16 urgent;
};

#define FIN 1
#define SYN 2
#define RST 4
#define ACK 16

#define IPV4_WITHOUT_OPTIONS 0x45
#define ETHERNET_BYTES 14
#define IP_BYTES 20
#define PART 0x3fff // more parts of the same packet come, or came before
#define TCP 6

// What was seen of a flow. One writer: a socket sends one packet after the other. A cache line
// each, for flows have neighbouring ports. `crates/lab/src/transports/wire/shared_counters.rs` reads
// it.
struct flow {
	u64 start;    // sequence number of the first byte of payload
	u64 bytes;    // of payload that came in order
	u64 segments; // packets with payload
	u64 gaps;     // packets that began after what was expected; they count as lost
	u64 repeats;  // packets with nothing new
	u64 ended;    // 1: the sender has closed, 2: it has given up
	u64 spare[2];
};

// One entry, by the sender's port, so that it can be mapped and needs no search.
struct board {
	struct flow flows[65536];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct board);
} board SEC(".maps");

// The flow of a port in network order. Kernels as old as 6.1 do not know that the swapped number
// has 16 bits, and the compiler does, so that it would leave the mask away.
static __attribute__((always_inline)) struct flow *flow_of(struct board *all, u16 port)
{
	u32 at = __builtin_bswap16(port);

	asm volatile("" : "+r"(at));
	return &all->flows[at & 0xffff];
}

static __attribute__((always_inline)) void note(struct flow *flow, u32 sequence, u32 length, u8 flags)
{
	u32 expected = (u32)flow->start + (u32)flow->bytes;
	s32 ahead = (s32)(sequence - expected);

	if (length > 0)
		flow->segments++;
	if (ahead > 0) {
		// An acknowledgement of our end comes after the sender's own.
		if (length > 0)
			flow->gaps++;
		return;
	}
	s32 fresh = (s32)length + ahead;
	if (fresh > 0) {
		flow->bytes += (u32)fresh;
	} else if (length > 0 || ahead < 0) {
		flow->repeats++;
		return;
	}
	if (flags & FIN) {
		if (flow->ended)
			flow->repeats++;
		flow->ended |= 1;
	}
}

static __attribute__((always_inline)) void begin(struct flow *flow, u32 start)
{
	flow->start = start;
	flow->bytes = 0;
	flow->segments = 0;
	flow->gaps = 0;
	flow->repeats = 0;
	flow->ended = 0;
}

// A packet that has so many bytes of a frame's head before it.
static __attribute__((always_inline)) int take(struct __sk_buff *packet, u32 lead)
{
	void *start = (void *)(u64)packet->data + lead;
	void *end = (void *)(u64)packet->data_end;
	struct segment *segment = start;
	u32 length = packet->len - lead;
	u32 zero = 0;

	if ((void *)(segment + 1) > end)
		return TC_ACT_STOLEN;
	if (segment->version_and_length != IPV4_WITHOUT_OPTIONS || segment->fragment & __builtin_bswap16(PART) ||
	    segment->protocol != TCP)
		return TC_ACT_STOLEN;
	struct board *all = bpf_map_lookup_elem(&board, &zero);
	if (!all)
		return TC_ACT_STOLEN;
	struct flow *flow = flow_of(all, segment->from_port);
	// Not the total length of IP, which is 0 in packets above 64 KiB.
	u32 heads = IP_BYTES + (segment->length >> 4) * 4;
	if (length < heads)
		return TC_ACT_STOLEN;
	u32 sequence = __builtin_bswap32(segment->sequence);
	u8 flags = segment->flags;

	if ((flags & (SYN | ACK)) == SYN) {
		begin(flow, sequence + 1);
		return TC_ACT_OK;
	}
	if (flags & RST)
		flow->ended |= 2;
	else
		note(flow, sequence, length - heads, flags);
	return TC_ACT_STOLEN;
}

// Of a tun device, whose packets have no frame.
SEC("classifier")
int steal(struct __sk_buff *packet)
{
	return take(packet, 0);
}

// Of a device with frames of Ethernet.
SEC("classifier")
int steal_framed(struct __sk_buff *packet)
{
	return take(packet, ETHERNET_BYTES);
}

char LICENSE[] SEC("license") = "MIT";
