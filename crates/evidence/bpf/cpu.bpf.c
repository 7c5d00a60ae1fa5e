// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Who used the CPUs within a window: every task at each switch, and interrupts on top of it.
// Tracepoints only (tp_btf). `cpu.bpf.o` beside this file is what the program brings along.

#include "kernel.h"

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_NOEXIST 1

static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;

struct task_struct___cpu {
	int pid;
	int tgid;
	u32 flags;
	char comm[16];
	struct task_struct___cpu *real_parent;
	struct task_struct___cpu *group_leader;
} CORE;

// `crates/evidence/src/cpu_accounts.rs` reads all of these as words in this order.

// Set from outside, by CLOCK_MONOTONIC. When it opens is the name of the window.
struct window {
	u64 from;
	u64 to;
};

struct who {
	u64 tid;
	u64 tgid;
	u64 parent; // the process that its process is a child of
	u64 flags;
	u64 name[2];
	u64 process[2]; // the name of its process
};

struct cpu {
	u64 window;          // that the sums are of
	u64 since;           // when the task that runs was switched to; 0 before any switch
	u64 soft;            // when a soft interrupt began, while there is one
	u64 hard;            // when an interrupt began outside of a soft one, while there is one
	u64 interrupts;      // ns of both on top of the task that runs
	u64 idle;            // ns of the idle task
	u64 idle_interrupts; // and what of them was interrupts
	u64 lost;            // ns of tasks for which the table had no room
	struct who who;      // the task that runs
};

struct task {
	u64 window;
	u64 ns;
	u64 interrupts;
	struct who who;
};

struct maker {
	u64 tid;
	u64 tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window);
} sums SEC(".maps");

// As many as there can be CPUs, when it is loaded.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct task);
} tasks SEC(".maps");

// Who started a thread or a process.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct maker);
} makers SEC(".maps");

INLINE struct window *the_window(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sums, &zero);
}

INLINE struct cpu *this_cpu(void)
{
	u32 number = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &number);
}

// What lies within the window.
INLINE u64 within(u64 opens, u64 closes, u64 from, u64 to)
{
	if (from < opens)
		from = opens;
	if (to > closes)
		to = closes;
	return to > from ? to - from : 0;
}

INLINE void begin_anew(struct cpu *cpu, u64 opens)
{
	if (cpu->window == opens)
		return;
	cpu->window = opens;
	cpu->interrupts = 0;
	cpu->idle = 0;
	cpu->idle_interrupts = 0;
	cpu->lost = 0;
}

INLINE void note(struct who *who, struct task_struct___cpu *task)
{
	struct task_struct___cpu *leader = task->group_leader;

	who->tid = (u32)task->pid;
	who->tgid = (u32)task->tgid;
	who->parent = (u32)task->real_parent->tgid;
	who->flags = task->flags;
	who->name[0] = *(u64 *)&task->comm[0];
	who->name[1] = *(u64 *)&task->comm[8];
	who->process[0] = *(u64 *)&leader->comm[0];
	who->process[1] = *(u64 *)&leader->comm[8];
}

INLINE void credit(struct cpu *cpu, u64 opens, struct task_struct___cpu *ran, u64 ns)
{
	u32 tid = ran->pid;
	struct task *task;

	if (!tid) {
		cpu->idle += ns;
		cpu->idle_interrupts += cpu->interrupts;
		return;
	}
	task = bpf_map_lookup_elem(&tasks, &tid);
	if (!task) {
		struct task first = {};

		bpf_map_update_elem(&tasks, &tid, &first, BPF_NOEXIST);
		task = bpf_map_lookup_elem(&tasks, &tid);
	}
	if (!task) {
		cpu->lost += ns;
		return;
	}
	if (task->window != opens) {
		task->window = opens;
		task->ns = 0;
		task->interrupts = 0;
	}
	task->ns += ns;
	task->interrupts += cpu->interrupts;
	note(&task->who, ran);
}

// bool preempt, struct task_struct *prev, struct task_struct *next
SEC("tp_btf/sched_switch")
int sched_switch(u64 *arguments)
{
	struct task_struct___cpu *before = (void *)arguments[1];
	struct task_struct___cpu *after = (void *)arguments[2];
	struct window *window = the_window();
	struct cpu *cpu = this_cpu();
	u64 now = bpf_ktime_get_ns();

	if (!window || !cpu)
		return 0;
	u64 opens = window->from;
	begin_anew(cpu, opens);
	// Who ran when nobody looked yet has run since before any window.
	u64 ns = within(opens, window->to, cpu->since, now);
	if (ns)
		credit(cpu, opens, before, ns);
	cpu->interrupts = 0;
	cpu->soft = 0;
	cpu->hard = 0;
	note(&cpu->who, after);
	// Last, since who finds a later time here takes the sums for whole.
	__asm__ volatile("" ::: "memory");
	cpu->since = now;
	return 0;
}

// struct task_struct *parent, struct task_struct *child
SEC("tp_btf/sched_process_fork")
int sched_process_fork(u64 *arguments)
{
	struct task_struct___cpu *parent = (void *)arguments[0];
	struct task_struct___cpu *child = (void *)arguments[1];
	struct maker maker = { (u32)parent->pid, (u32)parent->tgid };
	u32 tid = child->pid;

	bpf_map_update_elem(&makers, &tid, &maker, 0);
	return 0;
}

INLINE void took(struct cpu *cpu, u64 since)
{
	struct window *window = the_window();
	u64 now = bpf_ktime_get_ns();

	if (!window)
		return;
	u64 opens = window->from;
	begin_anew(cpu, opens);
	cpu->interrupts += within(opens, window->to, since, now);
}

SEC("tp_btf/softirq_entry")
int softirq_entry(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->soft = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_exit(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (cpu && cpu->soft) {
		took(cpu, cpu->soft);
		cpu->soft = 0;
	}
	return 0;
}

INLINE int hard_begins(void)
{
	struct cpu *cpu = this_cpu();

	// One within a soft interrupt is in its time.
	if (cpu && !cpu->soft)
		cpu->hard = bpf_ktime_get_ns();
	return 0;
}

INLINE int hard_ends(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu && cpu->hard) {
		took(cpu, cpu->hard);
		cpu->hard = 0;
	}
	return 0;
}

#define INTERRUPT(name)                                                  \
	SEC("tp_btf/" #name "_entry") int name##_entry(u64 *arguments)   \
	{                                                                \
		return hard_begins();                                    \
	}                                                                \
	SEC("tp_btf/" #name "_exit") int name##_exit(u64 *arguments)     \
	{                                                                \
		return hard_ends();                                      \
	}

INTERRUPT(irq_handler)
// Of x86, whose timer and calls between CPUs are no handlers' interrupts.
INTERRUPT(local_timer)
INTERRUPT(reschedule)
INTERRUPT(call_function)
INTERRUPT(call_function_single)
// Of ARM.
INTERRUPT(ipi)

// What reads a task is for programs of that licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
