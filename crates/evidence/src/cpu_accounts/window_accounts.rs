//! Sums of the BPF programs, folded into accounts by the user of each task.

use std::collections::BTreeMap;

use bytecost_spec::evidence::{CPU_USERS, CpuAccounts, CpuLine, CpuUser};

/// Words of `struct who` in `cpu.bpf.c`.
const WHO_WORDS: usize = 8;
/// Words of `struct cpu`, and the places of those before `who`.
pub(super) const CPU_WORDS: usize = 8 + WHO_WORDS;
pub(super) const SINCE: usize = 1;
const INTERRUPTS: usize = 4;
const IDLE: usize = 5;
const IDLE_INTERRUPTS: usize = 6;
const LOST: usize = 7;
/// Words of `struct task`: window, time, interrupts, `who`.
const TASK_WORDS: usize = 3 + WHO_WORDS;
pub(super) type CpuWords = [u64; CPU_WORDS];
pub(super) type TaskWords = [u64; TASK_WORDS];

/// Flags of a task (include/linux/sched.h).
const PF_IO_WORKER: u64 = 0x10;
const PF_KTHREAD: u64 = 0x20_0000;

/// Threads of a side, those that work for it, and its children.
const OF_SENDER: [CpuUser; 3] = [
    CpuUser::SenderThreads,
    CpuUser::SenderWorkers,
    CpuUser::SenderChildren,
];
const OF_RECEIVER: [CpuUser; 3] = [
    CpuUser::ReceiverThreads,
    CpuUser::ReceiverWorkers,
    CpuUser::ReceiverChildren,
];

/// Processes from one to its ancestor that is asked for, at most.
const MOST_ANCESTORS: usize = 32;
/// Lines that name a part of one user; the rest of it is one line.
const MOST_NAMED: usize = 8;
/// Kernel threads of one purpose that have several names.
const KERNEL_THREADS: &[&str] = &["rcu"];

/// The processes with an account of their own, each with those that it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountedProcesses {
    /// The process that keeps the accounts. What else it has started is the instrument.
    pub coordinator: u32,
    /// The sending process, or the clients.
    pub sender: u32,
    /// The receiving process or the server, where there is one.
    pub receiver: Option<u32>,
    /// The process that is the background load, where there is one.
    pub background: Option<u32>,
    /// True if the first thread of each side's process only controls the others.
    pub controlled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Maker {
    pub(super) thread: u32,
    pub(super) process: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    tid: u32,
    process: u32,
    parent: u32,
    flags: u64,
    name: String,
    process_name: String,
    ns: u64,
    interrupts_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct WindowAccounts {
    elapsed_ns: u64,
    cpus: u32,
    idle_ns: u64,
    idle_interrupts_ns: u64,
    lost_ns: u64,
    tasks: Vec<Task>,
    makers: BTreeMap<u32, Maker>,
}

/// The numbers of a task and of its process, at the end of words.
pub(super) fn numbers(words: &[u64]) -> [u32; 2] {
    let who = &words[words.len() - WHO_WORDS..];
    [who[0] as u32, who[1] as u32]
}

fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Task {
    fn new(who: &[u64], ns: u64, interrupts_ns: u64) -> Task {
        Task {
            tid: who[0] as u32,
            process: who[1] as u32,
            parent: who[2] as u32,
            flags: who[3],
            name: text(&who[4..6]),
            process_name: text(&who[6..8]),
            ns,
            interrupts_ns: interrupts_ns.min(ns),
        }
    }
}

impl WindowAccounts {
    /// Without what is of another window; what runs at its end is not yet in its task's sum.
    pub(super) fn new(
        (from_ns, to_ns): (u64, u64),
        cpus: &[CpuWords],
        tasks: BTreeMap<u32, TaskWords>,
        makers: BTreeMap<u32, Maker>,
    ) -> WindowAccounts {
        let mut seen = WindowAccounts {
            elapsed_ns: to_ns - from_ns,
            cpus: cpus.len() as u32,
            makers,
            ..WindowAccounts::default()
        };
        let own = tasks.values().filter(|words| words[0] == from_ns);
        let task = |words: &TaskWords| Task::new(&words[3..], words[1], words[2]);
        seen.tasks = own.map(task).collect();
        for words in cpus {
            let is_own = words[0] == from_ns;
            let sum = |at: usize| if is_own { words[at] } else { 0 };
            seen.idle_ns += sum(IDLE);
            seen.idle_interrupts_ns += sum(IDLE_INTERRUPTS);
            seen.lost_ns += sum(LOST);
            let since_ns = words[SINCE];
            // Without any switch it is not known who runs.
            if since_ns == 0 || since_ns >= to_ns {
                continue;
            }
            let ns = to_ns - since_ns.max(from_ns);
            let running = Task::new(&words[CPU_WORDS - WHO_WORDS..], ns, sum(INTERRUPTS));
            if running.tid == 0 {
                seen.idle_ns += ns;
                seen.idle_interrupts_ns += running.interrupts_ns;
                continue;
            }
            match seen.tasks.iter_mut().find(|t| t.tid == running.tid) {
                Some(task) => {
                    task.ns += ns;
                    task.interrupts_ns += running.interrupts_ns;
                }
                None => seen.tasks.push(running),
            }
        }
        seen
    }

    pub(super) fn accounts(&self, whose: &AccountedProcesses) -> CpuAccounts {
        if self.lost_ns > 0 {
            return CpuAccounts::absent(format!(
                "more tasks ran than the table has room for; {:.3} ms are of tasks that are not known",
                self.lost_ns as f64 / 1e6
            ));
        }
        let mut sums: BTreeMap<(CpuUser, String), (u64, u64)> = BTreeMap::new();
        for task in &self.tasks {
            let sum = sums.entry(self.user(task, whose)).or_default();
            sum.0 += task.ns;
            sum.1 += task.interrupts_ns;
        }
        let interrupts_ns = self.idle_interrupts_ns.min(self.idle_ns);
        let idle_ns = self.idle_ns - interrupts_ns;
        let nameless = |user, ns| ((user, String::new()), ns);
        sums.extend([
            nameless(CpuUser::Interrupts, (interrupts_ns, interrupts_ns)),
            nameless(CpuUser::Idle, (idle_ns, 0)),
        ]);
        let lines = lines(sums);
        let used: u64 = lines.iter().map(|l| l.ns).sum();
        CpuAccounts {
            elapsed_ns: self.elapsed_ns,
            cpus: self.cpus,
            left_over_ns: (self.elapsed_ns * u64::from(self.cpus)) as i64 - used as i64,
            lines,
            refused: None,
        }
    }

    fn user(&self, task: &Task, whose: &AccountedProcesses) -> (CpuUser, String) {
        if task.flags & PF_KTHREAD != 0 {
            let known = KERNEL_THREADS.iter().find(|n| task.name.starts_with(**n));
            // `kworker/u8:2` and `ksoftirqd/1`: which of them it is does not matter.
            let name = known
                .copied()
                .or_else(|| task.name.split('/').next())
                .unwrap_or_default();
            return (CpuUser::KernelThreads, name.to_owned());
        }
        let nameless = |user| (user, String::new());
        let mut at = task.process;
        for _ in 0..MOST_ANCESTORS {
            let [threads, workers, children] = match at {
                at if at == whose.sender => OF_SENDER,
                at if Some(at) == whose.receiver => OF_RECEIVER,
                at if Some(at) == whose.background => return nameless(CpuUser::Background),
                at if at == whose.coordinator => return nameless(CpuUser::Instrument),
                _ => {
                    let Some(parent) = self.parent(at) else { break };
                    at = parent;
                    continue;
                }
            };
            let maker = self.makers.get(&task.tid);
            return if at != task.process {
                (children, task.process_name.clone())
            } else if task.flags & PF_IO_WORKER != 0 {
                // `iou-wrk-` and the number of the thread that it works for.
                let kind = task.name.trim_end_matches(|c: char| c.is_ascii_digit());
                (workers, kind.trim_end_matches('-').to_owned())
            } else if task.tid == task.process {
                nameless(if whose.controlled {
                    CpuUser::Instrument
                } else {
                    threads
                })
            } else if maker.is_some_and(|m| m.process == at && m.thread != at) {
                (workers, task.name.clone())
            } else {
                nameless(threads)
            };
        }
        (CpuUser::OtherProcesses, task.process_name.clone())
    }

    /// The process that started one: as it was seen to, else whose child it is now.
    fn parent(&self, process: u32) -> Option<u32> {
        let started = self.makers.get(&process).map(|m| m.process);
        let now = || {
            let mut own = self.tasks.iter().filter(|t| t.process == process);
            own.next().map(|t| t.parent)
        };
        started.or_else(now).filter(|p| *p != 0 && *p != process)
    }
}

/// The largest of each user by name, and the rest of them together.
fn lines(sums: BTreeMap<(CpuUser, String), (u64, u64)>) -> Vec<CpuLine> {
    let mut all: Vec<CpuLine> = Vec::new();
    for row in CPU_USERS {
        let mut lines: Vec<CpuLine> = (sums.iter())
            .filter(|((user, _), _)| *user == row.user)
            .map(|((user, name), (ns, interrupts_ns))| CpuLine {
                user: *user,
                name: name.clone(),
                ns: *ns,
                interrupts_ns: *interrupts_ns,
            })
            .collect();
        lines.sort_by(|a, b| (b.ns, &a.name).cmp(&(a.ns, &b.name)));
        let small = lines.split_off(lines.len().min(MOST_NAMED));
        all.extend(lines);
        if !small.is_empty() {
            all.push(CpuLine {
                user: row.user,
                name: String::new(),
                ns: small.iter().map(|l| l.ns).sum(),
                interrupts_ns: small.iter().map(|l| l.interrupts_ns).sum(),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests;
