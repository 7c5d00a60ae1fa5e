//! The CPU time of every process within one window, from the kernel's tracepoints.

use serde::{Deserialize, Serialize};

use crate::metric::Side;

rows! {
    /// A user of CPU time. Its row in [`CPU_USERS`] describes it.
    enum CpuUser;
    /// A row of the table of users of CPU time.
    struct CpuUserRow {
        user,
        /// The side that its time is spent for, if any.
        side: Option<Side>,
        /// Its noun in tables.
        title: &'static str,
        /// The threads and processes that belong to it.
        summary: &'static str,
    }
    /// All users, in the order of tables.
    const CPU_USERS;
    SenderThreads "sender-threads" { side: Some(Side::Sender), title: "sender's threads", summary: "threads of the sending process, or of the clients, that move messages" }
    SenderWorkers "sender-workers" { side: Some(Side::Sender), title: "sender's workers", summary: "threads of the same process that work for these: of the kernel's io_uring, or started by another thread than the first" }
    SenderChildren "sender-children" { side: Some(Side::Sender), title: "sender's children", summary: "processes that the sending process has started" }
    ReceiverThreads "receiver-threads" { side: Some(Side::Receiver), title: "receiver's threads", summary: "threads of the receiving process, or of the server" }
    ReceiverWorkers "receiver-workers" { side: Some(Side::Receiver), title: "receiver's workers", summary: "threads of the same process that work for these" }
    ReceiverChildren "receiver-children" { side: Some(Side::Receiver), title: "receiver's children", summary: "processes that the receiving process has started" }
    KernelThreads "kernel-threads" { side: None, title: "kernel threads", summary: "threads of the kernel that belong to no process" }
    Interrupts "interrupts" { side: None, title: "interrupts on idle CPUs", summary: "interrupts and soft interrupts while the idle task had the CPU, which are in no task's time" }
    Background "background" { side: None, title: "background load", summary: "the background load of the cell" }
    Instrument "instrument" { side: None, title: "bytecost itself", summary: "the coordinator and its observer, the threads that control both sides, and the far end of wire" }
    OtherProcesses "other-processes" { side: None, title: "other processes", summary: "every other process of the machine" }
    Idle "idle" { side: None, title: "idle", summary: "nothing to run" }
    Steal "steal" { side: None, title: "steal", summary: "the hypervisor, while a CPU had something to run" }
    LeftOver "left-over" { side: None, title: "left over", summary: "what is left of the time of all CPUs" }
}

/// CPU time of one user within the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuLine {
    /// The user.
    pub user: CpuUser,
    /// Name of a process, or of a kind of thread. Empty where the user has no parts, and for all
    /// parts together that are too small to be named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Time on a CPU, in ns, including interrupts in that time.
    pub ns: u64,
    /// The part of `ns` that was interrupts and soft interrupts.
    #[serde(default, skip_serializing_if = "crate::defaults::is_default")]
    pub interrupts_ns: u64,
}

/// The CPU time of all users within the window of one trial. The lines and the remainder add up to the
/// number of CPUs times the elapsed time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuAccounts {
    /// Length of the window, in ns.
    pub elapsed_ns: u64,
    /// CPUs that were online.
    pub cpus: u32,
    /// The lines in the order of [`CPU_USERS`], each user's largest first.
    pub lines: Vec<CpuLine>,
    /// CPUs times elapsed time, less all lines, in ns; below 0 where something counts twice.
    pub left_over_ns: i64,
    /// The reason why there are no accounts; the other fields are then empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl CpuAccounts {
    /// Accounts that are not available, with the reason.
    pub fn absent(why: impl Into<String>) -> CpuAccounts {
        CpuAccounts {
            refused: Some(why.into()),
            ..CpuAccounts::default()
        }
    }

    /// CPU time of the lines that a predicate selects, in ns; none if there are no accounts.
    pub fn ns_of(&self, is_selected: impl Fn(&CpuLine) -> bool) -> Option<u64> {
        let selected = self.lines.iter().filter(|line| is_selected(line));
        self.refused
            .is_none()
            .then(|| selected.map(|line| line.ns).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_count_for_their_side_and_absent_accounts_are_no_zero() {
        let cpu_times = [
            (CpuUser::SenderThreads, 1),
            (CpuUser::SenderWorkers, 2),
            (CpuUser::ReceiverChildren, 4),
            (CpuUser::Idle, 93),
        ];
        let lines = cpu_times.map(|(user, ns)| CpuLine {
            user,
            name: String::new(),
            ns,
            interrupts_ns: 0,
        });
        let accounts = CpuAccounts {
            lines: lines.into(),
            ..CpuAccounts::default()
        };
        for (side, ns) in [(Side::Sender, 3), (Side::Receiver, 4)] {
            let found = accounts.ns_of(|line| line.user.row().side == Some(side));
            assert_eq!(found, Some(ns));
        }
        assert_eq!(CpuAccounts::absent("no").ns_of(|_| true), None);
    }
}
