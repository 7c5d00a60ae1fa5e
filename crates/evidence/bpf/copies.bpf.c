// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How each byte of a TCP connection got to where it is: summed by the packet's own flags at the
// moments at which they tell. Tracepoints only (tp_btf), which work where fentry and kprobes are
// refused. `copies.bpf.o` beside this file is what the program brings along; `make bpf` builds it
// and `make check` compares the two. There are no includes: fields of the kernel's structures are
// found by name when the object is loaded (CO-RE).

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define CORE __attribute__((preserve_access_index))

// Of the interface to user space, linux/bpf.h.
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_F_MMAPABLE (1U << 10)

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

// Flags of a packet's shared info, include/linux/skbuff.h (since Linux 5.14).
#define SKBFL_ZEROCOPY_ENABLE 1 // pinned pages of the sender's memory
#define SKBFL_SHARED_FRAG 2     // pages that others may write to: of a file, or of a pipe

struct sock_common {
	u16 skc_num;   // own port, host order
	u16 skc_dport; // the peer's, network order
} CORE;

struct sock {
	struct sock_common __sk_common;
} CORE;

struct sk_buff {
	u32 len;
	u32 end;
	u16 transport_header;
	u8 *head;
	u8 *data;
	struct sock *sk;
} CORE;

struct skb_shared_info {
	u8 flags;
} CORE;

// Bytes by how they are held in a packet.
struct held {
	u64 copied; // in memory of the kernel's own
	u64 pinned;
	u64 pages;
	u64 packets;
};

// `crates/evidence/src/copies.rs` reads it, as words in this order.
struct sums {
	u64 port;              // the receiver's, set before anything is attached
	struct held sent;      // as the sender handed it to a device
	struct held taken;     // as a device without a receiver freed it
	struct held delivered; // as it came to the receiver's TCP
	u64 read;              // copied to the reader's memory
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sums);
} sums SEC(".maps");

static __attribute__((always_inline)) struct sums *found(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sums, &zero);
}

// Flows send at the same time from several CPUs.
static __attribute__((always_inline)) void add(u64 *sum, u64 n)
{
	__sync_fetch_and_add(sum, n);
}

// The payload of a packet of TCP, wherever its data begin, and its flags.
static __attribute__((always_inline)) void note(struct held *held, struct sk_buff *skb)
{
	u8 *head = skb->head;
	u8 *tcp = head + skb->transport_header;
	u8 flags = 0, length = 0;

	if (bpf_probe_read_kernel(&length, sizeof(length), tcp + 12))
		return;
	struct skb_shared_info *shared = (struct skb_shared_info *)(head + skb->end);
	if (bpf_probe_read_kernel(&flags, sizeof(flags), &shared->flags))
		return;
	u64 before = (u64)(tcp - skb->data) + (length >> 4) * 4;
	if (skb->len <= before)
		return;
	u64 payload = skb->len - before;
	add(&held->packets, 1);
	if (flags & SKBFL_ZEROCOPY_ENABLE)
		add(&held->pinned, payload);
	else if (flags & SKBFL_SHARED_FRAG)
		add(&held->pages, payload);
	else
		add(&held->copied, payload);
}

static __attribute__((always_inline)) int is_to(struct sk_buff *skb, u64 port)
{
	struct sock *sk = skb->sk;

	return sk && __builtin_bswap16(sk->__sk_common.skc_dport) == port;
}

SEC("tp_btf/net_dev_queue")
int queued(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();

	if (all && is_to(skb, all->port))
		note(&all->sent, skb);
	return 0;
}

// Over `wire` a packet ends here, before it is queued.
SEC("tp_btf/consume_skb")
int consumed(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();

	if (all && is_to(skb, all->port))
		note(&all->taken, skb);
	return 0;
}

SEC("tp_btf/tcp_probe")
int arrived(u64 *arguments)
{
	struct sock *sk = (void *)arguments[0];
	struct sk_buff *skb = (void *)arguments[1];
	struct sums *all = found();

	if (all && sk->__sk_common.skc_num == all->port)
		note(&all->delivered, skb);
	return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int copied(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();

	if (!all)
		return 0;
	struct sock *sk = skb->sk;
	if (sk && sk->__sk_common.skc_num == all->port)
		add(&all->read, (u32)arguments[1]);
	return 0;
}

// bpf_probe_read_kernel is for programs of that licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
