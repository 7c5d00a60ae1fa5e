// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the programs of this folder share: the interface to the kernel, and what little they need of
// its structures. Fields are found by name when an object is loaded (CO-RE), so that no header of a
// kernel is included.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define CORE __attribute__((preserve_access_index))

// Of the interface to user space, linux/bpf.h.
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_F_MMAPABLE (1U << 10)

// Each object uses some of them.
#pragma clang diagnostic ignored "-Wunused-variable"
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-parameter"
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5; // CLOCK_MONOTONIC
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static long (*bpf_get_func_ret)(void *arguments, u64 *result) = (void *)184;

// Flags of a packet's shared info, include/linux/skbuff.h (since Linux 5.14).
#define SKBFL_ZEROCOPY_ENABLE 1 // pinned pages of the sender's memory
#define SKBFL_SHARED_FRAG 2     // pages that others may write to: of a file, or of a pipe

struct ns_common {
	u32 inum; // of its file in /proc
} CORE;

struct net {
	struct ns_common ns;
} CORE;

typedef struct {
	struct net *net;
} CORE possible_net_t;

struct sock_common {
	u16 skc_num;   // own port, host order
	u16 skc_dport; // the peer's, network order
	possible_net_t skc_net;
} CORE;

struct sock {
	struct sock_common __sk_common;
} CORE;

struct tcp_sock {
	u32 snd_nxt; // of the first byte that was never sent
} CORE;

struct sk_buff {
	u32 len;
	u32 data_len;
	u32 end;
	u16 transport_header;
	u8 *head;
	u8 *data;
	struct sock *sk;
} CORE;

struct skb_shared_info {
	u8 flags;
	u16 gso_segs;
} CORE;

struct super_block {
	unsigned long s_magic;
} CORE;

struct inode {
	u16 i_mode;
	u32 i_flags;
	struct super_block *i_sb;
} CORE;

struct file_operations {
	void *copy_file_range;
	void *remap_file_range;
} CORE;

struct file {
	u32 f_flags;
	struct inode *f_inode;
	struct file_operations *f_op;
} CORE;

// Since Linux 5.19; a request had its result elsewhere before.
struct io_cqe {
	int res;
} CORE;

struct io_kiocb {
	struct file *file;
	u8 opcode;
	struct io_cqe cqe;
} CORE;

struct io_splice {
	int splice_fd_in;
	u32 flags;
} CORE;

struct fdtable {
	u32 max_fds;
	struct file **fd;
} CORE;

struct files_struct {
	struct fdtable *fdt;
} CORE;

struct task_struct {
	int tgid;
	struct task_struct *real_parent;
	struct files_struct *files;
} CORE;

#define O_DIRECT 040000

// Whether this kernel's structure has that field; what is read of one that it has not may only
// stand behind this.
#define HAS(field) __builtin_preserve_field_info(field, 2)

// What a place in memory of the kernel holds; true where it can be read.
#define READ(to, from) (!bpf_probe_read_kernel(&(to), sizeof(to), &(from)))

// Several CPUs count at the same time.
INLINE void add(u64 *sum, u64 n)
{
	__sync_fetch_and_add(sum, n);
}

// A packet of TCP whose transport header is where its sender put it.
struct seen {
	u64 payload;
	u16 to; // port, host order
	u16 segments;
	u8 flags; // of its shared info
};

// False where it could not be read.
INLINE int look(struct sk_buff *skb, struct seen *seen)
{
	u8 *head = skb->head;
	u8 *transport = head + skb->transport_header;
	u8 length = 0;
	u16 to = 0;

	if (bpf_probe_read_kernel(&length, sizeof(length), transport + 12))
		return 0;
	if (bpf_probe_read_kernel(&to, sizeof(to), transport + 2))
		return 0;
	struct skb_shared_info *shared = (struct skb_shared_info *)(head + skb->end);
	if (bpf_probe_read_kernel(&seen->flags, sizeof(seen->flags), &shared->flags))
		return 0;
	if (bpf_probe_read_kernel(&seen->segments, sizeof(seen->segments), &shared->gso_segs))
		return 0;
	u64 before = (u64)(transport - skb->data) + (length >> 4) * 4;
	seen->payload = skb->len > before ? skb->len - before : 0;
	seen->to = __builtin_bswap16(to);
	return 1;
}

// The port is the sender's own, who listens, and not the receiver's.
#define OF_SENDER (1 << 16)

// Whether a connected socket of this network namespace, or of any, sends to this port; no port is
// nobody's.
INLINE int sends_to(struct sock *sk, u64 port, u64 network)
{
	if (!sk || !port)
		return 0;
	struct sock_common *of = &sk->__sk_common;
	u64 found = port & OF_SENDER ? of->skc_num | OF_SENDER : __builtin_bswap16(of->skc_dport);
	return found == port && (!network || of->skc_net.net->ns.inum == network);
}

INLINE int is_at(struct sock *sk, u64 port)
{
	if (!sk || !port)
		return 0;
	struct sock_common *of = &sk->__sk_common;
	return port == (port & OF_SENDER ? __builtin_bswap16(of->skc_dport) | OF_SENDER : of->skc_num);
}

// Whether a task is of that process, or of one that it has started, or that such a one has: a child
// of a server is the third.
INLINE int works_for(struct task_struct *task, u64 process)
{
	if (!process)
		return 0;
	if ((u32)task->tgid == process)
		return 1;
	task = task->real_parent;
	if ((u32)task->tgid == process)
		return 1;
	return (u32)task->real_parent->tgid == process;
}
