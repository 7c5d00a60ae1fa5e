// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What moving messages takes besides bytes: counts by side, at tracepoints (tp_btf).
// `events.bpf.o` beside this file is what the program brings along.

#include "kernel.h"

// `crates/evidence/src/events.rs` reads it, as words in this order.
struct side {
	u64 calls;
	u64 switches;
	u64 wakeups;
	u64 faults;
	u64 flushes;
};

struct packets {
	u64 packets;  // with payload, to the port
	u64 segments; // that they are of, as the wire would have them
	u64 acknowledgements;
};

struct sums {
	u64 port;      // the receiver's
	u64 network;   // the sender's namespace; 0 is any
	u64 process[2]; // the sending and the receiving process
	u64 from;      // counted is what happens from then on
	u64 to;        // and before then, by CLOCK_MONOTONIC
	struct side side[2];
	struct packets sent;  // as they were handed to a device
	u64 retransmits;
	struct packets taken; // as a device freed them
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

INLINE int is_open(struct sums *all)
{
	u64 now = bpf_ktime_get_ns();

	return now >= all->from && now < all->to;
}

// The side that a task works for within the window, if it does for any.
INLINE struct side *side_of(struct sums *all, struct task_struct *task)
{
	if (works_for(task, all->process[0]))
		return is_open(all) ? &all->side[0] : 0;
	if (works_for(task, all->process[1]))
		return is_open(all) ? &all->side[1] : 0;
	return 0;
}

SEC("tp_btf/sys_enter")
int called(u64 *arguments)
{
	struct sums *all = found();
	struct side *side = all ? side_of(all, bpf_get_current_task_btf()) : 0;

	if (side)
		add(&side->calls, 1);
	return 0;
}

// bool preempt, struct task_struct *prev, struct task_struct *next
SEC("tp_btf/sched_switch")
int switched(u64 *arguments)
{
	struct task_struct *before = (void *)arguments[1];
	struct sums *all = found();
	struct side *side = all ? side_of(all, before) : 0;

	if (side)
		add(&side->switches, 1);
	return 0;
}

SEC("tp_btf/sched_waking")
int woken(u64 *arguments)
{
	struct task_struct *task = (void *)arguments[0];
	struct sums *all = found();
	struct side *side = all ? side_of(all, task) : 0;

	if (side)
		add(&side->wakeups, 1);
	return 0;
}

SEC("tp_btf/page_fault_user")
int faulted(u64 *arguments)
{
	struct sums *all = found();
	struct side *side = all ? side_of(all, bpf_get_current_task_btf()) : 0;

	if (side)
		add(&side->faults, 1);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int faulted_in_kernel(u64 *arguments)
{
	struct sums *all = found();
	struct side *side = all ? side_of(all, bpf_get_current_task_btf()) : 0;

	if (side)
		add(&side->faults, 1);
	return 0;
}

SEC("tp_btf/tlb_flush")
int flushed(u64 *arguments)
{
	struct sums *all = found();
	struct side *side = all ? side_of(all, bpf_get_current_task_btf()) : 0;

	if (side)
		add(&side->flushes, 1);
	return 0;
}

// To the port with payload, and from it without.
INLINE void count(struct sums *all, struct packets *of, struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct seen seen = {};
	int to = sends_to(sk, all->port, all->network);

	if ((!to && !is_at(sk, all->port)) || !is_open(all))
		return;
	if (!look(skb, &seen))
		return;
	if (to && seen.payload) {
		add(&of->packets, 1);
		add(&of->segments, seen.segments > 1 ? seen.segments : 1);
	} else if (!to && !seen.payload) {
		add(&of->acknowledgements, 1);
	}
}

SEC("tp_btf/net_dev_queue")
int queued(u64 *arguments)
{
	struct sums *all = found();

	if (all)
		count(all, &all->sent, (void *)arguments[0]);
	return 0;
}

// Over `wire` a packet ends here, before it is queued.
SEC("tp_btf/consume_skb")
int consumed(u64 *arguments)
{
	struct sums *all = found();

	if (all)
		count(all, &all->taken, (void *)arguments[0]);
	return 0;
}

// const struct sock *sk, const struct sk_buff *skb
SEC("tp_btf/tcp_retransmit_skb")
int again(u64 *arguments)
{
	struct sock *sk = (void *)arguments[0];
	struct sums *all = found();

	if (all && sends_to(sk, all->port, all->network) && is_open(all))
		add(&all->retransmits, 1);
	return 0;
}

// bpf_probe_read_kernel is for programs of that licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
