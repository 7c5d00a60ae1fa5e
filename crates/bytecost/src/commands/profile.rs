//! `bytecost profile`: how a running program, or a command, moves its bytes.

mod without_root;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use bytecost_analysis::CaveatKind;
use bytecost_analysis::profile::{Price, Priced, advice};
use bytecost_evidence::Profiler;
use bytecost_evidence::profile::Counted;
use bytecost_host::Roots;
use bytecost_report::ProfileReport;
use bytecost_spec::profile::{Moment, Profile};
use bytecost_spec::round::MachineKernel;
use bytecost_spec::{Host, Reading, Transport, units};
use bytecost_store::Root;
use bytecost_sys::child_end;
use bytecost_sys::held_command::HeldCommand;
use rustix::process::{Pid, Signal, kill_process};

use crate::args::ProfileArgs;
use crate::failure::{Exit, bad_input, check_time};
use crate::recorded_run::{RecordedRun, newest_runs};
use crate::{machine, signals, terminal};
use without_root::ProcessTree;

/// Time between two readings of the counts.
const TICK: Duration = Duration::from_millis(250);
/// Time between two checks that the program still runs.
const POLL: Duration = Duration::from_millis(10);
/// The most moments that are kept.
const MOST_MOMENTS: usize = 400;
/// Time that a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);
const PAGE_BYTES: u64 = 4096;

/// Profiles a program until it ends, its time is over, or Ctrl-C; prints the profile and keeps it.
pub fn run(args: ProfileArgs) -> Result<Exit> {
    if let Some(time) = args.time {
        check_time("--for", time, Duration::from_millis(100)..)?;
    }
    let stop = signals::stop_flag()?;
    let is_command = !args.command.is_empty();
    let profile = match args.pid {
        Some(pid) => attached(pid, args.time, &stop)?,
        None => started(&args.command, args.time, &stop)?,
    };
    let root = Root::at(&args.root.runs_dir);
    let machine = bytecost_host::machine_kernel(&Roots::real());
    let boot = bytecost_host::boot_id(&Roots::real());
    let is_of_now =
        |host: &Host| MachineKernel::from_host(host) == machine && host.identity.boot_id == boot;
    let advice = advice(&profile, &mut |price, bytes, transport| {
        price_of_newest_run(&root, &is_of_now, price, bytes, transport)
    });
    let report = ProfileReport::new(profile, advice);
    let mut text = if args.json {
        report.json()
    } else {
        report.screen(terminal::style())
    };
    match keep(&root, &report) {
        Ok(page) if !args.json => text += &format!("\nFull report  {}\n", page.display()),
        Ok(_) => {}
        Err(why) => super::note(format!("the profile is not kept: {why:#}")),
    }
    // A command's standard output is its own.
    if is_command {
        super::print_lines_to_stderr(&text);
    } else {
        super::print(&text)?;
    }
    Ok(Exit::Done)
}

/// Shows a kept profile again.
pub fn show_again(text: &str, name: &str, json: bool) -> Result<Exit> {
    let report = ProfileReport::parse(text).map_err(|why| bad_input(format!("{name}: {why}")))?;
    super::printed(&if json {
        report.json()
    } else {
        report.screen(terminal::style())
    })
}

/// Writes a profile and its page under the root; gives the page's path.
fn keep(root: &Root, report: &ProfileReport) -> Result<PathBuf> {
    let texts = [
        ("profile.json", report.json()),
        ("report.html", report.page()),
    ];
    let files = texts
        .each_ref()
        .map(|(name, text)| (*name, text.as_bytes()));
    Ok(root
        .keep_profile(&machine::now()?, &files)?
        .join("report.html"))
}

/// The price of a pattern by the newest run of this machine, boot and kernel that has measured both
/// ways, with its name: one whose caveats withhold it only where no other has it.
fn price_of_newest_run(
    root: &Root,
    is_of_now: &dyn Fn(&Host) -> bool,
    price: &Price,
    bytes: f64,
    transport: Transport,
) -> Option<(String, Result<Priced, CaveatKind>)> {
    let mut withheld = None;
    for run in newest_runs(root, price.study) {
        if !is_of_now(&run.manifest().host) {
            continue;
        }
        let Ok(recorded) = RecordedRun::read(&run) else {
            continue;
        };
        let name = run.manifest().id.clone();
        match bytecost_analysis::profile::measured_price(
            recorded.input(None),
            price,
            bytes,
            transport,
        ) {
            Some(Ok(priced)) => return Some((name, Ok(priced))),
            Some(Err(kind)) => {
                withheld = withheld.or(Some((name, Err(kind))));
            }
            None => {}
        }
    }
    withheld
}

/// The source of numbers: counted calls, or what `/proc` has for any user.
enum Means {
    Calls(Box<Profiler>),
    Proc { tree: ProcessTree, why: String },
}

/// The counter of calls, or the reason why there is none.
fn profiler() -> Result<Profiler, String> {
    Profiler::open(Path::new("/")).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "it needs root, or CAP_BPF and CAP_PERFMON: run it with sudo".to_owned()
        }
        _ => e.to_string(),
    })
}

fn attached(pid: u32, time: Option<Duration>, stop: &AtomicBool) -> Result<Profile> {
    let name = process_name(pid)?;
    let mut processes = 1;
    let means = match profiler() {
        Ok(mut profiler) => {
            processes = profiler.follow(pid).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => no_process(pid),
                _ => e.into(),
            })?;
            profiler.start()?;
            Means::Calls(Box::new(profiler))
        }
        Err(why) => {
            let tree = ProcessTree::new(pid).map_err(|e| match e.kind() {
                io::ErrorKind::PermissionDenied => bad_input(format!(
                    "process {pid} belongs to another user, and the kernel lets nobody but its owner and root look at it: run it with sudo"
                )),
                _ => no_process(pid),
            })?;
            Means::Proc { tree, why }
        }
    };
    Ok(observe(name, processes, means, time, stop, None)?.0)
}

fn started(command: &[OsString], time: Option<Duration>, stop: &AtomicBool) -> Result<Profile> {
    let words = command.iter().map(|word| word.to_string_lossy());
    let name = units::one_line(&words.collect::<Vec<_>>().join(" "));
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]);
    let held = HeldCommand::fork(process).context("a process for the command")?;
    let means = match profiler() {
        Ok(mut profiler) => {
            profiler.follow(held.process())?;
            profiler.start_at_exec()?;
            Means::Calls(Box::new(profiler))
        }
        Err(why) => Means::Proc {
            tree: ProcessTree::of_this_process()?,
            why,
        },
    };
    let child = held
        .begin()
        .map_err(|e| bad_input(format!("{}: {e}", command[0].to_string_lossy())))?;
    let (profile, child) = observe(name, 1, means, time, stop, Some(child))?;
    if let Some(child) = child {
        end(child)?;
    }
    Ok(profile)
}

/// Asks a command that still runs to end.
fn end(mut child: Child) -> Result<()> {
    if child.try_wait()?.is_none()
        && let Some(pid) = Pid::from_raw(child.id() as i32)
    {
        // One that has ended meanwhile needs no signal.
        let _ = kill_process(pid, Signal::TERM);
    }
    match child_end::wait_for(&mut child, GRACE)? {
        None => super::note(format!(
            "the command still runs as process {}: it did not end on SIGTERM",
            child.id()
        )),
        Some(status) if !status.success() && status.signal() != Some(15) => {
            super::note(format!("the command ended with {status}"));
        }
        Some(_) => {}
    }
    Ok(())
}

fn observe(
    program: String,
    processes: u64,
    mut means: Means,
    time: Option<Duration>,
    stop: &AtomicBool,
    mut child: Option<Child>,
) -> Result<(Profile, Option<Child>)> {
    let began_s = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let began = Instant::now();
    let mut moments = Moments::default();
    let mut next_reading = began + TICK;
    loop {
        let left = time.map(|time| time.saturating_sub(began.elapsed()));
        let is_over = left.is_some_and(|left| left.is_zero());
        // A child that has ended must be waited for, or it stays in the table.
        let child_ended = match &mut child {
            Some(child) => child.try_wait()?.is_some(),
            None => false,
        };
        let has_ended = match &means {
            Means::Calls(profiler) => !profiler.is_any_running()?,
            Means::Proc { tree, .. } => child_ended || !tree.is_running(),
        };
        if has_ended || is_over || stop.load(Ordering::Relaxed) {
            break;
        }
        let is_due = Instant::now() >= next_reading;
        match &mut means {
            Means::Calls(profiler) => {
                profiler.advance()?;
                if is_due {
                    moments.add(&profiler.counted(), began.elapsed());
                }
            }
            Means::Proc { tree, .. } if is_due => tree.advance(),
            Means::Proc { .. } => {}
        }
        if is_due {
            next_reading += TICK;
        }
        thread::sleep(left.map_or(POLL, |left| left.min(POLL)));
    }
    let elapsed = began.elapsed();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let observation = Observation {
        program,
        processes,
        began_s,
        elapsed,
        kernel: kernel.trim().to_owned(),
    };
    let profile = match means {
        Means::Calls(mut profiler) => {
            profiler.stop()?;
            let counted = profiler.counted();
            moments.add(&counted, elapsed);
            observation.with_counts(counted, moments.all)
        }
        Means::Proc { mut tree, why } => {
            tree.advance();
            observation.with_proc(&tree, why)
        }
    };
    Ok((profile, child))
}

/// The facts of a profile that do not depend on its source of numbers.
struct Observation {
    program: String,
    processes: u64,
    began_s: u64,
    elapsed: Duration,
    kernel: String,
}

impl Observation {
    fn with_counts(self, counted: Counted, moments: Vec<Moment>) -> Profile {
        let totals = counted.totals;
        let mapped_bytes = match counted.mapped_pages {
            Reading::Measured(pages) => Reading::Measured(pages * PAGE_BYTES),
            absent @ Reading::Absent { .. } => absent,
        };
        let (work, work_absent) = match counted.work {
            Ok(work) => (work, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Profile {
            work,
            work_absent,
            ways: counted.ways,
            copy_loops: counted.copy_loops,
            cpu_ns: totals.cpu_ns.saturating_sub(counted.own_cost_ns),
            processes: self.processes + totals.processes,
            faults: counted.faults,
            mapped_bytes,
            calls: counted.calls,
            skipped_calls: counted.skipped_calls,
            lost_calls: totals.lost,
            compat_calls: totals.compat,
            own_cost_ns: counted.own_cost_ns,
            not_counted: None,
            moments,
            ..self.empty(String::new())
        }
    }

    fn with_proc(self, tree: &ProcessTree, why: String) -> Profile {
        Profile {
            cpu_ns: tree.cpu_ns(),
            process_io: Some(tree.io()),
            ..self.empty(why)
        }
    }

    /// A profile without a count, for this reason.
    fn empty(self, why: String) -> Profile {
        Profile {
            bytecost: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: self.kernel,
            program: self.program,
            began_s: self.began_s,
            elapsed_ns: self.elapsed.as_nanos() as u64,
            cpu_ns: 0,
            processes: self.processes,
            ways: Vec::new(),
            copy_loops: Vec::new(),
            mapped_bytes: Reading::absent(&why),
            work: Vec::new(),
            work_absent: Some(why.clone()),
            faults: Reading::absent(&why),
            process_io: None,
            not_counted: Some(why),
            calls: 0,
            skipped_calls: 0,
            lost_calls: 0,
            compat_calls: 0,
            own_cost_ns: 0,
            moments: Vec::new(),
        }
    }
}

/// Bytes over time, at even distances: with too many, every second one is dropped.
#[derive(Default)]
struct Moments {
    all: Vec<Moment>,
    /// Readings from one to the next, as a power of two.
    power: u32,
    readings: u64,
}

impl Moments {
    fn add(&mut self, counted: &Counted, at: Duration) {
        self.readings += 1;
        if !self.readings.is_multiple_of(1 << self.power) {
            return;
        }
        self.all.push(Moment {
            at_ms: at.as_millis() as u64,
            bytes: counted.ways.iter().map(|way| way.bytes).collect(),
        });
        if self.all.len() == MOST_MOMENTS {
            self.power += 1;
            let all = std::mem::take(&mut self.all).into_iter();
            self.all = all.skip(1).step_by(2).collect();
        }
    }
}

fn no_process(pid: u32) -> anyhow::Error {
    bad_input(format!("there is no process {pid}"))
}

/// The name of a process that can be looked at, or the reason why it cannot.
fn process_name(pid: u32) -> Result<String> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let name = fs::read_to_string(folder.join("comm")).map_err(|_| no_process(pid))?;
    let name = units::one_line(name.trim_end());
    if fs::read(folder.join("cmdline")).is_ok_and(|words| words.is_empty())
        && fs::read_link(folder.join("exe")).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    {
        return Err(bad_input(format!(
            "process {pid} ({name}) is a thread of the kernel, which makes no system calls"
        )));
    }
    const ELF_CLASS_32: u8 = 1;
    let header = read_first(&folder.join("exe"));
    if header.is_some_and(|header| header[..4] == *b"\x7fELF" && header[4] == ELF_CLASS_32) {
        return Err(bad_input(format!(
            "process {pid} ({name}) is a 32-bit program, whose system calls have other numbers: they are not counted"
        )));
    }
    Ok(name)
}

fn read_first(path: &Path) -> Option<[u8; 5]> {
    use std::io::Read as _;
    let mut first = [0; 5];
    fs::File::open(path).ok()?.read_exact(&mut first).ok()?;
    Some(first)
}
