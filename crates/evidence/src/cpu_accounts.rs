//! Accounts of the CPUs within a window by their users, in ns: every switch of a task and every interrupt, at the
//! kernel's tracepoints (tp_btf). The programs cut each stretch of time at the edges of the window,
//! which are set a moment before, so that nothing depends on when the sums are read.

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
use window_accounts::{CPU_WORDS, CpuWords, Maker, SINCE, TaskWords, WindowAccounts, numbers};

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/cpu.bpf.o");

/// From setting an edge of the window to the edge.
const LEAD_NS: u64 = 100_000;
/// The most attempts to set an edge, which fail where this process is held up meanwhile.
const MOST_TRIES: u32 = 8;

/// Each program is named for its tracepoint; without one of these there are no accounts.
const NEEDED: &[&str] = &[
    "sched_switch",
    "sched_process_fork",
    "softirq_entry",
    "softirq_exit",
    "irq_handler_entry",
    "irq_handler_exit",
];
/// Interrupts that not every kind of machine has.
const OTHERS: &[&str] = &[
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

/// Keeps accounts of all CPUs while it lives.
#[derive(Debug)]
pub struct CpuAccountant {
    object: Object<2>,
    cpus: FileMap,
    online: Vec<u32>,
    /// When the window opens and closes, as late as can be until it is known; or why not.
    window: Result<(u64, u64), String>,
    left_out: u64,
}

impl CpuAccountant {
    /// The window opens now, and closes at its end. Where that goes wrong, its account says why.
    pub fn begin(&mut self) {
        for _ in 0..MOST_TRIES {
            let from_ns = clock::monotonic_ns() + LEAD_NS;
            self.schedule(from_ns, u64::MAX);
            // Else this thread was held up, and what was switched meanwhile is not whole.
            if clock::monotonic_ns() < from_ns {
                break;
            }
        }
    }

    /// The window opens and closes at these moments. Where that goes wrong, its account says why.
    pub fn schedule(&mut self, from_ns: u64, to_ns: u64) {
        let set = self.object.begin(&[from_ns, to_ns]);
        self.window = set.map(|()| (from_ns, to_ns)).map_err(|e| e.to_string());
    }

    /// The window is closed, or closes now: who used the CPUs in it.
    pub fn end(&mut self, whose: &AccountedProcesses) -> CpuAccounts {
        match self.seen() {
            Ok(seen) => seen.accounts(whose),
            Err(why) => CpuAccounts::absent(why.to_string()),
        }
    }

    /// Attaches its programs: needs rights for BPF.
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
        for tracepoint in OTHERS {
            // Interrupts that are not seen count for who was interrupted.
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
            left_out: 0,
        };
        let before_ns = clock::monotonic_ns();
        let visitor = visit_all_cpus();
        // The visitor's switches are known to both clocks.
        let last_ns = open.words().iter().map(|words| words[SINCE]).max();
        let visited_ns = before_ns..=clock::monotonic_ns();
        if !last_ns.is_some_and(|ns| visited_ns.contains(&ns)) {
            return Err(io::Error::other(OTHER_CLOCK));
        }
        let made = open.makers(vec![visitor])?;
        if made.get(&visitor).map(|m| m.process) != Some(std::process::id()) {
            return Err(io::Error::other(OTHER_NUMBERS));
        }
        Ok(open)
    }

    fn seen(&mut self) -> io::Result<WindowAccounts> {
        let (from_ns, mut to_ns) = self.window.clone().map_err(io::Error::other)?;
        if to_ns == u64::MAX {
            // Who has just slept is seldom taken off its CPU.
            clock::sleep_until_ns(clock::monotonic_ns() + LEAD_NS);
            to_ns = clock::monotonic_ns() + LEAD_NS;
            self.object.begin(&[from_ns, to_ns])?;
        }
        clock::sleep_until_ns(to_ns);
        let (cpus, tasks) = self.settled(to_ns)?;
        self.clear(tasks.keys())?;
        // Not read when a window opens, which may be in no time: so since the window before.
        let left_out = self.left_out_so_far();
        if std::mem::replace(&mut self.left_out, left_out) < left_out {
            return Err(io::Error::other(
                "the kernel left out programs that were to see a switch or an interrupt, as they were at work already",
            ));
        }
        let running = cpus.iter().flat_map(|words| numbers(words));
        let others = tasks.values().flat_map(|words| numbers(words));
        let makers = self.makers(running.chain(others).collect())?;
        Ok(WindowAccounts::new((from_ns, to_ns), &cpus, tasks, makers))
    }

    /// The words of each CPU and of each task, when only tasks that run still add to the window.
    fn settled(&mut self, to_ns: u64) -> io::Result<(Vec<CpuWords>, BTreeMap<u32, TaskWords>)> {
        // A CPU that was switched meanwhile is so after the window, and once only.
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

    fn left_out_so_far(&self) -> u64 {
        let programs = NEEDED.iter().chain(OTHERS);
        programs.filter_map(|p| self.object.misses(p)).sum()
    }

    fn words(&self) -> Vec<CpuWords> {
        let of = |cpu: &u32| {
            let first = *cpu as usize * CPU_WORDS;
            std::array::from_fn(|at| self.cpus.word(first + at))
        };
        self.online.iter().map(of).collect()
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

    /// The makers of these tasks, and those of the makers in turn, as far back as they are known.
    fn makers(&mut self, mut left: Vec<u32>) -> io::Result<BTreeMap<u32, Maker>> {
        let makers = self.map::<[u64; 2]>("makers")?;
        let mut found = BTreeMap::new();
        let mut asked = BTreeSet::new();
        while let Some(task) = left.pop() {
            if !asked.insert(task) {
                continue;
            }
            if let Ok([tid, process]) = makers.get(&task, 0) {
                let (thread, process) = (tid as u32, process as u32);
                found.insert(task, Maker { thread, process });
                left.push(process);
            }
        }
        Ok(found)
    }

    fn clear<'a>(&mut self, tasks: impl Iterator<Item = &'a u32>) -> io::Result<()> {
        let mut map = self.map::<TaskWords>("tasks")?;
        // One that is gone already is what is wanted.
        tasks.for_each(|task| drop(map.remove(task)));
        Ok(())
    }
}

/// Has a thread run on each CPU, so that it is known of each which task it runs: an idle one may
/// switch to nothing for long. Gives the thread's number.
fn visit_all_cpus() -> u32 {
    let visit = || {
        for cpu in process::affinity().unwrap_or_default() {
            // One that cannot be had stays unknown until it switches, and is left over until then.
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
