// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How a program moves its bytes: system calls and requests of io_uring of chosen processes, of their
// threads and of all that they start, summed by call, descriptors and flags, with the time on a CPU
// within each. Tracepoints only (tp_btf), of x86-64. `profile.bpf.o` beside this file is what the
// program brings along.

#include "kernel.h"

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_NOEXIST 1

static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static u64 (*bpf_ktime_get_coarse_ns)(void) = (void *)160;

// Called from several places: inlined they would be as many copies.
#define FUNCTION static __attribute__((noinline))

#define CALLS 512
#define WAYS 1024
#define LENGTHS 32
// A call that begins so soon after the one before it follows it.
#define FOLLOWS_NS 20000
// How long a delayed acknowledgement waits, with what a busy machine adds.
#define DELAYED_LEAST_NS 35000000
#define DELAYED_MOST_NS 80000000
// Of so many bytes a message is more than segments that wait for one acknowledgement.
#define DELAYED_MOST_BYTES 65536
#define LARGE_FILE (1 << 20)

// Classes of calls, as `crates/evidence/src/profile/calls.rs` numbers them.
#define OTHER 0
#define READS 1
#define WRITES 2
#define MOVES 3
#define WAITS 4
#define SEEKS 5
#define CLOSES 6
#define READS_MANY 7
#define WRITES_MANY 8
#define NAMED 9
// Calls without a name are counted together.
#define OTHER_CALLS (CALLS - 1)

// A row of the table of calls; arguments are counted from 1, and 0 is none.
struct call {
	u8 class;
	u8 from;
	u8 to;
	u8 flags;  // the argument that has flags
	u8 length; // the argument that has the wanted length
	u8 offset; // the argument that has the position in a file
	u8 is_splice;
	u8 pad;
};

// What a descriptor is: its type, marks, and its file system or device in the upper half.
#define IS_FILE 1
#define IS_BLOCK 2
#define IS_CHAR 3
#define IS_PIPE 4
#define IS_TCP 5
#define IS_UDP 6
#define IS_UNIX 7
#define IS_SOCKET 8
#define IS_OTHER 9
#define IS_DIRECTORY 10
#define LOOPBACK (1 << 8)
#define REMOTE (1 << 9)
#define LARGE (1 << 10)
#define DIRECT (1 << 11)

// Flags of a call that matter.
#define ZEROCOPY 1
#define MORE 2
#define DONTWAIT 4
#define ERRQUEUE 8

struct key {
	u64 from;
	u64 to;
	u16 number; // of the system call, or opcode of a request
	u16 flags;
	u32 is_request;
};

// `crates/evidence/src/profile/counts.rs` reads it, as words in this order.
struct counts {
	u64 calls;
	u64 bytes;
	u64 ns;     // from entry to return
	u64 cpu_ns; // of that on a CPU
	u64 again;  // EAGAIN
	u64 invalid;  // EINVAL
	u64 no_buffers; // ENOBUFS
	u64 failed; // all other errors
	u64 follows; // calls soon after one of the same way on the same descriptor
	u64 follow_bytes;
	u64 delayed; // replies that came 40 ms after two or more writes in a row of little
	u64 delayed_ns;
	u64 notified; // zero-copy messages whose completion was read
	u64 notified_copied; // of these, copied after all
	u64 one_at_a_time; // zero-copy messages sent when none was under way, after others
	u64 sequential; // reads that begin where the one before ended
	u64 copied; // bytes of packets in memory of the kernel's own, or copied to the reader
	u64 pinned; // bytes of packets that are pages of the sender's
	u64 pages;  // bytes of packets that are pages of a file or a pipe
	u64 lengths[LENGTHS]; // by power of two of what was returned
};

struct thread {
	u64 entered; // when its call began; 0 is in no call
	u64 number;
	u64 off;     // since when it is off its CPU within the call
	u64 waited;  // off the CPU within the call
	u64 on;      // since when it is on a CPU
	u64 copied;  // to its memory within the call
	u64 left;    // of what it has read last, not yet written
	u64 read_way; // and by which way
	u64 read_from; // and from which descriptor
	u64 read_at;   // and when
};

struct place {
	u32 process;
	u32 descriptor;
};

// What is known of an open descriptor.
struct state {
	u64 file;
	u64 used; // when it was used last
	u64 kind;
	u64 socket;
	u32 number; // the call of `way`
	u32 flags;
	u32 way;    // the last, and 1 more
	u32 writes; // since it was last read
	u64 wrote;  // the end of the last write
	u64 written; // bytes since it was last read
	u64 next;   // position after the last read
	u32 seeked;
	u32 messages; // sent without copying
	u32 under_way; // of these
	u32 zero_copy_way; // and 1 more
};

struct totals {
	u64 cpu_ns;
	u64 calls;
	u64 processes; // that came
	u64 lost;      // calls for which a map had no room
	u64 compat;    // calls of 32-bit programs
	u64 mapped_pages; // of files, mapped by faults
	u64 faults;
};

#define OPEN 1
#define OPEN_AT_EXEC 2 // as soon as one of the processes executes a program

struct control {
	u64 since;   // what was seen before then may have changed unseen
	u64 is_open; // 0, or one of the states above
};

struct pair {
	u64 calls;
	u64 bytes;
};

struct request {
	u64 began;
	u64 process;
};

#define MAP(name, kind, k, v, n)       \
	struct {                       \
		__uint(type, kind);    \
		__uint(max_entries, n); \
		__type(key, k);        \
		__type(value, v);      \
	} name SEC(".maps")

MAP(calls, BPF_MAP_TYPE_ARRAY, u32, struct call, CALLS);
MAP(requests, BPF_MAP_TYPE_ARRAY, u32, struct call, 128);
MAP(given, BPF_MAP_TYPE_ARRAY, u32, u64, 1); // numbers of ways so far
MAP(control, BPF_MAP_TYPE_ARRAY, u32, struct control, 1);
MAP(processes, BPF_MAP_TYPE_HASH, u32, u64, 16384);
MAP(threads, BPF_MAP_TYPE_HASH, u32, struct thread, 32768);
MAP(states, BPF_MAP_TYPE_LRU_HASH, struct place, struct state, 65536);
MAP(ways, BPF_MAP_TYPE_HASH, struct key, u32, WAYS);
MAP(counted, BPF_MAP_TYPE_PERCPU_ARRAY, u32, struct counts, WAYS);
MAP(totals, BPF_MAP_TYPE_PERCPU_ARRAY, u32, struct totals, 1);
MAP(pairs, BPF_MAP_TYPE_HASH, u32, struct pair, 4096);
MAP(sockets, BPF_MAP_TYPE_LRU_HASH, u64, u32, 65536);
MAP(in_flight, BPF_MAP_TYPE_LRU_HASH, u64, struct request, 65536);

// Of x86-64 alone.
struct pt_regs {
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
} CORE;

struct thread_info {
	u32 status;
} CORE;

#define TS_COMPAT 2

struct task_struct___more {
	int pid;
	struct thread_info thread_info;
} CORE;

struct file___more {
	void *private_data;
} CORE;

struct inode___more {
	u32 i_rdev;
	s64 i_size;
} CORE;

struct socket {
	struct sock *sk;
} CORE;

struct in6_addr {
	u32 words[4];
};

struct sock_common___more {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} CORE;

struct sock___more {
	u16 sk_type;
	u16 sk_protocol;
} CORE;

#define S_IFMT 0170000
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

INLINE u32 tid_of(struct task_struct *task)
{
	return ((struct task_struct___more *)task)->pid;
}

INLINE struct thread *known(struct task_struct *task)
{
	u32 tid = tid_of(task);

	return bpf_map_lookup_elem(&threads, &tid);
}

INLINE struct totals *sums(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&totals, &zero);
}

INLINE struct control *controls(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

INLINE struct counts *counts_of(u32 way)
{
	return bpf_map_lookup_elem(&counted, &way);
}

INLINE void lose(void)
{
	struct totals *all = sums();

	if (all)
		all->lost++;
}

INLINE u64 argument(struct pt_regs *regs, u8 at)
{
	switch (at) {
	case 1:
		return regs->di;
	case 2:
		return regs->si;
	case 3:
		return regs->dx;
	case 4:
		return regs->r10;
	case 5:
		return regs->r8;
	case 6:
		return regs->r9;
	default:
		return 0;
	}
}

INLINE u32 power_of(u64 n)
{
	u32 power = 0;

	if (n >> 31)
		return LENGTHS - 1;
	if (n >> 16) {
		power += 16;
		n >>= 16;
	}
	if (n >> 8) {
		power += 8;
		n >>= 8;
	}
	if (n >> 4) {
		power += 4;
		n >>= 4;
	}
	if (n >> 2) {
		power += 2;
		n >>= 2;
	}
	return power + (n >> 1 ? 1 : 0);
}

// The number of a way, which it gets when it is first seen; WAYS if there is no room.
FUNCTION u32 way_of(struct key *key)
{
	u32 *found = bpf_map_lookup_elem(&ways, key);

	if (found)
		return *found;
	u32 zero = 0;
	u64 *next = bpf_map_lookup_elem(&given, &zero);
	if (!next || *next >= WAYS)
		return WAYS;
	u32 number = (u32)__sync_fetch_and_add(next, 1);
	if (number >= WAYS)
		return WAYS;
	// Another CPU may have been first: its number counts, and ours stays unused.
	if (bpf_map_update_elem(&ways, key, &number, BPF_NOEXIST)) {
		found = bpf_map_lookup_elem(&ways, key);
		return found ? *found : WAYS;
	}
	return number;
}

INLINE int is_loopback(u32 address)
{
	return (address & 0xff) == 127;
}

// Marks of a connected socket; none of one that is connected to nobody.
INLINE u64 end_of(struct sock *sk, u16 family)
{
	struct sock_common___more *common = (void *)&sk->__sk_common;
	struct in6_addr to = {}, from = {};
	u32 address = 0, own = 0;

	if (family == AF_INET) {
		if (!READ(address, common->skc_daddr) || !READ(own, common->skc_rcv_saddr) || !address)
			return 0;
		return is_loopback(address) || address == own ? LOOPBACK : REMOTE;
	}
	if (!READ(to, common->skc_v6_daddr) || !READ(from, common->skc_v6_rcv_saddr))
		return 0;
	if (!to.words[0] && !to.words[1] && !to.words[2] && !to.words[3])
		return 0;
	if (!to.words[0] && !to.words[1] && to.words[2] == 0xffff0000 && is_loopback(to.words[3]))
		return LOOPBACK;
	if (!to.words[0] && !to.words[1] && !to.words[2] && to.words[3] == 0x01000000)
		return LOOPBACK;
	int is_own = to.words[0] == from.words[0] && to.words[1] == from.words[1] &&
		     to.words[2] == from.words[2] && to.words[3] == from.words[3];
	return is_own ? LOOPBACK : REMOTE;
}

INLINE u64 kind_of_socket(struct file *file, u64 *socket_of)
{
	struct socket *socket = 0;
	struct sock *sk = 0;
	struct sock___more *more;
	u16 family = 0, type = 0, protocol = 0;

	if (!READ(socket, ((struct file___more *)file)->private_data) || !socket ||
	    !READ(sk, socket->sk) || !sk)
		return IS_SOCKET;
	more = (void *)sk;
	if (!READ(family, ((struct sock_common___more *)&sk->__sk_common)->skc_family) ||
	    !READ(type, more->sk_type) || !READ(protocol, more->sk_protocol))
		return IS_SOCKET;
	*socket_of = (u64)sk;
	if (family == AF_UNIX)
		return IS_UNIX | LOOPBACK;
	if (family != AF_INET && family != AF_INET6)
		return IS_SOCKET | ((u64)family << 32);
	if (type == 1 && (protocol == 6 || protocol == 0 || protocol == 262))
		return IS_TCP | end_of(sk, family);
	if (type == 2 && (protocol == 17 || protocol == 0))
		return IS_UDP | end_of(sk, family);
	return IS_SOCKET | ((u64)family << 32) | end_of(sk, family);
}

FUNCTION u64 kind_of(struct file *file, u64 *socket)
{
	struct inode *inode = 0;
	struct super_block *super = 0;
	struct inode___more *more;
	unsigned long magic = 0;
	u32 device = 0, flags = 0;
	s64 size = 0;
	u16 mode = 0;

	if (!READ(inode, file->f_inode) || !READ(mode, inode->i_mode) || !READ(flags, file->f_flags))
		return 0;
	more = (void *)inode;
	u64 direct = flags & O_DIRECT ? DIRECT : 0;
	switch (mode & S_IFMT) {
	case 0100000:
		if (!READ(super, inode->i_sb) || !READ(magic, super->s_magic) || !READ(size, more->i_size))
			return IS_FILE | direct;
		return IS_FILE | direct | (size >= LARGE_FILE ? LARGE : 0) | (u64)magic << 32;
	case 0060000:
		return IS_BLOCK | direct | LARGE;
	case 0020000:
		if (!READ(device, more->i_rdev))
			return IS_CHAR;
		return IS_CHAR | (u64)device << 32;
	case 0010000:
		return IS_PIPE | LOOPBACK;
	case 0140000:
		return kind_of_socket(file, socket);
	case 0040000:
		return IS_DIRECTORY;
	default:
		return IS_OTHER;
	}
}

INLINE struct file *opened(struct task_struct *task, u64 descriptor)
{
	struct files_struct *files = task->files;
	struct file *file = 0;

	if (!files)
		return 0;
	struct fdtable *table = files->fdt;
	if (descriptor >= table->max_fds)
		return 0;
	struct file **slot = table->fd + descriptor;
	return bpf_probe_read_kernel(&file, sizeof(file), slot) ? 0 : file;
}

// What is known of a descriptor, looked up once as long as it stays open.
FUNCTION struct state *state_of(struct task_struct *task, u64 descriptor, u64 now, u64 since)
{
	struct place place = { .process = task->tgid, .descriptor = (u32)descriptor };
	struct file *file = opened(task, (u32)descriptor);
	struct state *state = bpf_map_lookup_elem(&states, &place);

	if (!file)
		return 0;
	if (state && state->file == (u64)file && state->used >= since) {
		state->used = now;
		// A socket that was not connected may be by now.
		u8 type = (u8)state->kind;
		if ((type != IS_TCP && type != IS_UDP) || (state->kind & (LOOPBACK | REMOTE)))
			return state;
		u64 again = kind_of(file, &state->socket);
		if (again != state->kind) {
			state->kind = again;
			state->way = 0;
		}
		return state;
	}
	struct state fresh = { .file = (u64)file, .used = now };
	fresh.kind = kind_of(file, &fresh.socket);
	if (bpf_map_update_elem(&states, &place, &fresh, 0))
		return 0;
	return bpf_map_lookup_elem(&states, &place);
}

INLINE void forget(struct task_struct *task, u64 descriptor)
{
	struct place place = { .process = task->tgid, .descriptor = (u32)descriptor };

	bpf_map_delete_elem(&states, &place);
}

INLINE u16 flags_of(u64 flags, int is_splice)
{
	if (is_splice)
		return flags & 4 ? MORE : 0;
	return (flags & 0x4000000 ? ZEROCOPY : 0) | (flags & 0x8000 ? MORE : 0) |
	       (flags & 0x40 ? DONTWAIT : 0) | (flags & 0x2000 ? ERRQUEUE : 0);
}

INLINE void note_result(struct counts *of, s64 result, u64 bytes)
{
	of->calls++;
	if (result >= 0) {
		of->bytes += bytes;
		u64 length = bytes ? bytes : (u64)result;
		if (length)
			of->lengths[power_of(length) & (LENGTHS - 1)]++;
	} else if (result == -11) {
		of->again++;
	} else if (result == -22) {
		of->invalid++;
	} else if (result == -105) {
		of->no_buffers++;
	} else {
		of->failed++;
	}
}

// What came of zero-copy messages: the first control message of recvmsg(2) with MSG_ERRQUEUE.
FUNCTION void note_completion(struct state *state, u64 header)
{
	struct {
		u64 length;
		int level;
		int type;
		u32 error;
		u8 origin;
		u8 pad;
		u8 code;
		u8 more;
		u32 first;
		u32 last;
	} message = {};
	u64 control = 0;

	if (!state->zero_copy_way ||
	    bpf_probe_read_user(&control, sizeof(control), (void *)(header + 32)) || !control ||
	    bpf_probe_read_user(&message, sizeof(message), (void *)control) || message.origin != 5)
		return;
	struct counts *of = counts_of(state->zero_copy_way - 1);
	if (!of)
		return;
	u32 n = message.last - message.first + 1;
	of->notified += n;
	if (message.code & 1)
		of->notified_copied += n;
	state->under_way = state->under_way > n ? state->under_way - n : 0;
}

// The bytes of sendmmsg(2) and recvmmsg(2), which return how many messages they moved.
FUNCTION u64 bytes_of_many(u64 messages, s64 n)
{
	u64 bytes = 0;

	for (int at = 0; at < 64; at++) {
		u32 length = 0;
		if (at >= n)
			break;
		if (bpf_probe_read_user(&length, sizeof(length), (void *)(messages + at * 64 + 56)))
			break;
		bytes += length;
	}
	return n > 64 ? bytes / 64 * (u64)n : bytes;
}

INLINE void note_pair(struct thread *thread, u32 way, u64 bytes)
{
	u32 both = (u32)thread->read_way << 16 | way;
	struct pair *pair = bpf_map_lookup_elem(&pairs, &both);

	if (!pair) {
		struct pair none = {};
		bpf_map_update_elem(&pairs, &both, &none, BPF_NOEXIST);
		pair = bpf_map_lookup_elem(&pairs, &both);
	}
	if (!pair) {
		lose();
		return;
	}
	add(&pair->calls, 1);
	add(&pair->bytes, bytes);
}

SEC("tp_btf/sys_enter")
int entered(u64 *arguments)
{
	struct pt_regs *regs = (void *)arguments[0];
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = known(task);
	u32 number = (u32)arguments[1];

	if (!thread)
		return 0;
	struct control *set = controls();
	struct totals *all = sums();
	if (!set || !all)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (!thread->on)
		thread->on = now;
	thread->entered = 0;
	if (((struct task_struct___more *)task)->thread_info.status & TS_COMPAT) {
		all->compat++;
		return 0;
	}
	struct call *call = bpf_map_lookup_elem(&calls, &number);
	if (call && call->class == CLOSES)
		forget(task, argument(regs, call->from));
	if (set->is_open != OPEN)
		return 0;
	all->calls++;
	thread->number = number;
	thread->waited = 0;
	thread->off = 0;
	thread->copied = 0;
	thread->entered = now;
	return 0;
}

INLINE void note_write(struct thread *thread, struct state *state, struct counts *of, struct key *key,
		       u32 way, u64 began, u64 now, u64 wanted, u64 descriptor, s64 result)
{
	if (result <= 0)
		return;
	if (state->wrote && state->way == way + 1 && state->writes && began - state->wrote < FOLLOWS_NS) {
		of->follows++;
		of->follow_bytes += result;
	}
	state->writes++;
	state->written += result;
	state->wrote = now;
	if (key->flags & ZEROCOPY) {
		if (state->messages && !state->under_way)
			of->one_at_a_time++;
		state->messages++;
		state->under_way++;
		state->zero_copy_way = way + 1;
	}
	if (thread->left && thread->read_from != descriptor &&
	    (wanted == thread->left || (u64)result == thread->left)) {
		note_pair(thread, way, result);
		thread->left -= (u64)result < thread->left ? (u64)result : thread->left;
	} else {
		thread->left = 0;
	}
	if (state->socket && state->way != way + 1 && (u8)state->kind == IS_TCP)
		bpf_map_update_elem(&sockets, &state->socket, &way, 0);
}

INLINE void note_read(struct thread *thread, struct state *state, struct counts *of, u32 way, u64 now,
		      u64 offset, int has_offset, u64 descriptor, s64 result)
{
	if (result <= 0)
		return;
	if (state->writes >= 2 && state->wrote && state->written < DELAYED_MOST_BYTES) {
		u64 since = now - state->wrote;
		if (since >= DELAYED_LEAST_NS && since <= DELAYED_MOST_NS) {
			of->delayed++;
			of->delayed_ns += since;
		}
	}
	state->writes = 0;
	state->written = 0;
	if (has_offset ? offset == state->next && state->next : state->next && !state->seeked)
		of->sequential++;
	state->seeked = 0;
	state->next = has_offset ? offset + result : state->next + result;
	thread->left = result;
	thread->read_way = way;
	thread->read_from = descriptor;
	thread->read_at = now;
}

SEC("tp_btf/sys_exit")
int returned(u64 *arguments)
{
	struct pt_regs *regs = (void *)arguments[0];
	s64 result = (s64)arguments[1];
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = known(task);

	if (!thread || !thread->entered)
		return 0;
	struct control *set = controls();
	u64 began = thread->entered;
	if (!set || began < set->since) {
		thread->entered = 0;
		return 0;
	}
	u64 now = bpf_ktime_get_ns();
	if (thread->read_at < set->since)
		thread->left = 0;
	u64 elapsed = now - began;
	u64 cpu = elapsed > thread->waited ? elapsed - thread->waited : 0;
	u32 number = (u32)thread->number;
	struct call *call = bpf_map_lookup_elem(&calls, &number);
	u8 class = call ? call->class : OTHER;
	struct key key = { .number = class == OTHER ? OTHER_CALLS : (u16)number };
	struct state *from = 0, *to = 0;
	u32 way = WAYS;
	u64 bytes = 0;

	thread->entered = 0;
	if (call && class != OTHER && class != CLOSES && class != WAITS && class != NAMED) {
		if (call->from) {
			from = state_of(task, argument(regs, call->from), now, set->since);
			if (from)
				key.from = from->kind;
		}
		if (call->to) {
			to = state_of(task, argument(regs, call->to), now, set->since);
			if (to)
				key.to = to->kind;
		}
		if (call->flags)
			key.flags = flags_of(argument(regs, call->flags), call->is_splice);
		if (class == SEEKS) {
			if (from)
				from->seeked = 1;
		} else if (result > 0) {
			bytes = class == READS_MANY || class == WRITES_MANY ?
					bytes_of_many(argument(regs, 2), result) :
					(u64)result;
		}
	}
	struct state *only = from && !to ? from : to && !from ? to : 0;
	if (only && only->way && only->number == number && only->flags == key.flags)
		way = only->way - 1;
	else
		way = way_of(&key);
	struct counts *of = counts_of(way);
	if (!of) {
		lose();
		return 0;
	}
	note_result(of, result, bytes);
	of->ns += elapsed;
	of->cpu_ns += cpu;
	of->copied += thread->copied;
	if (class == READS && from) {
		if (key.flags & ERRQUEUE) {
			if (result >= 0)
				note_completion(from, argument(regs, 2));
			return 0;
		}
		note_read(thread, from, of, way, now, argument(regs, call->offset), call->offset != 0,
			  argument(regs, call->from), result);
	} else if (class == WRITES && to) {
		note_write(thread, to, of, &key, way, began, now, argument(regs, call->length),
			   argument(regs, call->to), result);
	} else if (class == MOVES && to && result > 0) {
		to->writes++;
		to->written += result;
		to->wrote = now;
		if (to->socket && to->way != way + 1 && (u8)to->kind == IS_TCP)
			bpf_map_update_elem(&sockets, &to->socket, &way, 0);
		to->way = way + 1;
		to->number = CALLS;
	}
	if (only) {
		only->number = number;
		only->flags = key.flags;
		only->way = way + 1;
	}
	return 0;
}

// bool preempt, struct task_struct *prev, struct task_struct *next
SEC("tp_btf/sched_switch")
int switched(u64 *arguments)
{
	struct thread *before = known((void *)arguments[1]);

	if (before) {
		struct control *set = controls();
		struct totals *all = sums();
		u64 now = bpf_ktime_get_ns();
		if (before->on && all && set && set->is_open == OPEN)
			all->cpu_ns += now - before->on;
		before->on = 0;
		before->off = now;
	}
	struct thread *after = known((void *)arguments[2]);
	if (after) {
		u64 now = bpf_ktime_get_ns();
		if (after->off)
			after->waited += now - after->off;
		after->off = 0;
		after->on = now;
	}
	return 0;
}

// struct task_struct *parent, struct task_struct *child
SEC("tp_btf/sched_process_fork")
int forked(u64 *arguments)
{
	struct task_struct *parent = (void *)arguments[0];
	struct task_struct *child = (void *)arguments[1];
	struct thread fresh = {};
	u32 tid = tid_of(child), process = child->tgid;
	u64 one = 1;

	if (!known(parent))
		return 0;
	if (bpf_map_update_elem(&threads, &tid, &fresh, 0))
		lose();
	if (tid == process) {
		struct totals *all = sums();
		if (all)
			all->processes++;
		bpf_map_update_elem(&processes, &process, &one, 0);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int exited(u64 *arguments)
{
	struct task_struct *task = (void *)arguments[0];
	struct thread *thread = known(task);
	u32 tid = tid_of(task);

	if (!thread)
		return 0;
	struct totals *all = sums();
	struct control *set = controls();
	if (thread->on && all && set && set->is_open == OPEN)
		all->cpu_ns += bpf_ktime_get_ns() - thread->on;
	bpf_map_delete_elem(&threads, &tid);
	if (tid == (u32)task->tgid)
		bpf_map_delete_elem(&processes, &tid);
	return 0;
}

// struct task_struct *task, pid_t old_pid, struct linux_binprm *
SEC("tp_btf/sched_process_exec")
int executed(u64 *arguments)
{
	struct task_struct *task = (void *)arguments[0];
	u32 old = (u32)arguments[1], tid = tid_of(task);
	struct thread *thread = bpf_map_lookup_elem(&threads, &old);

	struct control *set = controls();

	if (!thread)
		return 0;
	if (set && set->is_open == OPEN_AT_EXEC)
		set->is_open = OPEN;
	if (old == tid)
		return 0;
	// A thread that executes takes the number of the process's first.
	struct thread moved = *thread;
	bpf_map_update_elem(&threads, &tid, &moved, 0);
	bpf_map_delete_elem(&threads, &old);
	return 0;
}

SEC("tp_btf/page_fault_user")
int faulted(u64 *arguments)
{
	struct thread *thread = known(bpf_get_current_task_btf());
	struct totals *all = thread ? sums() : 0;
	struct control *set = controls();

	if (all && set && set->is_open == OPEN)
		all->faults++;
	return 0;
}

// struct address_space *, pgoff_t first, pgoff_t last (since Linux 6.13)
SEC("tp_btf/mm_filemap_map_pages")
int mapped(u64 *arguments)
{
	struct thread *thread = known(bpf_get_current_task_btf());
	struct totals *all = thread ? sums() : 0;
	struct control *set = controls();
	u64 first = arguments[1], last = arguments[2];

	if (all && set && set->is_open == OPEN && last >= first)
		all->mapped_pages += last - first + 1;
	return 0;
}

// Bytes copied to a reader, within its call.
SEC("tp_btf/skb_copy_datagram_iovec")
int copied(u64 *arguments)
{
	struct thread *thread = known(bpf_get_current_task_btf());

	if (thread)
		thread->copied += (u32)arguments[1];
	return 0;
}

// How the bytes of a packet are held, of the way that last sent on its socket.
SEC("tp_btf/net_dev_queue")
int queued(u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct seen seen = {};
	u64 sk = (u64)skb->sk;
	struct control *set = controls();

	if (!sk || !set || set->is_open != OPEN)
		return 0;
	u32 *way = bpf_map_lookup_elem(&sockets, &sk);
	if (!way)
		return 0;
	struct counts *of = counts_of(*way);
	if (!of || !look(skb, &seen) || !seen.payload)
		return 0;
	if (seen.flags & SKBFL_ZEROCOPY_ENABLE)
		of->pinned += seen.payload;
	else if (seen.flags & SKBFL_SHARED_FRAG)
		of->pages += seen.payload;
	else
		of->copied += seen.payload;
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int submitted(u64 *arguments)
{
	u64 request = arguments[0];
	struct task_struct *task = bpf_get_current_task_btf();
	struct control *set = controls();
	u32 process = task->tgid;

	if (!set || set->is_open != OPEN || !bpf_map_lookup_elem(&processes, &process))
		return 0;
	// A poller of the kernel's was not forked by the process that it works for.
	if (!known(task)) {
		struct thread fresh = {};
		u32 tid = tid_of(task);
		bpf_map_update_elem(&threads, &tid, &fresh, 0);
	}
	struct request began = { .began = bpf_ktime_get_ns(), .process = process };
	bpf_map_update_elem(&in_flight, &request, &began, 0);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int completed(u64 *arguments)
{
	struct io_kiocb *request = (void *)arguments[1];
	u64 number = (u64)request, socket = 0;
	struct request *begun = bpf_map_lookup_elem(&in_flight, &number);
	struct key key = { .is_request = 1 };
	struct file *file = 0;
	int result = 0;
	u8 code = 0;

	if (!begun)
		return 0;
	if (!HAS(request->cqe) || !READ(result, request->cqe.res) || !READ(code, request->opcode)) {
		lose();
		return 0;
	}
	u32 at = code;
	struct call *call = bpf_map_lookup_elem(&requests, &at);
	u64 kind = 0;
	if (READ(file, request->file) && file)
		kind = kind_of(file, &socket);
	key.number = code;
	u8 class = call ? call->class : OTHER;
	if (class == READS)
		key.from = kind;
	else if (class == WRITES || class == MOVES)
		key.to = kind;
	u32 way = way_of(&key);
	struct counts *of = counts_of(way);
	if (!of) {
		lose();
		return 0;
	}
	int moves = class == READS || class == WRITES || class == MOVES;
	note_result(of, result, moves && result > 0 ? (u64)result : 0);
	of->ns += bpf_ktime_get_ns() - begun->began;
	if (class == WRITES && socket)
		bpf_map_update_elem(&sockets, &socket, &way, 0);
	bpf_map_delete_elem(&in_flight, &number);
	return 0;
}

// bpf_probe_read_kernel is for programs of that licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
