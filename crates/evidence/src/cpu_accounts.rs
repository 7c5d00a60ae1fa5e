//! The CPU time of a window by user, in ns. BPF programs at the kernel's tracepoints (tp_btf) see every
//! switch of a task and every interrupt. They get the edges of the window before it opens and cut the
//! time of tasks there, so that it does not matter when the sums are read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::thread;

use aya::Pod;
use aya::include_bytes_aligned;
use aya::maps::{HashMap, MapData};
use bytecost_spec::evidence::CpuAccounts;
use bytecost_sys::file_map::FileMap;
use bytecost_sys::{clock, process};

use crate::bpf::{self, OTHER_CLOCK, OTHER_NUMBERS, Object, about, in_one_line};

mod window_accounts;

pub use window_accounts::AccountedProcesses;
use window_accounts::{CPU_WORDS, CpuWords, Creator, SINCE, TaskWords};
use window_accounts::{WindowAccounts, WindowRange, numbers};

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/cpu.bpf.o");

/// The time from setting an edge of the window until that edge.
const LEAD_NS: u64 = 100_000;
/// The most attempts to set an edge; one fails if this thread is preempted until after the edge.
const MOST_ATTEMPTS: u32 = 8;

/// The tracepoints without which there are no accounts. Each program has the name of its tracepoint.
const NEEDED: &[&str] = &[
    "sched_switch",
    "sched_process_fork",
    "softirq_entry",
    "softirq_exit",
    "irq_handler_entry",
    "irq_handler_exit",
];
/// The tracepoints of interrupts that not every architecture has.
const OPTIONAL: &[&str] = &[
    "local_timer_entry",
    "local_timer_exit",
    "reschedule_entry",
    "reschedule_exit",
    "call_function_entry",
    "call_function_exit",
    "call_function_single_entry",
    "call_function_single_exit",
    "ipi_entry",
    "ipi_exit",
];

/// The attached BPF programs, which account for all CPUs until it is dropped.
#[derive(Debug)]
pub struct CpuAccountant {
    object: Object<2>,
    cpus: FileMap,
    online: Vec<u32>,
    /// The window, or the reason why it could not be set.
    window: Result<WindowRange, String>,
    /// Runs of the programs that the kernel skipped until the end of the last window.
    skipped_runs: u64,
}

impl CpuAccountant {
    /// Opens the window now; [`CpuAccountant::end`] closes it, and reports an error of this call.
    pub fn begin(&mut self) {
        for _ in 0..MOST_ATTEMPTS {
            let from_ns = clock::monotonic_ns() + LEAD_NS;
            self.schedule(from_ns, u64::MAX);
            // Otherwise the edge was set too late for the switches between it and now.
            if clock::monotonic_ns() < from_ns {
                break;
            }
        }
    }

    /// Sets the window, in ns of CLOCK_MONOTONIC; [`CpuAccountant::end`] reports an error of this call.
    pub fn schedule(&mut self, from_ns: u64, to_ns: u64) {
        let set = self.object.begin(&[from_ns, to_ns]);
        let window = WindowRange { from_ns, to_ns };
        self.window = set.map(|()| window).map_err(|e| e.to_string());
    }

    /// Waits for the end of the window, or closes it now if its end is not set. Returns the CPU time of
    /// each user; absent with the reason if something went wrong.
    pub fn end(&mut self, processes: &AccountedProcesses) -> CpuAccounts {
        match self.window_accounts() {
            Ok(accounts) => accounts.by_user(processes),
            Err(why) => CpuAccounts::absent(why.to_string()),
        }
    }

    /// Loads and attaches the BPF programs, for which it needs CAP_BPF and CAP_PERFMON.
    pub fn open(root: &Path) -> io::Result<CpuAccountant> {
        let types = bpf::types(root)?;
        let asked = |(what, e): (&str, io::Error)| about(what, e);
        let online = aya::util::online_cpus().map_err(asked)?;
        let highest = online.iter().max().map_or(0, |cpu| *cpu as usize);
        let possible = aya::util::nr_cpus().map_err(asked)?.max(highest + 1);
        let mut object = Object::load(OBJECT, types, &[("cpus", possible as u32)])?;
        for tracepoint in NEEDED {
            let attached = object.attach(tracepoint, tracepoint, types);
            let what = format!("the tracepoint `{tracepoint}` cannot be hooked");
            attached.map_err(|e| about(&what, e))?;
        }
        for tracepoint in OPTIONAL {
            // Without it, the time of such interrupts counts for the interrupted task.
            let _ = object.attach(tracepoint, tracepoint, types);
        }
        let cpus = match object.map("cpus")? {
            aya::maps::Map::Array(data) => FileMap::new(data.fd(), 0, possible * CPU_WORDS * 8)?,
            _ => return Err(io::Error::other("`cpus` is no array")),
        };
        let mut open = CpuAccountant {
            object,
            cpus,
            online,
            window: Err("no window was opened".to_owned()),
            skipped_runs: 0,
        };
        let before_ns = clock::monotonic_ns();
        let visitor = visit_all_cpus();
        // The visitor was switched between two readings of this clock: so the programs have the same one.
        let last_ns = open.words().iter().map(|words| words[SINCE]).max();
        let visited_ns = before_ns..=clock::monotonic_ns();
        if !last_ns.is_some_and(|ns| visited_ns.contains(&ns)) {
            return Err(io::Error::other(OTHER_CLOCK));
        }
        let creators = open.creators(vec![visitor])?;
        if creators.get(&visitor).map(|c| c.process) != Some(std::process::id()) {
            return Err(io::Error::other(OTHER_NUMBERS));
        }
        Ok(open)
    }

    fn window_accounts(&mut self) -> io::Result<WindowAccounts> {
        let WindowRange { from_ns, mut to_ns } = self.window.clone().map_err(io::Error::other)?;
        if to_ns == u64::MAX {
            // A thread that has just slept is seldom preempted, which would make the edge late.
            clock::sleep_until_ns(clock::monotonic_ns() + LEAD_NS);
            to_ns = clock::monotonic_ns() + LEAD_NS;
            self.object.begin(&[from_ns, to_ns])?;
        }
        clock::sleep_until_ns(to_ns);
        let (cpus, tasks) = self.stable_sums(to_ns)?;
        self.clear(tasks.keys())?;
        // Counted since the end of the last window: a read at the start might delay the edge.
        let skipped_runs = self.skipped_runs_so_far();
        if std::mem::replace(&mut self.skipped_runs, skipped_runs) < skipped_runs {
            return Err(io::Error::other(
                "the kernel left out programs that were to see a switch or an interrupt, as they were at work already",
            ));
        }
        let running = cpus.iter().flat_map(|words| numbers(words));
        let others = tasks.values().flat_map(|words| numbers(words));
        let creators = self.creators(running.chain(others).collect())?;
        let window = WindowRange { from_ns, to_ns };
        Ok(WindowAccounts::new(window, &cpus, tasks, creators))
    }

    /// The words of each CPU and task, when only running tasks can still add to sums of the window.
    fn stable_sums(&mut self, to_ns: u64) -> io::Result<(Vec<CpuWords>, BTreeMap<u32, TaskWords>)> {
        // A switch of a CPU between the two reads is after the window: each CPU fails one attempt at most.
        for _ in 0..self.online.len() + 2 {
            let before = self.words();
            let tasks = self.tasks()?;
            let after = self.words();
            let is_over = |words: &CpuWords| words[SINCE] >= to_ns;
            let mut pairs = before.iter().zip(&after);
            if pairs.all(|(one, other)| is_over(one) || one[SINCE] == other[SINCE]) {
                return Ok((after, tasks));
            }
        }
        Err(io::Error::other("the sums of the CPUs did not settle"))
    }

    fn skipped_runs_so_far(&self) -> u64 {
        let programs = NEEDED.iter().chain(OPTIONAL);
        programs.filter_map(|p| self.object.misses(p)).sum()
    }

    fn words(&self) -> Vec<CpuWords> {
        let words = |cpu: &u32| {
            let first = *cpu as usize * CPU_WORDS;
            std::array::from_fn(|index| self.cpus.word(first + index))
        };
        self.online.iter().map(words).collect()
    }

    fn map<V: Pod>(&mut self, name: &str) -> io::Result<HashMap<&mut MapData, u32, V>> {
        HashMap::try_from(self.object.map(name)?).map_err(|e| in_one_line(&e))
    }

    fn tasks(&mut self) -> io::Result<BTreeMap<u32, TaskWords>> {
        let tasks = self.map("tasks")?;
        tasks
            .iter()
            .map(|e| e.map_err(|e| in_one_line(&e)))
            .collect()
    }

    /// The threads that created these tasks and, in turn, their processes, by the created task's number.
    fn creators(&mut self, mut left: Vec<u32>) -> io::Result<BTreeMap<u32, Creator>> {
        let creators = self.map::<[u64; 2]>("makers")?;
        let mut found = BTreeMap::new();
        let mut seen = BTreeSet::new();
        while let Some(task) = left.pop() {
            if !seen.insert(task) {
                continue;
            }
            if let Ok([tid, process]) = creators.get(&task, 0) {
                let (thread, process) = (tid as u32, process as u32);
                found.insert(task, Creator { thread, process });
                left.push(process);
            }
        }
        Ok(found)
    }

    fn clear<'a>(&mut self, tasks: impl Iterator<Item = &'a u32>) -> io::Result<()> {
        let mut map = self.map::<TaskWords>("tasks")?;
        // An entry that is gone already makes this an error, which does not matter.
        tasks.for_each(|task| drop(map.remove(task)));
        Ok(())
    }
}

/// Runs a thread on each CPU, so that the programs know the task that each CPU runs: an idle CPU may not
/// switch for a long time. Returns the number of the thread.
fn visit_all_cpus() -> u32 {
    let visit = || {
        for cpu in process::affinity().unwrap_or_default() {
            // A CPU that is refused has an unknown task until it switches.
            let _ = process::set_affinity(&[cpu]);
        }
        process::gettid()
    };
    thread::scope(|scope| {
        let visiting = thread::Builder::new().spawn_scoped(scope, visit).ok()?;
        visiting.join().ok()
    })
    .unwrap_or(0)
}
