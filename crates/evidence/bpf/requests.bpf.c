// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Requests of io_uring that a process makes, by opcode, at the moment at which the kernel takes
// them (tp_btf, since Linux 6.3). `requests.bpf.o` beside this file is what the tests of the lab
// bring along.

#include "kernel.h"

#define OPCODES 64

// `crates/lab/tests/calls/requests.rs` reads it, as words in this order.
struct sums {
	u64 process;
	u64 requests[OPCODES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sums);
} sums SEC(".maps");

// A poller of the kernel's is a thread of the process that it works for.
SEC("tp_btf/io_uring_submit_req")
int submitted(u64 *arguments)
{
	struct io_kiocb *request = (void *)arguments[0];
	struct task_struct *task = bpf_get_current_task_btf();
	u32 zero = 0;
	struct sums *all = bpf_map_lookup_elem(&sums, &zero);
	u64 opcode = request->opcode;

	if (all && (u32)task->tgid == all->process && opcode < OPCODES)
		add(&all->requests[opcode], 1);
	return 0;
}

// bpf_probe_read_kernel is for programs of that licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
