//! CPU time of a server and of the machine between the edges of a window.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail};
use bytecost_lab::load::Stage;
use bytecost_meter::{MachineMeter, MachineSnapshot, Meter};
use bytecost_spec::{Counter, Reading};

/// The thread that a file of /proc is about is gone, errno(3).
const ESRCH: i32 = 3;

/// CPU time of the server and of the machine at both edges of the window.
pub struct Edges {
    server: u32,
    cpu_ns: [AtomicU64; 2],
    /// Time for which other threads ran on its CPU while it waited.
    waited_ns: [AtomicU64; 2],
    machine: Mutex<(MachineMeter, [Option<MachineSnapshot>; 2])>,
}

impl Edges {
    /// The edges of a server with this PID.
    pub fn new(server: u32) -> Edges {
        Edges {
            server,
            cpu_ns: Default::default(),
            waited_ns: Default::default(),
            machine: Mutex::new((MachineMeter::open(Path::new("/")), [None; 2])),
        }
    }

    /// Reads both at an edge.
    pub fn pass(&self, stage: Stage) {
        // Other stages of the load are no edges.
        let edge = if stage == Stage::WindowOpens {
            0
        } else if stage == Stage::WindowCloses {
            1
        } else {
            return;
        };
        let (cpu_ns, waited_ns) = times_of(self.server).unwrap_or((0, 0));
        self.cpu_ns[edge].store(cpu_ns, Ordering::Relaxed);
        self.waited_ns[edge].store(waited_ns, Ordering::Relaxed);
        if let Ok(mut machine) = self.machine.lock() {
            let snapshot = match edge {
                0 => machine.0.read_start(),
                _ => machine.0.read_end(),
            };
            machine.1[edge] = Some(snapshot);
        }
    }

    /// CPU time of the server within the window.
    pub fn cpu_ns(&self) -> Result<f64> {
        let [from, to] = [0, 1].map(|edge: usize| self.cpu_ns[edge].load(Ordering::Relaxed));
        if from == 0 || to <= from {
            bail!("the server used no CPU time that could be read: is the window too short?");
        }
        Ok((to - from) as f64)
    }

    /// Time within the window for which a server of one thread ran or waited for its CPU.
    pub fn wanted_ns(&self) -> Result<f64> {
        let [from, to] = [0, 1].map(|edge: usize| self.waited_ns[edge].load(Ordering::Relaxed));
        Ok(self.cpu_ns()? + to.saturating_sub(from) as f64)
    }

    /// The share of the machine that anything but server and generator used.
    pub fn others(&self, own_ns: f64) -> Option<f64> {
        let machine = self.machine.lock().ok()?;
        let [Some(start), Some(end)] = machine.1 else {
            return None;
        };
        let readings = machine.0.difference(&start, &end);
        let get = |counter| {
            readings
                .get(&counter)
                .and_then(Reading::measured)
                .map(|n| n as f64)
        };
        let capacity = get(Counter::MachineElapsedNs)? * get(Counter::MachineCpus)?;
        Some(((get(Counter::MachineBusyNs)? - own_ns) / capacity).max(0.0))
    }
}

/// CPU time of all threads of a process, and time for which they were ready and waited for a CPU,
/// in ns: the first two numbers of `/proc/PID/task/*/schedstat`, which for a thread that runs just
/// now are those of the last tick.
fn times_of(pid: u32) -> Result<(u64, u64)> {
    let (mut cpu_ns, mut waited_ns) = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = match fs::read_to_string(task?.path().join("schedstat")) {
            // A thread may end once it is listed, before it is opened or before it is read.
            Err(e) if e.kind() == ErrorKind::NotFound || e.raw_os_error() == Some(ESRCH) => {
                continue;
            }
            text => text?,
        };
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        for sum in [&mut cpu_ns, &mut waited_ns] {
            *sum += numbers.next().context("schedstat has no number")??;
        }
    }
    Ok((cpu_ns, waited_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_cpu_time_of_a_process_is_that_of_all_its_threads() {
        let spin = || {
            let end = bytecost_sys::clock::thread_cpu_ns() + 50_000_000;
            while bytecost_sys::clock::thread_cpu_ns() < end {}
        };
        // Both are there when it is read; other tests' threads may be too, and end meanwhile.
        spin();
        thread::scope(|scope| {
            scope.spawn(|| {
                spin();
                let all = times_of(std::process::id()).unwrap().0;
                assert!(all >= 80_000_000, "{all}");
            });
        });
        assert!(times_of(u32::MAX).is_err());
    }
}
