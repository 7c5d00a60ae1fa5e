// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Bytes through the functions of the kernel that copy them, as these return (fexit, since Linux
// 5.5 on x86-64; bpf_get_func_ret since 5.17). Exact, and dearer than the tracepoints of
// copies.bpf.c. `functions.bpf.o` beside this file is what the program brings along.

#include "kernel.h"

// `crates/evidence/src/copies/functions.rs` reads it, as words in this order.
struct sums {
	u64 port;       // the receiver's, set before bytes move
	u64 network;    // the sender's namespace; 0 is any
	u64 worker;     // the process that sends, or works on a file
	u64 reader;     // the process that receives, where there is no port
	u64 sent;       // taken in by tcp_sendmsg, or by a Unix socket
	u64 pinned;     // of these, by pinning the sender's pages
	u64 spliced;    // of these, by taking pages over
	u64 delivered;  // copied since a reader may not hold pages of the sender's
	u64 read;       // copied to the reader's memory
	u64 from_file;  // from the page cache to memory
	u64 to_file;    // and back
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

// What a function that counts bytes returned; 0 where it failed. An int comes in 64 bits of which
// the upper may be anything.
INLINE u64 result(u64 *arguments)
{
	u64 value = 0;

	if (bpf_get_func_ret(arguments, &value))
		return 0;
	s64 bytes = (s64)value;
	return bytes > 0 ? bytes : 0;
}

INLINE u64 result_int(u64 *arguments)
{
	u64 value = 0;

	if (bpf_get_func_ret(arguments, &value))
		return 0;
	s64 bytes = (s64)(int)value;
	return bytes > 0 ? bytes : 0;
}

// Whether one that returns 0 where all went well did.
INLINE int went_well(u64 *arguments)
{
	u64 value = 1;

	return !bpf_get_func_ret(arguments, &value) && (int)value == 0;
}

INLINE int is_workers(struct sums *all)
{
	return works_for(bpf_get_current_task_btf(), all->worker);
}

// int tcp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)
SEC("fexit/tcp_sendmsg")
int sent(u64 *arguments)
{
	struct sock *sk = (void *)arguments[0];
	struct sums *all = found();

	if (all && sends_to(sk, all->port, all->network))
		add(&all->sent, result_int(arguments));
	return 0;
}

// int skb_zerocopy_iter_stream(struct sock *sk, struct sk_buff *skb, ...)
SEC("fexit/skb_zerocopy_iter_stream")
int pinned(u64 *arguments)
{
	struct sock *sk = (void *)arguments[0];
	struct sums *all = found();

	if (all && sends_to(sk, all->port, all->network))
		add(&all->pinned, result_int(arguments));
	return 0;
}

// ssize_t skb_splice_from_iter(struct sk_buff *skb, struct iov_iter *iter, ...), since Linux 6.5;
// before, pages did not come through tcp_sendmsg.
SEC("fexit/skb_splice_from_iter")
int spliced(u64 *arguments)
{
	struct sums *all = found();

	if (all && is_workers(all))
		add(&all->spliced, result(arguments));
	return 0;
}

// int skb_copy_datagram_from_iter(struct sk_buff *skb, int offset, struct iov_iter *from, int len)
SEC("fexit/skb_copy_datagram_from_iter")
int sent_unix(u64 *arguments)
{
	u32 bytes = (u32)arguments[3];
	struct sums *all = found();

	if (all && !all->port && is_workers(all) && went_well(arguments))
		add(&all->sent, bytes);
	return 0;
}

// int skb_copy_ubufs(struct sk_buff *skb, gfp_t gfp_mask)
SEC("fexit/skb_copy_ubufs")
int delivered(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct sums *all = found();
	struct seen seen = {};

	// The packet has left its socket by then: its own header tells where it goes.
	if (!all || !all->port || !went_well(arguments) || !look(skb, &seen))
		return 0;
	if (seen.to == all->port)
		add(&all->delivered, skb->data_len);
	return 0;
}

INLINE void read_by(struct sums *all, struct sk_buff *skb, u32 bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_at(skb->sk, all->port) || (!all->port && works_for(task, all->reader)))
		add(&all->read, bytes);
}

// int skb_copy_datagram_iter(const struct sk_buff *skb, int offset, struct iov_iter *to, int len)
SEC("fexit/skb_copy_datagram_iter")
int read_packet(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	u32 bytes = (u32)arguments[3];
	struct sums *all = found();

	if (all && went_well(arguments))
		read_by(all, skb, bytes);
	return 0;
}

// size_t simple_copy_to_iter(const void *addr, size_t bytes, void *data, struct iov_iter *i), which
// the former copies with: in its place where that cannot be hooked.
SEC("fexit/simple_copy_to_iter")
int read_piece(u64 *arguments)
{
	struct sums *all = found();

	if (all && works_for(bpf_get_current_task_btf(), all->reader))
		add(&all->read, result(arguments));
	return 0;
}

// ssize_t filemap_read(struct kiocb *iocb, struct iov_iter *iter, ssize_t already_read)
SEC("fexit/filemap_read")
int from_file(u64 *arguments)
{
	u64 before = arguments[2];
	struct sums *all = found();

	if (!all || !is_workers(all))
		return 0;
	u64 bytes = result(arguments);
	if (bytes > before)
		add(&all->from_file, bytes - before);
	return 0;
}

// ssize_t shmem_file_read_iter(struct kiocb *iocb, struct iov_iter *to): files in memory.
SEC("fexit/shmem_file_read_iter")
int from_memory_file(u64 *arguments)
{
	struct sums *all = found();

	if (all && is_workers(all))
		add(&all->from_file, result(arguments));
	return 0;
}

// ssize_t generic_file_splice_read(struct file *in, ...), until Linux 6.4: it calls either of the
// two above, which then take pages over and copy nothing.
SEC("fexit/generic_file_splice_read")
int from_file_taken(u64 *arguments)
{
	struct sums *all = found();

	if (all && is_workers(all))
		add(&all->from_file, -result(arguments));
	return 0;
}

// ssize_t copy_splice_read(struct file *in, ...), since Linux 6.5: to new pages, where a file
// system does not give its own. Past the page cache the disk writes to them itself.
SEC("fexit/copy_splice_read")
int from_file_spliced(u64 *arguments)
{
	struct file *file = (void *)arguments[0];
	struct sums *all = found();

	if (all && is_workers(all) && !(file->f_flags & O_DIRECT))
		add(&all->from_file, result(arguments));
	return 0;
}

INLINE int written(u64 *arguments)
{
	struct sums *all = found();

	if (all && is_workers(all))
		add(&all->to_file, result(arguments));
	return 0;
}

// ssize_t generic_perform_write(struct kiocb *iocb, struct iov_iter *i)
SEC("fexit/generic_perform_write")
int to_file(u64 *arguments)
{
	return written(arguments);
}

// ssize_t iomap_file_buffered_write(struct kiocb *iocb, struct iov_iter *i, ...), of XFS and others.
SEC("fexit/iomap_file_buffered_write")
int to_file_iomap(u64 *arguments)
{
	return written(arguments);
}

// ssize_t btrfs_buffered_write(struct kiocb *iocb, struct iov_iter *i)
SEC("fexit/btrfs_buffered_write")
int to_file_btrfs(u64 *arguments)
{
	return written(arguments);
}

// ssize_t fuse_perform_write(struct kiocb *iocb, struct iov_iter *ii)
SEC("fexit/fuse_perform_write")
int to_file_fuse(u64 *arguments)
{
	return written(arguments);
}

// ssize_t fuse_fill_write_pages(struct fuse_io_args *ia, ...), which the former copies with.
SEC("fexit/fuse_fill_write_pages")
int to_file_fuse_piece(u64 *arguments)
{
	return written(arguments);
}

// ssize_t netfs_perform_write(struct kiocb *iocb, struct iov_iter *iter, ...), of CIFS and 9p.
SEC("fexit/netfs_perform_write")
int to_file_netfs(u64 *arguments)
{
	return written(arguments);
}

// bpf_probe_read_kernel is for programs of that licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
