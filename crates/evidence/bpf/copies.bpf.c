// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How each byte of a TCP connection, or of a flow of UDP, got to where it is: summed by the packet's
// own flags at the moments at which they tell; and bytes of files by what system calls returned.
// Tracepoints only (tp_btf), which work where fentry and kprobes are refused. `copies.bpf.o` beside
// this file is what the program brings along; `make bpf` builds it and `make check` compares the
// two.

#include "kernel.h"

// Bytes by how they are held in a packet.
struct held {
	u64 copied; // in memory of the kernel's own
	u64 pinned;
	u64 pages;
	u64 packets;
};

// `crates/evidence/src/copies/packets.rs` reads it, as words in this order.
struct sums {
	u64 port;              // the receiver's, set before bytes move
	u64 network;           // the sender's namespace; 0 is any
	u64 worker;            // the process that works on a file
	struct held sent;      // as the sender handed it to a device
	struct held taken;     // as a device without a receiver freed it
	struct held delivered; // as it came to the receiver's TCP
	u64 read;              // copied to the reader's memory
	u64 from_file;         // from the page cache to the worker's memory
	u64 to_file;           // and back
	u64 unseen;            // requests that system calls do not tell the bytes of
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sums);
} sums SEC(".maps");

INLINE struct sums *found(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sums, &zero);
}

INLINE void note(struct held *held, struct sk_buff *skb)
{
	struct seen seen = {};

	if (!look(skb, &seen) || !seen.payload)
		return;
	add(&held->packets, 1);
	if (seen.flags & SKBFL_ZEROCOPY_ENABLE)
		add(&held->pinned, seen.payload);
	else if (seen.flags & SKBFL_SHARED_FRAG)
		add(&held->pages, seen.payload);
	else
		add(&held->copied, seen.payload);
}

SEC("tp_btf/net_dev_queue")
int queued(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();

	if (all && sends_to(skb->sk, all->port, all->network))
		note(&all->sent, skb);
	return 0;
}

// Over `wire` a packet ends here, before it is queued.
SEC("tp_btf/consume_skb")
int consumed(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();

	if (all && sends_to(skb->sk, all->port, all->network))
		note(&all->taken, skb);
	return 0;
}

SEC("tp_btf/tcp_probe")
int arrived(u64 *arguments)
{
	struct sock *sk = (void *)arguments[0];
	struct sk_buff *skb = (void *)arguments[1];
	struct sums *all = found();

	if (all && is_at(sk, all->port))
		note(&all->delivered, skb);
	return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int copied(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();

	if (all && is_at(skb->sk, all->port))
		add(&all->read, (u32)arguments[1]);
	return 0;
}

// Of x86-64 alone: elsewhere a system call's number and first argument are kept otherwise, and
// this program is not loaded.
struct pt_regs {
	unsigned long di;
	unsigned long orig_ax;
} CORE;

#define S_IFMT 0170000
#define S_IFREG 0100000
#define O_DIRECT 040000

// Whether a descriptor of the current task is of a regular file whose bytes go through the page
// cache.
INLINE int is_cached_file(struct task_struct *task, u64 descriptor)
{
	struct fdtable *table = task->files->fdt;
	struct file **slot = 0;
	struct file *file = 0;
	struct inode *inode = 0;
	u32 flags = 0;
	u16 mode = 0;

	if (descriptor >= table->max_fds)
		return 0;
	slot = table->fd + descriptor;
	if (bpf_probe_read_kernel(&file, sizeof(file), slot) || !file)
		return 0;
	if (bpf_probe_read_kernel(&flags, sizeof(flags), &file->f_flags))
		return 0;
	if (bpf_probe_read_kernel(&inode, sizeof(inode), &file->f_inode))
		return 0;
	if (bpf_probe_read_kernel(&mode, sizeof(mode), &inode->i_mode))
		return 0;
	return (mode & S_IFMT) == S_IFREG && !(flags & O_DIRECT);
}

SEC("tp_btf/sys_exit")
int returned(u64 *arguments)
{
	struct pt_regs *regs = (void *)arguments[0];
	s64 bytes = (s64)arguments[1];
	struct sums *all = found();
	u64 *sum = 0;

	if (!all || bytes <= 0)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!works_for(task, all->worker))
		return 0;
	switch (regs->orig_ax) {
	case 0:   // read
	case 17:  // pread64
	case 19:  // readv
	case 295: // preadv
	case 327: // preadv2
		sum = &all->from_file;
		break;
	case 1:   // write
	case 18:  // pwrite64
	case 20:  // writev
	case 296: // pwritev
	case 328: // pwritev2
	case 40:  // sendfile, to a file
		sum = &all->to_file;
		break;
	case 326: // copy_file_range, which each file system does in its own way
	case 209: // io_submit
		add(&all->unseen, 1);
		return 0;
	default:
		return 0;
	}
	if (is_cached_file(task, regs->di))
		add(sum, bytes);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int ringed(u64 *arguments)
{
	struct sums *all = found();

	if (all && works_for(bpf_get_current_task_btf(), all->worker))
		add(&all->unseen, 1);
	return 0;
}

// bpf_probe_read_kernel is for programs of that licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
