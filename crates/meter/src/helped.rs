//! The meter of a thread whose work another process does.

use std::ffi::CStr;
use std::fs::File;
use std::mem::MaybeUninit;

use bytecost_spec::{Counter, Reading, Readings};
use bytecost_sys::process::ThreadUsage;
use bytecost_sys::{clock, proc_view};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};

use crate::thread::{Snapshot, ThreadMeter};
use crate::{Meter, increase_if_read, proc_text, usage};

const HELPER: &str =
    "a process of its own does the work, which this counter of a thread does not see";
const UNREADABLE: &str = "what /proc says of the process that does the work could not be read";

/// A meter of a thread and of the process that works for it. A counter that both have is their sum;
/// others are absent. The process's CPU time is [`Counter::WorkersNs`], up to the last tick of each CPU;
/// its user and system time have steps of 10 ms (USER_HZ, proc_pid_stat(5)). Context switches of threads
/// that ended within the window are lost.
#[derive(Debug)]
pub struct HelpedMeter {
    thread: ThreadMeter,
    pid: u32,
    stat: Option<File>,
    tasks: Option<File>,
    stat_ns: u64,
}

/// A read of a [`HelpedMeter`].
#[derive(Clone, Copy, Debug)]
pub struct HelpedSnapshot {
    thread: Snapshot,
    cpu_ns: Option<u64>,
    used: Option<ThreadUsage>,
}

impl HelpedMeter {
    /// Adds to a thread's meter the process `pid`, which the thread has started.
    pub fn new(thread: ThreadMeter, pid: u32) -> HelpedMeter {
        let dir = proc_view::directory(pid);
        let open = |name| File::open(dir.as_ref()?.join(name)).ok();
        HelpedMeter {
            thread,
            pid,
            stat: open("stat"),
            tasks: open("task"),
            stat_ns: clock::proc_stat_unit_ns(),
        }
    }

    /// The usage of all threads, including ended ones, from `stat`: without context switches.
    fn used(&self) -> Option<ThreadUsage> {
        let mut buffer = [0_u8; 1024];
        let stat = proc_text::reread(self.stat.as_ref()?, &mut buffer)?;
        proc_text::usage(stat, self.stat_ns)
    }

    /// The context switches of all living threads: voluntary, involuntary.
    fn switches(&self) -> Option<[u64; 2]> {
        let tasks = self.tasks.as_ref()?;
        rustix::fs::seek(tasks, SeekFrom::Start(0)).ok()?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(tasks, &mut buffer);
        let mut sums = [0_u64; 2];
        while let Some(entry) = entries.next() {
            let entry = entry.ok()?;
            if entry.file_name().to_bytes().starts_with(b".") {
                continue;
            }
            // A thread may end after it was listed.
            let of_thread = thread_switches(tasks, entry.file_name()).unwrap_or_default();
            for (sum, switches) in sums.iter_mut().zip(of_thread) {
                *sum = sum.saturating_add(switches);
            }
        }
        Some(sums)
    }
}

fn with_switches(used: Option<ThreadUsage>, switches: Option<[u64; 2]>) -> Option<ThreadUsage> {
    let [switches_voluntary, switches_involuntary] = switches?;
    Some(ThreadUsage {
        switches_voluntary,
        switches_involuntary,
        ..used?
    })
}

fn thread_switches(tasks: &File, name: &CStr) -> Option<[u64; 2]> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(tasks, name, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let status = rustix::fs::openat(dir, c"status", flags, Mode::empty()).ok()?;
    let mut buffer = [0_u8; 4096];
    proc_text::switches(proc_text::reread(&File::from(status), &mut buffer)?)
}

impl Meter for HelpedMeter {
    type Snapshot = HelpedSnapshot;

    fn read_start(&mut self) -> HelpedSnapshot {
        let switches = self.switches();
        HelpedSnapshot {
            used: with_switches(self.used(), switches),
            cpu_ns: clock::process_cpu_ns_of(self.pid).ok(),
            thread: self.thread.read_start(),
        }
    }

    fn read_end(&mut self) -> HelpedSnapshot {
        HelpedSnapshot {
            thread: self.thread.read_end(),
            cpu_ns: clock::process_cpu_ns_of(self.pid).ok(),
            used: with_switches(self.used(), self.switches()),
        }
    }

    fn difference(&self, start: &HelpedSnapshot, end: &HelpedSnapshot) -> Readings {
        let workers = increase_if_read(start.cpu_ns, end.cpu_ns, UNREADABLE);
        let of_thread = self.thread.difference(&start.thread, &end.thread);
        let readings = of_thread.into_iter().map(|(counter, own)| {
            let (start, end) = (start.used.as_ref(), end.used.as_ref());
            let reading = match usage::between(counter, start, end, UNREADABLE) {
                Some(of_helper) if of_helper.measured().is_none() => of_helper,
                Some(of_helper) => own.plus(&of_helper),
                None if matches!(counter, Counter::ElapsedNs | Counter::CpuNs) => own,
                None => Reading::absent(HELPER),
            };
            (counter, reading)
        });
        readings.chain([(Counter::WorkersNs, workers)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    /// A shell that runs scripts one after the other.
    struct Shell(Child, BufReader<std::process::ChildStdout>);

    impl Shell {
        fn new() -> Shell {
            let mut child = Command::new("sh")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            Shell(child, out)
        }

        fn run(&mut self, script: &str) {
            let mut stdin = self.0.stdin.as_ref().unwrap();
            writeln!(stdin, "{script}; echo done").unwrap();
            let mut line = String::new();
            self.1.read_line(&mut line).unwrap();
            assert_eq!(line, "done\n");
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_work_of_the_helper_is_added_to_the_thread_s_own() {
        let mut shell = Shell::new();
        shell.run("work() { i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; }");
        let pid = shell.0.id();
        let mut meter = HelpedMeter::new(ThreadMeter::open_without_perf(), pid);
        let used = || clock::process_cpu_ns_of(pid).unwrap();
        let before = used();
        let start = meter.read_start();
        let (begun, own) = (used(), clock::thread_cpu_ns());
        shell.run("sleep 0.01; work");
        let (ended, own) = (used(), clock::thread_cpu_ns() - own);
        let end = meter.read_end();
        let after = used();
        let readings = meter.difference(&start, &end);
        let read = |counter| readings[&counter].measured().unwrap();
        assert!(begun > 0 && ended > begun);
        let worked = ended - begun;
        assert!((worked..=after - before).contains(&read(Counter::WorkersNs)));
        assert!(read(Counter::CpuNs) >= own);
        let split = read(Counter::UserNs) + read(Counter::SystemNs);
        assert!(split + 40_000_000 > worked, "{split} of {worked}");
        // It has waited for the sleep.
        assert!(read(Counter::ContextSwitchesVoluntary) >= 1);
        for (counter, _) in usage::OF_PROCESS {
            assert!(readings[&counter].measured().is_some(), "{counter:?}");
        }
        for counter in [Counter::Migrations, Counter::TaskClockNs, Counter::Cycles] {
            assert_eq!(readings[&counter], Reading::absent(HELPER));
        }
    }

    #[test]
    fn counters_of_an_ended_helper_are_absent() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let mut meter = HelpedMeter::new(ThreadMeter::open_without_perf(), child.id());
        let (start, end) = (meter.read_start(), meter.read_end());
        let readings = meter.difference(&start, &end);
        assert!(readings[&Counter::ElapsedNs].measured().is_some());
        let of_process = usage::OF_PROCESS.map(|(counter, _)| counter);
        for counter in of_process.iter().chain([&Counter::WorkersNs]) {
            assert_eq!(readings[counter], Reading::absent(UNREADABLE));
        }
    }
}
