// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How each byte of a TCP connection got to where it is: summed by the packet's own flags at the
// moments at which they tell; and bytes of files by what system calls and requests of io_uring
// returned. Tracepoints only (tp_btf), which work where fentry and kprobes are refused.
// `copies.bpf.o` beside this file is what the program brings along; `make bpf` builds it and `make
// check` compares the two.

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
	u64 to_file;           // from its memory or another file's pages to the page cache
	u64 unseen_from;       // requests of which it is not known what they copy out of the page cache
	u64 unseen_to;         // and into it
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

// `again`: TCP has sent it before, and what was copied then is not copied another time. What is
// pinned is: a reader on this machine gets a copy of each packet that arrives.
INLINE void note(struct held *held, struct sk_buff *skb, int again)
{
	struct seen seen = {};

	if (!look(skb, &seen) || !seen.payload)
		return;
	add(&held->packets, 1);
	if (seen.flags & SKBFL_ZEROCOPY_ENABLE)
		add(&held->pinned, seen.payload);
	else if (seen.flags & SKBFL_SHARED_FRAG)
		add(&held->pages, seen.payload);
	else if (!again)
		add(&held->copied, seen.payload);
}

// Only while a packet is being sent: the socket goes on to the next byte after that.
INLINE int is_sent_again(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct tcp_sock *socket = (void *)sk;
	u8 *transport = skb->head + skb->transport_header;
	u32 sequence = 0, next = 0;

	if (!sk || !READ(next, socket->snd_nxt) ||
	    bpf_probe_read_kernel(&sequence, sizeof(sequence), transport + 4))
		return 0;
	return (int)(__builtin_bswap32(sequence) - next) < 0;
}

SEC("tp_btf/net_dev_queue")
int queued(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();

	if (all && sends_to(skb->sk, all->port, all->network))
		note(&all->sent, skb, is_sent_again(skb));
	return 0;
}

// Over `wire` a packet ends here, before it is queued.
SEC("tp_btf/consume_skb")
int consumed(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();

	if (all && sends_to(skb->sk, all->port, all->network))
		note(&all->taken, skb, 0);
	return 0;
}

SEC("tp_btf/tcp_probe")
int arrived(u64 *arguments)
{
	struct sock *sk = (void *)arguments[0];
	struct sk_buff *skb = (void *)arguments[1];
	struct sums *all = found();

	if (all && is_at(sk, all->port))
		note(&all->delivered, skb, 0);
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

// Of x86-64 alone: elsewhere a system call's number and arguments are kept otherwise, and this
// program is not loaded.
struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long orig_ax;
} CORE;

#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_DAX (1 << 13)
#define SPLICE_F_FD_IN_FIXED (1U << 31)

// What a request does to the bytes of a file.
#define COPIES 1  // reading and writing copies them
#define TAKEN 2   // splicing out of it hands its pages over and copies nothing
#define UNKNOWN 4 // who knows

// File systems that splice out of the page cache without a copy (linux/magic.h). All others may
// have a way of their own: an overlay's is that of the file below.
INLINE int gives_pages(unsigned long magic)
{
	switch (magic) {
	case 0xef53:     // ext2 to ext4
	case 0x58465342: // xfs
	case 0x9123683e: // btrfs
	case 0xf2f52010: // f2fs
	case 0x01021994: // tmpfs
	case 0x858458f6: // ramfs
		return 1;
	default:
		return 0;
	}
}

// Those that do not go through the page cache after all when a request is to pass it by: btrfs
// does so for what has checksums, tmpfs always.
INLINE int passes_by(unsigned long magic)
{
	return magic == 0xef53 || magic == 0x58465342 || magic == 0xf2f52010;
}

// What the kernel tells as files has no pages.
INLINE int is_told(unsigned long magic)
{
	switch (magic) {
	case 0x9fa0:     // proc
	case 0x62656572: // sysfs
	case 0x27e0eb:   // cgroup
	case 0x63677270: // cgroup2
	case 0x74726163: // tracefs
	case 0x64626720: // debugfs
		return 1;
	default:
		return 0;
	}
}

INLINE int kind(struct file *file)
{
	struct inode *inode = 0;
	struct super_block *super = 0;
	unsigned long magic = 0;
	u32 flags = 0, inode_flags = 0;
	u16 mode = 0;

	if (!file || !READ(inode, file->f_inode) || !READ(mode, inode->i_mode))
		return UNKNOWN;
	if ((mode & S_IFMT) != S_IFREG)
		return TAKEN;
	if (!READ(flags, file->f_flags) || !READ(inode_flags, inode->i_flags) ||
	    !READ(super, inode->i_sb) || !READ(magic, super->s_magic))
		return UNKNOWN;
	if (is_told(magic))
		return TAKEN;
	// Files in memory that the CPU writes to itself are no pages that could be handed over.
	int is_dax = inode_flags & S_DAX;
	if (flags & O_DIRECT)
		return passes_by(magic) && !is_dax ? TAKEN : UNKNOWN;
	return COPIES | (gives_pages(magic) && !is_dax ? TAKEN : 0);
}

INLINE struct file *opened(struct task_struct *task, u64 descriptor)
{
	struct fdtable *table = task->files->fdt;
	struct file **slot = 0;
	struct file *file = 0;

	if (descriptor >= table->max_fds)
		return 0;
	slot = table->fd + descriptor;
	return bpf_probe_read_kernel(&file, sizeof(file), slot) ? 0 : file;
}

INLINE void out_of(struct sums *all, struct file *file, u64 bytes)
{
	int of = kind(file);

	if (of & UNKNOWN)
		add(&all->unseen_from, 1);
	else if (of & COPIES)
		add(&all->from_file, bytes);
}

INLINE void into(struct sums *all, struct file *file, u64 bytes)
{
	int of = kind(file);

	if (of & UNKNOWN)
		add(&all->unseen_to, 1);
	else if (of & COPIES)
		add(&all->to_file, bytes);
}

INLINE void taken_from(struct sums *all, struct file *file)
{
	if (!(kind(file) & TAKEN))
		add(&all->unseen_from, 1);
}

INLINE void unseen(struct sums *all)
{
	add(&all->unseen_from, 1);
	add(&all->unseen_to, 1);
}

// Whether copy_file_range(2) splices: neither file system has a way of its own.
INLINE int is_spliced(struct file *from, struct file *to)
{
	struct file_operations *of_from = 0, *of_to = 0;
	void *shares = 0, *copies = 0;

	return from && to && READ(of_from, from->f_op) && READ(of_to, to->f_op) &&
	       READ(shares, of_from->remap_file_range) && READ(copies, of_to->copy_file_range) &&
	       !shares && !copies;
}

SEC("tp_btf/sys_exit")
int returned(u64 *arguments)
{
	struct pt_regs *regs = (void *)arguments[0];
	s64 bytes = (s64)arguments[1];
	struct sums *all = found();
	struct file *from = 0;
	struct file *to = 0;

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
		out_of(all, opened(task, regs->di), bytes);
		return 0;
	case 1:   // write
	case 18:  // pwrite64
	case 20:  // writev
	case 296: // pwritev
	case 328: // pwritev2
		into(all, opened(task, regs->di), bytes);
		return 0;
	case 40: // sendfile
		to = opened(task, regs->di);
		from = opened(task, regs->si);
		break;
	case 275: // splice
		from = opened(task, regs->di);
		to = opened(task, regs->dx);
		break;
	case 326: // copy_file_range
		from = opened(task, regs->di);
		to = opened(task, regs->dx);
		if (is_spliced(from, to))
			break;
		unseen(all);
		return 0;
	case 209: // io_submit
		unseen(all);
		return 0;
	default:
		return 0;
	}
	taken_from(all, from);
	into(all, to, bytes);
	return 0;
}

// A request of io_uring is over: the numbers of linux/io_uring.h.
SEC("tp_btf/io_uring_complete")
int ringed(u64 *arguments)
{
	struct io_kiocb *request = (void *)arguments[1];
	struct io_splice *splice = (void *)request;
	struct sums *all = found();
	struct file *file = 0;
	u32 splice_flags = 0;
	int bytes = 0, descriptor = 0;
	u8 code = 0;

	if (!all)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!works_for(task, all->worker))
		return 0;
	// A completion more of a request that goes on has no request here.
	if (!HAS(request->cqe) || !READ(bytes, request->cqe.res) || !READ(code, request->opcode) ||
	    !READ(file, request->file)) {
		unseen(all);
		return 0;
	}
	if (bytes <= 0)
		return 0;
	switch (code) {
	case 1:  // READV
	case 4:  // READ_FIXED
	case 22: // READ
	case 60: // READV_FIXED
		out_of(all, file, bytes);
		return 0;
	case 2:  // WRITEV
	case 5:  // WRITE_FIXED
	case 23: // WRITE
	case 61: // WRITEV_FIXED
		into(all, file, bytes);
		return 0;
	case 30: // SPLICE
		into(all, file, bytes);
		if (!HAS(splice->splice_fd_in) || !READ(descriptor, splice->splice_fd_in) ||
		    !READ(splice_flags, splice->flags) || (splice_flags & SPLICE_F_FD_IN_FIXED))
			add(&all->unseen_from, 1);
		else
			taken_from(all, opened(task, descriptor));
		return 0;
	default:
		// What else moves bytes moves none of a file.
		if (file && !(kind(file) & TAKEN))
			unseen(all);
		return 0;
	}
}

// bpf_probe_read_kernel is for programs of that licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
