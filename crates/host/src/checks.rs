//! The checks of `bytecost doctor`: each rates one fact of the machine, says what it means for
//! results, and gives a remedy where there is one.
//!
//! A new check is a function in `checks/` and its row in [`ROWS`]. It reads files below `Roots`, so
//! that a test gives it a /proc and /sys of its own (`tests/doctor.rs`). A fact that results depend
//! on is a field of `Host` as well.

use bytecost_spec::Nearness::{CrossCache, CrossNode, SameCache, SameCpu, SmtSibling};
use bytecost_spec::host::{Check, Level, Obstacle};
use bytecost_spec::survey::CpuClock;
use bytecost_spec::units::count;
use bytecost_spec::{CircumstanceKind, Host};

use crate::capabilities::Capabilities;
use crate::roots::Roots;

/// The value of a reading; where it failed, the check returns early with the reason.
macro_rules! known {
    ($read:expr, $means:expr) => {
        match $read {
            Ok(read) => read,
            Err(why) => return Assessment::unknown(why, $means),
        }
    };
}

mod isolation;
mod noise;
mod packet_path;
mod permits;
mod placements;
mod process;
mod processor;

/// The longest text of a check, in characters.
const MOST_CHARS: usize = 400;

/// Results of system calls and short measurements on this machine, made by the caller: this crate
/// itself reads files alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Probes {
    /// Ok if a hardware event that counts inside the kernel could be opened (perf_event_open(2)).
    pub hardware_counters: Result<(), String>,
    /// Ok if io_uring_setup(2) succeeded.
    pub io_uring: Result<(), String>,
    /// Resolution of CLOCK_MONOTONIC (clock_getres(2)), in ns.
    pub clock_resolution_ns: u64,
    /// Median delay of the end of a short sleep behind the time asked for, in ns.
    pub timer_overshoot_ns: u64,
    /// Queueing disciplines, filters and limits on the path of packets over loopback.
    pub obstacles: Vec<Obstacle>,
    /// Parts of the path of packets that could not be inspected, each with the reason.
    pub unseen: Vec<String>,
    /// A comparison of the CPU clock of a thread with elapsed time.
    pub cpu_clock: CpuClock,
    /// Congestion controls that this process may set.
    pub congestion_controls: Vec<String>,
}

/// The sources of a check: files, the caller's probes, and the host as far as it is read.
pub(crate) struct CheckInput<'a> {
    pub(crate) roots: &'a Roots,
    pub(crate) probes: &'a Probes,
    pub(crate) host: &'a Host,
    pub(crate) capabilities: Capabilities,
}

/// The name of a check, which `bytecost doctor` prints, and its function.
type Row = (&'static str, fn(&CheckInput<'_>) -> Assessment);

/// The table of checks, in the order in which `bytecost doctor` prints them.
const ROWS: &[Row] = &[
    ("kernel", processor::kernel),
    ("CPUs", processor::cpus),
    ("kinds of cores", processor::kinds),
    ("caches", processor::caches),
    ("SMT", processor::smt),
    ("NUMA", processor::nodes),
    ("same-cpu", |input| placements::nearness(input, SameCpu)),
    ("smt-sibling", |input| {
        placements::nearness(input, SmtSibling)
    }),
    ("same-cache", |input| placements::nearness(input, SameCache)),
    ("cross-cache", |input| {
        placements::nearness(input, CrossCache)
    }),
    ("cross-node", |input| placements::nearness(input, CrossNode)),
    ("offline CPUs", placements::offline),
    ("isolated CPUs", placements::isolated),
    ("memory nodes", placements::memory),
    ("virtualization", processor::virtualization),
    ("frequency governor", processor::governor),
    ("turbo", processor::turbo),
    ("mitigations", processor::mitigations),
    ("hardware counters", permits::hardware_counters),
    ("perf_event_paranoid", permits::perf_event_paranoid),
    ("capabilities", permits::capabilities),
    ("tracer", process::tracer),
    ("nice value", process::nice),
    ("scheduler class", process::class),
    ("threads and processes", process::threads),
    ("limits of a process", process::limits),
    ("locked memory", permits::locked_memory),
    ("optmem", permits::optmem),
    ("socket buffers", permits::socket_buffers),
    ("open files", permits::open_files),
    ("io_uring", permits::io_uring),
    ("congestion control", permits::congestion),
    ("packet sockets", permits::packet_sockets),
    ("listen queue", permits::listen_queue),
    ("ports", permits::ports),
    ("loopback", packet_path::loopback),
    ("packet filters", packet_path::filters),
    ("bounds of socket buffers", packet_path::socket_memory),
    ("scheduler classes", isolation::classes),
    ("control groups", isolation::groups),
    ("CPU quota", noise::quota),
    ("other processes", noise::other_processes),
    ("load", noise::load),
    ("steal", noise::steal),
    ("clock source", noise::clock_source),
    ("clock resolution", noise::clock_resolution),
    ("CPU clock", noise::cpu_clock),
    ("timers", noise::timers),
    ("huge pages", noise::huge_pages),
    ("NUMA balancing", noise::numa_balancing),
    ("swap", noise::swap),
    ("memory", noise::memory),
];

/// The results of all checks on a machine, in the order of [`ROWS`].
pub(crate) fn all(input: &CheckInput<'_>) -> Vec<Check> {
    ROWS.iter()
        .map(|(name, check)| {
            let assessment = check(input);
            Check {
                name: (*name).to_owned(),
                found: tidy(&assessment.found),
                level: assessment.level,
                means: tidy(&assessment.means),
                remedy: assessment.remedy.as_deref().map(tidy),
            }
        })
        .collect()
}

/// The result of one check; [`Check`] is this with the name of its row.
struct Assessment {
    found: String,
    level: Level,
    means: String,
    remedy: Option<String>,
}

impl Assessment {
    fn new(level: Level, found: impl Into<String>, means: impl Into<String>) -> Assessment {
        Assessment {
            found: found.into(),
            level,
            means: means.into(),
            remedy: None,
        }
    }

    fn good(found: impl Into<String>, means: impl Into<String>) -> Assessment {
        Assessment::new(Level::Good, found, means)
    }

    fn note(found: impl Into<String>, means: impl Into<String>) -> Assessment {
        Assessment::new(Level::Note, found, means)
    }

    fn warning(found: impl Into<String>, means: impl Into<String>) -> Assessment {
        Assessment::new(Level::Warning, found, means)
    }

    /// A warning of a circumstance that was found, with the meaning and remedy of the circumstance's kind.
    fn disturbed(kind: CircumstanceKind, found: impl Into<String>) -> Assessment {
        let row = kind.row();
        Assessment::warning(found, row.means).remedy(row.remedy)
    }

    /// A note that a source could not be read, with the consequence for results.
    fn unknown(why: impl Into<String>, means: impl Into<String>) -> Assessment {
        Assessment::new(Level::Note, format!("not known: {}", why.into()), means)
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Assessment {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The text as one line without control characters, at most [`MOST_CHARS`] long: it may come from
/// a file that any program has written.
fn tidy(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    if line.chars().count() <= MOST_CHARS {
        return line;
    }
    let start: String = line.chars().take(MOST_CHARS - 1).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_line_of_bounded_length() {
        assert_eq!(tidy(" a\n\tb\u{1b}[31m c\0"), "a b [31m c");
        assert_eq!(tidy(&"é".repeat(1000)).chars().count(), MOST_CHARS);
    }

    #[test]
    fn every_check_has_a_name_of_its_own() {
        for (i, (name, _)) in ROWS.iter().enumerate() {
            assert!(ROWS[..i].iter().all(|(n, _)| n != name), "{name}");
        }
    }
}
