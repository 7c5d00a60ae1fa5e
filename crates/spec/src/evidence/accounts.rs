//! Who used the CPUs within one window, as exactly as the kernel's tracepoints tell.

use serde::{Deserialize, Serialize};

use crate::metric::Side;

rows! {
    /// Who uses a CPU. Its row in [`CPU_USERS`] says what belongs to it.
    enum CpuUser;
    /// A row of the table of those who use CPUs.
    struct CpuUserRow {
        user,
        /// The side that it works for, if it does for one.
        side: Option<Side>,
        /// What it is called in tables.
        title: &'static str,
        /// What belongs to it.
        summary: &'static str,
    }
    /// All of them, in the order of tables.
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
    Instrument "instrument" { side: None, title: "bytecost itself", summary: "the coordinator, the threads that control both sides, and the far end of wire" }
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
    /// Who used it.
    pub user: CpuUser,
    /// Which of them: the name of a process, or of a kind of thread. Empty where the user has no
    /// parts, and for all parts together that are too small to be named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Time on a CPU, in ns, with interrupts on top of it.
    pub ns: u64,
    /// What of that was interrupts and soft interrupts, in ns.
    #[serde(default, skip_serializing_if = "crate::usual::is_usual")]
    pub interrupts_ns: u64,
}

/// Who used the CPUs within the window of one trial. The lines and what is left over add up to the
/// CPUs times the elapsed time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuAccounts {
    /// Length of the window, in ns.
    pub elapsed_ns: u64,
    /// CPUs that were online.
    pub cpus: u32,
    /// In the order of [`CPU_USERS`], and each user's largest first.
    pub lines: Vec<CpuLine>,
    /// CPUs times elapsed time, less all lines, in ns; below 0 where something counts twice.
    pub left_over_ns: i64,
    /// Why there are no accounts, where there are none; nothing above says anything then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl CpuAccounts {
    /// No accounts, for this reason.
    pub fn absent(why: impl Into<String>) -> CpuAccounts {
        CpuAccounts {
            refused: Some(why.into()),
            ..CpuAccounts::default()
        }
    }

    /// CPU time of those that a condition picks, in ns; none where there are no accounts.
    pub fn ns_of(&self, picks: impl Fn(&CpuLine) -> bool) -> Option<u64> {
        let picked = self.lines.iter().filter(|l| picks(l));
        self.refused.is_none().then(|| picked.map(|l| l.ns).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_for_a_side_is_its_own_and_no_accounts_are_no_zero() {
        let ns = [
            (CpuUser::SenderThreads, 1),
            (CpuUser::SenderWorkers, 2),
            (CpuUser::ReceiverChildren, 4),
            (CpuUser::Idle, 93),
        ];
        let lines = ns.map(|(user, ns)| CpuLine {
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
