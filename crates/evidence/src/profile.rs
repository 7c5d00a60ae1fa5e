//! The profiler: system calls of a running program, counted at tracepoints (tp_btf) by the descriptors
//! between which they move bytes, with their CPU time. The program is not stopped or changed, and slowed
//! only by the time that the tracepoints take.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray};
use aya::programs::ProgramError;
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::{Ebpf, include_bytes_aligned};
use bytecost_spec::Reading;
use bytecost_spec::profile::{CopyLoop, Way, WorkSamples};
use bytecost_sys::{children, clock};

use crate::bpf::{self, OTHER_NUMBERS};

mod calls;
mod counts;
mod known_calls;
mod work;

use calls::{CALLS, REQUESTS};
pub use counts::Totals;
use counts::{COUNTS, Key, TOTALS, sum, way};
use known_calls::{CallCost, KNOWN_CALLS, KNOWN_ROUNDS, KnownCalls};
use work::WorkSampler;

/// The object that is built from `bpf/profile.bpf.c`.
static OBJECT: &[u8] = include_bytes_aligned!("../bpf/profile.bpf.o");

/// A BPF program with its tracepoint; the profiler does not open without those that are needed.
struct Hook {
    program: &'static str,
    tracepoint: &'static str,
    is_needed: bool,
}

const fn needed(program: &'static str, tracepoint: &'static str) -> Hook {
    Hook {
        program,
        tracepoint,
        is_needed: true,
    }
}

const fn wanted(program: &'static str, tracepoint: &'static str) -> Hook {
    Hook {
        program,
        tracepoint,
        is_needed: false,
    }
}

/// All hooks in the order in which they are attached: programs that follow processes come before
/// programs that count.
const HOOKS: &[Hook] = &[
    needed("forked", "sched_process_fork"),
    needed("executed", "sched_process_exec"),
    needed("exited", "sched_process_exit"),
    needed("switched", "sched_switch"),
    needed("returned", "sys_exit"),
    needed("entered", "sys_enter"),
    wanted("faulted", "page_fault_user"),
    wanted("mapped", "mm_filemap_map_pages"),
    wanted("copied", "skb_copy_datagram_iovec"),
    wanted("queued", "net_dev_queue"),
    wanted("submitted", "io_uring_submit_req"),
    wanted("completed", "io_uring_complete"),
];

/// The most ways that are counted separately; a way is a call with the descriptors between which it moves
/// bytes.
const MOST_WAYS: usize = 1024;
/// The most memory for the counts of ways, on all CPUs together.
const MOST_COUNTS_BYTES: usize = 32 << 20;
/// The most rounds of listing threads, which end with a round that finds no new thread.
const MOST_ROUNDS: usize = 100;
/// States of `struct control`: calls are counted, or will be from the next exec on.
const OPEN: u64 = 1;
const OPEN_AT_EXEC: u64 = 2;

/// The share of its time that a program may lose to counting. A program that would lose more is counted in
/// slices of time, between which no call passes a tracepoint.
const MOST_COST: f64 = 0.04;
/// The length of a slice.
const SLICE_NS: u64 = 10_000_000;
/// The longest pause between two slices, in ns.
const MOST_PAUSE_NS: f64 = 1e9;
/// The largest factor by which a program is assumed to be slowed down within a slice.
const MOST_SLOWED: f64 = 5.0;
/// Interval between readings of the maps where all calls are counted.
const READING_NS: u64 = 100_000_000;
/// The BPF programs that are detached between slices.
const COUNTING: [&str; 2] = ["returned", "entered"];
/// Words of `struct thread`.
const THREAD_WORDS: usize = 10;

/// The counts of a profile up to its last reading of the maps.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Ways in the order in which they were first used.
    pub ways: Vec<Way>,
    /// Pairs of a read and a write.
    pub copy_loops: Vec<CopyLoop>,
    /// Sums over all calls.
    pub totals: Totals,
    /// Calls, those in pauses between slices of time included.
    pub calls: u64,
    /// Calls in such pauses, estimated from the calls in the slice after each pause.
    pub skipped_calls: u64,
    /// CPU time that counting added, estimated: the time that it adds to a known call, for each call that
    /// was counted.
    pub own_cost_ns: u64,
    /// Page faults in user code.
    pub faults: Reading,
    /// Pages of files that faults mapped.
    pub mapped_pages: Reading,
    /// Samples of the CPUs that found the followed processes, by kind of work, or why there are none.
    pub work: Result<Vec<WorkSamples>, String>,
}

/// A profiler with its BPF programs, which are removed when it is dropped or its process ends.
#[derive(Debug)]
pub struct Profiler {
    object: Ebpf,
    root: PathBuf,
    /// Programs that could not be attached, with the reason.
    refused: BTreeMap<&'static str, String>,
    call_cost: CallCost,
    /// Links of the programs that count calls, while they are attached.
    counting: Vec<(&'static str, BtfTracePointLinkId)>,
    slice: Slice,
    last_reading: LastReading,
    /// Number of calls, scaled as the counts of ways are.
    calls: f64,
    totals: Totals,
    /// The totals at the end of the self-test.
    self_test_totals: Totals,
    /// Ways by number, each with its key and its counts.
    ways: BTreeMap<u32, (Key, Summed<COUNTS>)>,
    /// Numbers of ways in the order in which calls of theirs were first seen.
    order: Vec<u32>,
    /// Calls and bytes of copy loops, by the numbers of the reading way (high half) and the writing way.
    pairs: BTreeMap<u32, Summed<2>>,
    /// The sampler of the CPUs, or why there is none.
    work: Result<WorkSampler, String>,
}

/// The slice of time in which calls are counted, or the pause before the next slice.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    /// The beginning of the slice or of the pause.
    began_ns: u64,
    /// The length of the pause before the slice, for which the slice's calls stand too.
    previous_pause_ns: u64,
    /// The part of that pause in which programs were attached.
    attaching_ns: u64,
    /// The least length of the pause; 0 in a slice.
    pause_ns: u64,
}

/// Calls of the last reading of the maps, and the time that the program would have needed for them without
/// counting.
#[derive(Clone, Copy, Debug)]
struct LastReading {
    calls: u64,
    own_ns: f64,
}

/// Sums of the words of a map over all readings, scaled for the pauses in which nothing was counted.
#[derive(Clone, Copy, Debug)]
struct Summed<const N: usize> {
    /// The words at the last reading.
    last: [u64; N],
    /// The increases of the words from the reading before the last one to the last one.
    increases: [u64; N],
    sums: [f64; N],
}

impl<const N: usize> Summed<N> {
    const NONE: Summed<N> = Summed {
        last: [0; N],
        increases: [0; N],
        sums: [0.0; N],
    };

    fn add(&mut self, words: [u64; N], scale: f64) {
        self.increases = std::array::from_fn(|at| words[at].saturating_sub(self.last[at]));
        self.last = words;
        self.repeat(scale);
    }

    /// Adds the increases of the last reading to the sums, multiplied by `times`.
    fn repeat(&mut self, times: f64) {
        for (sum, increase) in self.sums.iter_mut().zip(self.increases) {
            *sum += increase as f64 * times;
        }
    }
}

impl Profiler {
    /// Attaches all programs, and has them count known calls of this process first.
    ///
    /// # Errors
    /// In a sentence: another processor than x86-64, no rights for BPF, a kernel without types, a
    /// PID namespace, a self-test that failed.
    pub fn open(root: &Path) -> io::Result<Profiler> {
        if !cfg!(target_arch = "x86_64") {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "system calls are recognised on x86-64 alone",
            ));
        }
        let types = bpf::types(root)?;
        let cpus = aya::util::nr_cpus().map_err(|(_, e)| e)?;
        let ways = MOST_WAYS.min(MOST_COUNTS_BYTES / (COUNTS * 8) / cpus.max(1)) as u32;
        let entries = [("counted", ways), ("ways", ways)];
        let mut object = bpf::loaded(OBJECT, Some(types), &entries)?;
        let mut refused = BTreeMap::new();
        for hook in HOOKS {
            let attached = if COUNTING.contains(&hook.program) {
                let program = bpf::tracepoint(&mut object, hook.program)?;
                program
                    .load(hook.tracepoint, types)
                    .map_err(|e| bpf::in_one_line(&e))
            } else {
                bpf::attach(&mut object, hook.program, hook.tracepoint, types)
            };
            match attached {
                Ok(()) => {}
                Err(e) if hook.is_needed => {
                    return Err(bpf::about(
                        &format!("the tracepoint `{}`", hook.tracepoint),
                        e,
                    ));
                }
                Err(e) => {
                    let why = format!("the tracepoint `{}` cannot be hooked: {e}", hook.tracepoint);
                    refused.insert(hook.program, why);
                }
            }
        }
        let mut profiler = Profiler {
            object,
            root: root.to_owned(),
            refused,
            call_cost: CallCost::default(),
            counting: Vec::new(),
            slice: Slice::default(),
            last_reading: LastReading {
                calls: 0,
                own_ns: 1.0,
            },
            calls: 0.0,
            totals: Totals::default(),
            self_test_totals: Totals::default(),
            ways: BTreeMap::new(),
            order: Vec::new(),
            pairs: BTreeMap::new(),
            work: WorkSampler::open(root).map_err(|why| why.to_string()),
        };
        profiler.fill_tables()?;
        let uncounted = KnownCalls::measure()?;
        profiler.attach_counting()?;
        profiler.check_known_calls(uncounted)?;
        Ok(profiler)
    }

    fn fill_tables(&mut self) -> io::Result<()> {
        for (map, table) in [("calls", CALLS), ("requests", REQUESTS)] {
            let mut rows: Array<_, u64> = Array::try_from(self.map(map)?).map_err(error)?;
            for call in table {
                rows.set(u32::from(call.number), call.row(), 0)
                    .map_err(error)?;
            }
        }
        Ok(())
    }

    /// Counts known calls of this thread, computes the CPU time that counting adds to each, and resets the
    /// counts. `uncounted` was measured before any program was attached, as an attached program makes
    /// every call on the machine slower.
    fn check_known_calls(&mut self, uncounted: KnownCalls) -> io::Result<()> {
        let own = bytecost_sys::process::gettid();
        self.insert_thread(own)?;
        self.set_control(OPEN)?;
        let counted = KnownCalls::measure()?;
        self.take(1)?;
        self.set_control(0)?;
        let mut threads = self.threads_mut()?;
        threads.remove(&own).map_err(error)?;
        let ways = self.counted().ways;
        let reads = || ways.iter().filter(|way| way.call == "pread64");
        let calls: u64 = reads().map(|way| way.calls).sum();
        if calls < KNOWN_CALLS * KNOWN_ROUNDS {
            return Err(io::Error::other(OTHER_NUMBERS));
        }
        let seen_ns: u64 = reads().filter_map(|way| way.cpu_ns).sum();
        let added_ns = (counted.median_ns - uncounted.median_ns).max(0.0);
        self.call_cost = CallCost {
            added_ns,
            unseen_ns: counted.mean_ns - seen_ns as f64 / calls as f64 - added_ns,
        };
        // The counts so far stay in the maps, and are subtracted from now on.
        for (_, summed) in self.ways.values_mut() {
            summed.sums = [0.0; COUNTS];
        }
        self.order.clear();
        self.pairs.clear();
        self.calls = 0.0;
        self.self_test_totals = self.totals;
        Ok(())
    }

    /// Follows a process and all its descendants, with their threads; returns the number of processes.
    ///
    /// # Errors
    /// `NotFound` if there is no such process.
    pub fn follow(&mut self, process: u32) -> io::Result<u64> {
        let mut processes = BTreeSet::new();
        let mut threads = BTreeSet::new();
        for _ in 0..MOST_ROUNDS {
            let before = threads.len();
            for pid in self.descendants(process) {
                let Ok(tids) = self.threads_of(pid) else {
                    continue;
                };
                if processes.insert(pid) {
                    let mut map: HashMap<_, u32, u64> =
                        HashMap::try_from(self.map("processes")?).map_err(error)?;
                    map.insert(pid, 1, 0).map_err(error)?;
                    if let Ok(work) = &mut self.work {
                        work.follow(pid);
                    }
                }
                for tid in tids {
                    if threads.insert(tid) {
                        self.insert_thread(tid)?;
                    }
                }
            }
            if threads.len() == before {
                break;
            }
        }
        if threads.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(processes.len() as u64)
    }

    /// A process and all processes that descend from it.
    fn descendants(&self, process: u32) -> Vec<u32> {
        let mut found = vec![process];
        let mut at = 0;
        while at < found.len() {
            let tids = self.threads_of(found[at]).unwrap_or_default();
            for tid in tids {
                let children =
                    children::started_by_thread(&self.root, found[at], tid).unwrap_or_default();
                for child in children {
                    if !found.contains(&child) {
                        found.push(child);
                    }
                }
            }
            at += 1;
        }
        found
    }

    fn threads_of(&self, process: u32) -> io::Result<Vec<u32>> {
        let entries = fs::read_dir(self.root.join(format!("proc/{process}/task")))?;
        let names = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
        Ok(names.collect())
    }

    /// Inserts a thread into the map of threads, unless the BPF programs have done so since its fork.
    fn insert_thread(&mut self, tid: u32) -> io::Result<()> {
        // BPF_NOEXIST of linux/bpf.h.
        const NOEXIST: u64 = 1;
        let mut threads = self.threads_mut()?;
        match threads.insert(tid, [0; THREAD_WORDS], NOEXIST) {
            Err(aya::maps::MapError::SyscallError(e))
                if e.io_error.kind() == io::ErrorKind::AlreadyExists =>
            {
                Ok(())
            }
            inserted => inserted.map_err(error),
        }
    }

    /// Counts from now on.
    pub fn start(&mut self) -> io::Result<()> {
        self.start_sampling()?;
        self.set_control(OPEN)
    }

    /// Counts from the moment on at which a followed process executes a program.
    pub fn start_at_exec(&mut self) -> io::Result<()> {
        self.start_sampling()?;
        self.set_control(OPEN_AT_EXEC)
    }

    fn start_sampling(&mut self) -> io::Result<()> {
        match &mut self.work {
            Ok(work) => work.start(),
            Err(_) => Ok(()),
        }
    }

    /// Reads the last counts, and stops counting.
    pub fn stop(&mut self) -> io::Result<()> {
        if self.counting.is_empty() {
            self.end_in_pause()?;
        } else {
            self.take(clock::monotonic_ns().saturating_sub(self.slice.began_ns))?;
        }
        self.totals.cpu_ns += self.running_ns()?;
        if let Ok(work) = &mut self.work {
            work.stop()?;
            work.take();
        }
        self.set_control(0)
    }

    /// CPU time of threads that are on a CPU now, which the BPF programs add only when they leave it.
    fn running_ns(&self) -> io::Result<u64> {
        // The word `on` of `struct thread`.
        const ON: usize = 4;
        let threads = self.threads()?;
        let now = clock::monotonic_ns();
        let began = threads.iter().filter_map(|thread| Some(thread.ok()?.1[ON]));
        let running = began.filter(|on| *on > 0);
        Ok(running.map(|on| now.saturating_sub(on)).sum())
    }

    /// Sets the state of `struct control`, and begins a slice.
    fn set_control(&mut self, state: u64) -> io::Result<()> {
        let now = clock::monotonic_ns();
        self.slice = Slice {
            began_ns: now,
            ..Slice::default()
        };
        self.control()?.set(0, [now, state], 0).map_err(error)
    }

    /// Has the BPF programs forget what they saw of calls and descriptors before `now`, as it may have
    /// changed unseen.
    fn set_since(&mut self, now: u64) -> io::Result<()> {
        let mut control = self.control()?;
        let [_, is_open] = control.get(&0, 0).map_err(error)?;
        control.set(0, [now, is_open], 0).map_err(error)
    }

    fn control(&mut self) -> io::Result<Array<&mut MapData, [u64; 2]>> {
        Array::try_from(self.map("control")?).map_err(error)
    }

    fn threads(&self) -> io::Result<HashMap<&MapData, u32, [u64; THREAD_WORDS]>> {
        HashMap::try_from(self.map_ref("threads")?).map_err(error)
    }

    fn threads_mut(&mut self) -> io::Result<HashMap<&mut MapData, u32, [u64; THREAD_WORDS]>> {
        HashMap::try_from(self.map("threads")?).map_err(error)
    }

    fn attach_counting(&mut self) -> io::Result<()> {
        for name in COUNTING {
            let link = bpf::tracepoint(&mut self.object, name)?.attach();
            self.counting.push((name, link.map_err(program_error)?));
        }
        Ok(())
    }

    fn detach_counting(&mut self) -> io::Result<()> {
        for (name, link) in self.counting.drain(..) {
            let program = bpf::tracepoint(&mut self.object, name)?;
            program.detach(link).map_err(program_error)?;
        }
        Ok(())
    }

    /// Returns true until all followed threads have ended.
    pub fn is_any_running(&self) -> io::Result<bool> {
        let threads = self.threads()?;
        Ok(threads.keys().next().is_some())
    }

    /// Reads the counts ten times a second; to be called about every 10 ms. Where counting all calls
    /// would slow the program down too much, calls are counted in slices of time from then on, each of
    /// which stands for the pause before it too.
    pub fn advance(&mut self) -> io::Result<()> {
        let now = clock::monotonic_ns();
        let elapsed = now.saturating_sub(self.slice.began_ns);
        if self.counting.is_empty() {
            if elapsed >= self.slice.pause_ns {
                self.begin_slice()?;
            }
            return Ok(());
        }
        let is_after_pause = self.slice.previous_pause_ns > 0;
        let least = if is_after_pause { SLICE_NS } else { READING_NS };
        if elapsed < least {
            return Ok(());
        }
        let calls = self.read_totals()?.calls - self.totals.calls;
        let cost = calls as f64 * self.call_cost.added_ns / elapsed as f64;
        // While programs are attached, which is the end of the pause, calls are slower as well.
        let slice_ns = if is_after_pause {
            elapsed + self.slice.attaching_ns
        } else {
            SLICE_NS
        };
        let pause = slice_ns as f64 * (cost / MOST_COST - 1.0);
        let pause_ns = pause.clamp(0.0, MOST_PAUSE_NS) as u64;
        if is_after_pause || pause_ns > 0 {
            self.detach_counting()?;
        }
        let ended_ns = clock::monotonic_ns();
        self.take(ended_ns.saturating_sub(self.slice.began_ns))?;
        self.slice = Slice {
            began_ns: ended_ns,
            // Pauses of varying length do not keep step with a period of the program.
            pause_ns: pause_ns + self.totals.calls % (pause_ns / 2).max(1),
            ..Slice::default()
        };
        if is_after_pause && pause_ns == 0 {
            self.begin_slice()?;
        }
        Ok(())
    }

    /// Begins a slice after a pause, which lasts until the programs are attached: that takes the kernel
    /// some milliseconds.
    fn begin_slice(&mut self) -> io::Result<()> {
        let pause_began_ns = self.slice.began_ns;
        let attaching_began_ns = clock::monotonic_ns();
        self.set_since(attaching_began_ns)?;
        self.attach_counting()?;
        let began_ns = clock::monotonic_ns();
        self.slice = Slice {
            began_ns,
            previous_pause_ns: began_ns.saturating_sub(pause_began_ns),
            attaching_ns: began_ns.saturating_sub(attaching_began_ns),
            pause_ns: 0,
        };
        Ok(())
    }

    fn read_totals(&self) -> io::Result<Totals> {
        let totals: PerCpuArray<_, [u64; TOTALS]> =
            PerCpuArray::try_from(self.map_ref("totals")?).map_err(error)?;
        Ok(Totals::from_words(sum(&totals
            .get(&0, 0)
            .map_err(error)?)))
    }

    /// Has the last slice stand for the pause after it as well, in which counting ends.
    fn end_in_pause(&mut self) -> io::Result<()> {
        let pause_ns = clock::monotonic_ns().saturating_sub(self.slice.began_ns);
        let times = pause_ns as f64 / self.last_reading.own_ns;
        for (_, summed) in self.ways.values_mut() {
            summed.repeat(times);
        }
        for summed in self.pairs.values_mut() {
            summed.repeat(times);
        }
        self.calls += self.last_reading.calls as f64 * times;
        self.totals = self.read_totals()?;
        Ok(())
    }

    /// Adds the counts since the last reading, from a slice of this length.
    fn take(&mut self, elapsed_ns: u64) -> io::Result<()> {
        let totals = self.read_totals()?;
        let calls = totals.calls - self.totals.calls;
        // Counting slows the program down in a slice, but not in a pause.
        let slowed_ns = calls as f64 * self.call_cost.added_ns;
        let counted_ns = elapsed_ns.max(1) as f64;
        let own_ns = (counted_ns - slowed_ns).max(counted_ns / MOST_SLOWED);
        let scale = 1.0 + self.slice.previous_pause_ns as f64 / own_ns;
        self.last_reading = LastReading { calls, own_ns };
        let ways: HashMap<_, Key, u32> = HashMap::try_from(self.map_ref("ways")?).map_err(error)?;
        let numbers: Vec<(Key, u32)> = ways.iter().filter_map(Result::ok).collect();
        for (key, number) in numbers {
            let counted: PerCpuArray<_, [u64; COUNTS]> =
                PerCpuArray::try_from(self.map_ref("counted")?).map_err(error)?;
            let words = sum(&counted.get(&number, 0).map_err(error)?);
            let (_, summed) = self.ways.entry(number).or_insert((key, Summed::NONE));
            summed.add(words, scale);
            if summed.sums[0] > 0.0 && !self.order.contains(&number) {
                self.order.push(number);
            }
        }
        let pairs: HashMap<_, u32, [u64; 2]> =
            HashMap::try_from(self.map_ref("pairs")?).map_err(error)?;
        let sums: Vec<(u32, [u64; 2])> = pairs.iter().filter_map(Result::ok).collect();
        for (both, words) in sums {
            let summed = self.pairs.entry(both).or_insert(Summed::NONE);
            summed.add(words, scale);
        }
        self.calls += calls as f64 * scale;
        self.totals = totals;
        if let Ok(work) = &mut self.work {
            work.take();
        }
        Ok(())
    }

    /// All counts up to the last reading of the maps.
    pub fn counted(&self) -> Counted {
        let mut positions = BTreeMap::new();
        let mut ways = Vec::new();
        for number in &self.order {
            if let Some((key, summed)) = self.ways.get(number) {
                positions.insert(*number, ways.len());
                ways.push(way(*key, &summed.sums, self.call_cost.unseen_ns));
            }
        }
        let copy_loops = self.pairs.iter().filter_map(|(both, summed)| {
            Some(CopyLoop {
                read: *positions.get(&(both >> 16))?,
                write: *positions.get(&(both & 0xffff))?,
                calls: summed.sums[0].round() as u64,
                bytes: summed.sums[1].round() as u64,
            })
        });
        let reading = |program: &str, n: u64| match self.refused.get(program) {
            Some(why) => Reading::absent(why.clone()),
            None => Reading::Measured(n),
        };
        let totals = self.totals.since(&self.self_test_totals);
        let calls = self.calls.round() as u64;
        Counted {
            copy_loops: copy_loops.collect(),
            ways,
            totals,
            calls,
            skipped_calls: calls.saturating_sub(totals.calls),
            own_cost_ns: (totals.calls as f64 * self.call_cost.added_ns) as u64,
            faults: reading("faulted", totals.faults),
            mapped_pages: reading("mapped", totals.mapped_pages),
            work: self
                .work
                .as_ref()
                .map(WorkSampler::counted)
                .map_err(String::clone),
        }
    }

    fn map(&mut self, name: &str) -> io::Result<&mut Map> {
        let map = self.object.map_mut(name);
        map.ok_or_else(|| no_map(name))
    }

    fn map_ref(&self, name: &str) -> io::Result<&Map> {
        self.object.map(name).ok_or_else(|| no_map(name))
    }
}

fn no_map(name: &str) -> io::Error {
    io::Error::other(format!("the object has no map `{name}`"))
}

fn program_error(e: ProgramError) -> io::Error {
    bpf::in_one_line(&e)
}

fn error(e: aya::maps::MapError) -> io::Error {
    bpf::in_one_line(&e)
}
