//! The sums of the BPF programs for a window, and their attribution to the users of the CPUs.

use std::collections::BTreeMap;

use bytecost_spec::evidence::{CPU_USERS, CpuAccounts, CpuLine, CpuUser};

/// Words of `struct who` in `cpu.bpf.c`.
const WHO_WORDS: usize = 8;
/// Words of `struct cpu`, and the indices of those before `who`.
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

/// The users of a side: its threads, the kernel's workers for it, and its child processes.
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

/// The most ancestors of a process that are searched for one with an account.
const MOST_ANCESTORS: usize = 32;
/// The most lines of one user that have a name; the remainder of the user is one line.
const MOST_NAMED: usize = 8;
/// Kernel threads of one purpose that have several names.
const KERNEL_THREADS: &[&str] = &["rcu"];

/// The range of a window in CLOCK_MONOTONIC; `to_ns` is `u64::MAX` while the end is not known.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowRange {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// The processes with an account, which includes the processes that they have started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountedProcesses {
    /// The process that keeps the accounts. Other processes that it has started count as the instrument.
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

/// The thread that created a task, and the process of that thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Creator {
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
    creators: BTreeMap<u32, Creator>,
}

/// The number of a task and that of its process, from `struct who` at the end of these words.
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
    /// Sums of other windows are left out. The sums of tasks that run at the end of the window are
    /// completed up to that end.
    pub(super) fn new(
        WindowRange { from_ns, to_ns }: WindowRange,
        cpus: &[CpuWords],
        tasks: BTreeMap<u32, TaskWords>,
        creators: BTreeMap<u32, Creator>,
    ) -> WindowAccounts {
        let mut accounts = WindowAccounts {
            elapsed_ns: to_ns - from_ns,
            cpus: cpus.len() as u32,
            creators,
            ..WindowAccounts::default()
        };
        let in_window = tasks.values().filter(|words| words[0] == from_ns);
        let from_words = |words: &TaskWords| Task::new(&words[3..], words[1], words[2]);
        accounts.tasks = in_window.map(from_words).collect();
        for words in cpus {
            let is_in_window = words[0] == from_ns;
            let sum = |index: usize| if is_in_window { words[index] } else { 0 };
            accounts.idle_ns += sum(IDLE);
            accounts.idle_interrupts_ns += sum(IDLE_INTERRUPTS);
            accounts.lost_ns += sum(LOST);
            let since_ns = words[SINCE];
            // The running task is unknown before the first switch.
            if since_ns == 0 || since_ns >= to_ns {
                continue;
            }
            let ns = to_ns - since_ns.max(from_ns);
            let running = Task::new(&words[CPU_WORDS - WHO_WORDS..], ns, sum(INTERRUPTS));
            if running.tid == 0 {
                accounts.idle_ns += ns;
                accounts.idle_interrupts_ns += running.interrupts_ns;
                continue;
            }
            match accounts.tasks.iter_mut().find(|t| t.tid == running.tid) {
                Some(task) => {
                    task.ns += ns;
                    task.interrupts_ns += running.interrupts_ns;
                }
                None => accounts.tasks.push(running),
            }
        }
        accounts
    }

    /// The CPU time of each user; absent if more tasks ran than the table has room for.
    pub(super) fn by_user(&self, processes: &AccountedProcesses) -> CpuAccounts {
        if self.lost_ns > 0 {
            return CpuAccounts::absent(format!(
                "more tasks ran than the table has room for; {:.3} ms are of tasks that are not known",
                self.lost_ns as f64 / 1e6
            ));
        }
        let mut sums: BTreeMap<(CpuUser, String), (u64, u64)> = BTreeMap::new();
        for task in &self.tasks {
            let sum = sums.entry(self.user(task, processes)).or_default();
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

    /// The user of a task, and its name on a line of that user; an empty one for the user as a whole.
    fn user(&self, task: &Task, processes: &AccountedProcesses) -> (CpuUser, String) {
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
        let mut ancestor = task.process;
        for _ in 0..MOST_ANCESTORS {
            let [threads, workers, children] = match ancestor {
                pid if pid == processes.sender => OF_SENDER,
                pid if Some(pid) == processes.receiver => OF_RECEIVER,
                pid if Some(pid) == processes.background => return nameless(CpuUser::Background),
                pid if pid == processes.coordinator => return nameless(CpuUser::Instrument),
                _ => {
                    let Some(parent) = self.parent(ancestor) else {
                        break;
                    };
                    ancestor = parent;
                    continue;
                }
            };
            let creator = self.creators.get(&task.tid);
            return if ancestor != task.process {
                (children, task.process_name.clone())
            } else if task.flags & PF_IO_WORKER != 0 {
                // `iou-wrk-` and the number of the thread that it works for.
                let kind = task.name.trim_end_matches(|c: char| c.is_ascii_digit());
                (workers, kind.trim_end_matches('-').to_owned())
            } else if task.tid == task.process {
                nameless(if processes.controlled {
                    CpuUser::Instrument
                } else {
                    threads
                })
            } else if creator.is_some_and(|c| c.process == ancestor && c.thread != ancestor) {
                (workers, task.name.clone())
            } else {
                nameless(threads)
            };
        }
        (CpuUser::OtherProcesses, task.process_name.clone())
    }

    /// The process that started another one, as the programs saw; else its present parent.
    fn parent(&self, process: u32) -> Option<u32> {
        let started = self.creators.get(&process).map(|c| c.process);
        let present_parent = || {
            let mut threads = self.tasks.iter().filter(|t| t.process == process);
            threads.next().map(|t| t.parent)
        };
        let parent = started.or_else(present_parent);
        parent.filter(|p| *p != 0 && *p != process)
    }
}

/// The lines of all users: the largest sums of each by name, and one line for its other sums.
fn lines(sums: BTreeMap<(CpuUser, String), (u64, u64)>) -> Vec<CpuLine> {
    let mut all: Vec<CpuLine> = Vec::new();
    for row in CPU_USERS {
        let mut lines: Vec<CpuLine> = sums
            .iter()
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
