//! What `bytecost doctor` tells: for each fact what it means for results and what to do.
//!
//! A new fact is a function in `checks/` and its row. It reads below `Roots`, so that a test gives it
//! a /proc and /sys of its own (`tests/doctor.rs`). What results must know of it is a field of `Host`.

use bytecost_spec::Nearness::{CrossCache, CrossNode, SameCache, SameCpu, SmtSibling};
use bytecost_spec::host::{Check, Level, Obstacle};
use bytecost_spec::survey::CpuClock;
use bytecost_spec::units::count;
use bytecost_spec::{CircumstanceKind, Host};

use crate::capabilities::Capabilities;
use crate::roots::Roots;

/// What was read; where nothing could be, the check ends with that and what is not known by it.
macro_rules! known {
    ($read:expr, $means:expr) => {
        match $read {
            Ok(read) => read,
            Err(why) => return Told::unknown(why, $means),
        }
    };
}

mod isolation;
mod noise;
mod permits;
mod placements;
mod process;
mod processor;
mod way;

const MOST_CHARS: usize = 400;

/// What only system calls can tell; the caller tries and measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Probes {
    /// Whether a hardware event could be opened, kernel included; else why not.
    pub hardware_counters: Result<(), String>,
    /// Whether a ring could be set up; else why not.
    pub io_uring: Result<(), String>,
    /// Resolution of CLOCK_MONOTONIC (clock_getres(2)), in ns.
    pub clock_resolution_ns: u64,
    /// How much later than asked a short sleep ends, typically, in ns.
    pub timer_overshoot_ns: u64,
    /// What is in the way of packets over loopback.
    pub obstacles: Vec<Obstacle>,
    /// What of that could not be looked at, each with the reason.
    pub unseen: Vec<String>,
    /// What the CPU clock of a thread counts.
    pub cpu_clock: CpuClock,
    /// Congestion controls that this process may set.
    pub congestion_controls: Vec<String>,
}

pub(crate) struct CheckInput<'a> {
    pub(crate) roots: &'a Roots,
    pub(crate) probes: &'a Probes,
    pub(crate) host: &'a Host,
    pub(crate) capabilities: Capabilities,
}

type Row = (&'static str, fn(&CheckInput<'_>) -> Told);

const ROWS: &[Row] = &[
    ("kernel", processor::kernel),
    ("CPUs", processor::cpus),
    ("kinds of cores", processor::kinds),
    ("caches", processor::caches),
    ("SMT", processor::smt),
    ("NUMA", processor::nodes),
    ("same-cpu", |seen| placements::told(seen, SameCpu)),
    ("smt-sibling", |seen| placements::told(seen, SmtSibling)),
    ("same-cache", |seen| placements::told(seen, SameCache)),
    ("cross-cache", |seen| placements::told(seen, CrossCache)),
    ("cross-node", |seen| placements::told(seen, CrossNode)),
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
    ("loopback", way::loopback),
    ("packet filters", way::filters),
    ("bounds of socket buffers", way::socket_memory),
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

pub(crate) fn all(seen: &CheckInput<'_>) -> Vec<Check> {
    ROWS.iter()
        .map(|(name, look)| {
            let told = look(seen);
            Check {
                name: (*name).to_owned(),
                found: tidy(&told.found),
                level: told.level,
                means: tidy(&told.means),
                remedy: told.remedy.as_deref().map(tidy),
            }
        })
        .collect()
}

struct Told {
    found: String,
    level: Level,
    means: String,
    remedy: Option<String>,
}

impl Told {
    fn new(level: Level, found: impl Into<String>, means: impl Into<String>) -> Told {
        Told {
            found: found.into(),
            level,
            means: means.into(),
            remedy: None,
        }
    }

    fn good(found: impl Into<String>, means: impl Into<String>) -> Told {
        Told::new(Level::Good, found, means)
    }

    fn note(found: impl Into<String>, means: impl Into<String>) -> Told {
        Told::new(Level::Note, found, means)
    }

    fn warning(found: impl Into<String>, means: impl Into<String>) -> Told {
        Told::new(Level::Warning, found, means)
    }

    /// A circumstance that was found, with what its row says of it.
    fn disturbed(kind: CircumstanceKind, found: impl Into<String>) -> Told {
        let row = kind.row();
        Told::warning(found, row.means).remedy(row.remedy)
    }

    /// What could not be read, and what therefore is not known.
    fn unknown(why: impl Into<String>, means: impl Into<String>) -> Told {
        Told::new(Level::Note, format!("not known: {}", why.into()), means)
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Told {
        self.remedy = Some(remedy.into());
        self
    }
}

/// One line without control characters, not endless: what stands in a file is not ours.
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
    fn what_is_told_is_one_line_of_bounded_length() {
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
