//! Known truths for accounts of the CPUs: what each task says of its own time.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use bytecost_evidence::CpuAccountant;
use bytecost_evidence::cpu_accounts::AccountedProcesses;
use bytecost_spec::evidence::{CpuAccounts, CpuLine, CpuUser};
use bytecost_sys::io_buffers::IoBuffers;
use bytecost_sys::request_queue::RequestQueue;
use bytecost_sys::uring_file::{FileRequests, UringFile};
use bytecost_sys::{clock, process};

use crate::lack::{Lack, skipped};

/// Two clocks of one task agree so well, and to so much besides: it runs a little longer.
const NEAR: f64 = 0.02;
const NEAR_NS: u64 = 2_000_000;
/// Attempts of which one must set the edges of its window in time.
const TRIES: u32 = 10;
/// Comparisons of two clocks of which one must hold.
const COMPARISONS: usize = 3;
const SPINS_NS: u64 = 200_000_000;
const SLEEPS: Duration = Duration::from_millis(50);
/// Set in a process of this test that is a child: how many generations spin.
const GENERATIONS: &str = "BYTECOST_TEST_SPINS";

/// None where the kernel refuses it, which it must not for root.
fn accountant() -> Option<CpuAccountant> {
    match CpuAccountant::open(Path::new("/")) {
        Ok(accountant) => Some(accountant),
        Err(why) => {
            assert!(!rustix::process::geteuid().is_root(), "{why}");
            skipped(Lack::Right, why);
            None
        }
    }
}

fn kept(mut work: impl FnMut()) -> Option<CpuAccounts> {
    let mut accountant = accountant()?;
    let me = std::process::id();
    let whose = AccountedProcesses {
        coordinator: me,
        sender: me,
        ..AccountedProcesses::default()
    };
    for _ in 0..TRIES {
        accountant.begin();
        work();
        let accounts = accountant.end(&whose);
        assert_eq!(accounts.refused, None);
        println!("accounts: {accounts:?}");
        let whole = accounts.elapsed_ns * u64::from(accounts.cpus);
        let share = accounts.left_over_ns as f64 / whole as f64;
        // More is left over where this thread was held up while it set the end of the window.
        if share.abs() < NEAR {
            return Some(accounts);
        }
    }
    panic!("much is left over each time");
}

fn ns_of(accounts: &CpuAccounts, user: CpuUser, name: &str) -> u64 {
    let is_it = |line: &CpuLine| line.user == user && (name.is_empty() || line.name == name);
    accounts.ns_of(is_it).unwrap_or(0)
}

/// A thread's clock is read before it ends, and an emulated CPU may be held up in between.
const HELD_UP_NS: u64 = 20_000_000;

/// Holds a line against another clock. A task's own clock lacks what a hypervisor took, and
/// interrupts where those are accounted separately (up to a quarter on a VM under load). Both
/// clocks are read a moment apart at a switch, so a tick of difference is allowed.
fn check(what: &str, line_ns: u64, known_ns: u64, late_ns: u64) -> Result<(), String> {
    println!("accounts: {what}: {line_ns} ns, by its own clock {known_ns} ns");
    let near_ns = (known_ns as f64 * NEAR) as u64 + NEAR_NS + late_ns;
    let least_ns = known_ns.saturating_sub(near_ns + clock::tick_ns());
    let most_ns = known_ns + known_ns / 2 + near_ns + HELD_UP_NS;
    if (least_ns..=most_ns).contains(&line_ns) {
        Ok(())
    } else {
        Err(format!(
            "{what}: {line_ns} ns, by its own clock {known_ns} ns"
        ))
    }
}

/// Repeats a comparison of clocks that fails: a wrong account is wrong each time, and a hypervisor that holds a
/// CPU up in between is not there each time.
fn holds_once(mut compared: impl FnMut() -> Result<(), String>) {
    let mut failures = Vec::new();
    while let Err(why) = compared() {
        failures.push(why);
        assert!(failures.len() < COMPARISONS, "{failures:#?}");
    }
}

#[test]
fn what_was_not_opened_has_no_accounts() {
    let _alone = super::alone();
    if let Some(mut accountant) = accountant() {
        let accounts = accountant.end(&AccountedProcesses::default());
        let why = "no window was opened".to_owned();
        assert_eq!(accounts, CpuAccounts::absent(why));
    }
    let nowhere = tempfile::tempdir().unwrap();
    let why = CpuAccountant::open(nowhere.path()).unwrap_err().to_string();
    assert!(why.contains("CONFIG_DEBUG_INFO_BTF"), "{why}");
}

#[test]
fn a_window_is_as_long_as_it_was_to_be_however_late_it_is_read() {
    const LONG_NS: u64 = 20_000_000;
    /// This thread may be held up before it has set the window.
    const AHEAD_NS: u64 = 500_000_000;
    let _alone = super::alone();
    let Some(mut accountant) = accountant() else {
        return;
    };
    for _ in 0..2 {
        let from_ns = clock::monotonic_ns() + AHEAD_NS;
        accountant.schedule(from_ns, from_ns + LONG_NS);
        clock::sleep_until_ns(from_ns + 3 * LONG_NS);
        let accounts = accountant.end(&AccountedProcesses::default());
        assert_eq!((accounts.refused, accounts.elapsed_ns), (None, LONG_NS));
        let idle = accounts.lines.iter().find(|l| l.user == CpuUser::Idle);
        println!("accounts: idle: {idle:?}");
        assert!(accounts.left_over_ns.unsigned_abs() < LONG_NS / 50);
    }
}

#[test]
fn a_thread_that_spins_has_its_time_and_one_that_sleeps_has_none() {
    let _alone = super::alone();
    let own = |name: &str, work: fn()| {
        let thread = thread::Builder::new().name(name.to_owned());
        let work = move || {
            work();
            clock::thread_cpu_ns()
        };
        thread.spawn(work).unwrap()
    };
    let spin = || while clock::thread_cpu_ns() < SPINS_NS {};
    holds_once(|| {
        let mut known = Vec::new();
        let kept = kept(|| {
            let threads = [own("spins", spin), own("sleeps", || thread::sleep(SLEEPS))];
            known = threads.map(|t| t.join().unwrap()).to_vec();
        });
        let Some(accounts) = kept else { return Ok(()) };
        for (name, known_ns) in ["spins", "sleeps"].into_iter().zip(known) {
            // The thread of a test has started them, which is not the first of the process.
            let line_ns = ns_of(&accounts, CpuUser::SenderWorkers, name);
            check(name, line_ns, known_ns, 0)?;
        }
        Ok(())
    });
}

/// The work of a ring's kernel threads is their process's: io-wq waits for a file, and a poller spins.
fn ring_works_for_its_process(worker: &str, file: &str, offset: u64, poller: bool) {
    let _alone = super::alone();
    let places = IoBuffers::new(1, 4096).unwrap();
    let requests = if poller {
        FileRequests::ReadPolled
    } else {
        FileRequests::Read
    };
    let mut ring = match UringFile::new(File::open(file).unwrap().into(), places, requests) {
        Ok(ring) => ring,
        Err(e) => return skipped(Lack::Right, format_args!("io_uring: {e}")),
    };
    holds_once(|| {
        let mut process_ns = 0;
        let kept = kept(|| {
            let before_ns = clock::process_cpu_ns();
            let until_ns = clock::monotonic_ns() + SPINS_NS;
            while clock::monotonic_ns() < until_ns {
                ring.start(0, offset).unwrap();
                while ring.finished().is_none() {
                    ring.enter(1, super::PATIENCE).unwrap();
                }
                if poller {
                    thread::sleep(SLEEPS);
                }
            }
            // It knows a thread that runs on another CPU by its last tick, and one that sleeps in full.
            thread::sleep(SLEEPS);
            process_ns = clock::process_cpu_ns() - before_ns;
        });
        let Some(accounts) = kept else { return Ok(()) };
        let worked_ns = ns_of(&accounts, CpuUser::SenderWorkers, worker);
        if worked_ns <= NEAR_NS {
            return Err(format!("{worker}: {worked_ns} ns: {:?}", accounts.lines));
        }
        let all_ns = ns_of(&accounts, CpuUser::SenderWorkers, "")
            + ns_of(&accounts, CpuUser::SenderThreads, "");
        // A poller does not sleep, and a hypervisor may hold up its ticks.
        let late_ns = if poller { 5 * clock::tick_ns() } else { 0 };
        check("the process", all_ns, process_ns, late_ns)
    });
}

#[test]
fn what_io_wq_and_a_poller_do_is_their_processes() {
    // Each read goes through the names from the first.
    ring_works_for_its_process("iou-wrk", "/proc/kallsyms", 1 << 20, false);
    ring_works_for_its_process("iou-sqp", "/proc/self/exe", 0, true);
}

/// The child that the next test starts: it spins, and so does another that it starts in turn.
#[test]
fn a_process_that_spins_as_a_child() {
    let Ok(generations) = std::env::var(GENERATIONS) else {
        return;
    };
    let spin_until_ns = clock::thread_cpu_ns() + SPINS_NS / 4;
    while clock::thread_cpu_ns() < spin_until_ns {}
    if generations == "2" {
        spin_as_child("1");
    }
}

fn spin_as_child(generations: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "accounts::a_process_that_spins_as_a_child"])
        .env(GENERATIONS, generations)
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_child_has_its_time_and_so_has_its_child() {
    let _alone = super::alone();
    let used_ns = || {
        let usage = process::children_usage().unwrap();
        usage.user_ns + usage.system_ns
    };
    holds_once(|| {
        let mut child_ns = 0;
        let kept = kept(|| {
            let before_ns = used_ns();
            spin_as_child("2");
            child_ns = used_ns() - before_ns;
        });
        let Some(accounts) = kept else { return Ok(()) };
        let line_ns = ns_of(&accounts, CpuUser::SenderChildren, "");
        assert!(line_ns >= SPINS_NS / 2 - NEAR_NS, "{line_ns}");
        // The accounts of one that ends may lack what came after its last tick.
        check("children", line_ns, child_ns, 2 * clock::tick_ns())
    });
}
