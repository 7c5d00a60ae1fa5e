//! What was found by trying on this machine, kept for the next command of the same user while this
//! is the same: boot and build, what the process may do, its control group, namespaces and limits,
//! the settings and modules of the kernel, the file system of the directory of test files, the Java
//! in PATH.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::{self, Builder};

use bytecost_engine::java;
use bytecost_host::Roots;
use bytecost_lab::files::Files;
use bytecost_lab::limits::joined;
use bytecost_lab::survey::{helped_as_one, one_helped, survey};
use bytecost_lab::{file_survey, program, server_survey, unit_costs};
use bytecost_spec::survey::{ClockVerdict, UnitCost};
use bytecost_spec::{Host, Survey, Transport};
use bytecost_store::known_or;
use itertools::Itertools as _;

use crate::history::user_directory;

/// The files, in the user's directory of caches.
const WORKS: &str = "works.json";
const COSTS: &str = "unit-costs.json";

/// What of its status says what a process may do, and who it is.
const STATUS: &[&str] = &[
    "Uid",
    "Gid",
    "Groups",
    "CapEff",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
];
const NAMESPACES: &[&str] = &["cgroup", "ipc", "mnt", "net", "pid", "user"];
/// Settings of the kernel that forbid something, in /proc/sys.
const SETTINGS: &[&str] = &[
    "kernel/apparmor_restrict_unprivileged_userns",
    "kernel/io_uring_disabled",
    "kernel/perf_event_paranoid",
    "kernel/pid_max",
    "kernel/threads-max",
    "kernel/unprivileged_bpf_disabled",
    "net/core/optmem_max",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_allowed_congestion_control",
    "net/ipv4/tcp_available_congestion_control",
    "user/max_net_namespaces",
];

/// What works of all that there is, tried where it is not known, and in any case if `fresh`.
pub fn works(fresh: bool) -> Survey {
    let dir = std::env::temp_dir();
    let under = [process(), kernel(), files(&dir), of_java()].concat();
    known_or(place().as_deref(), WORKS, &under, fresh, || {
        everything(&dir)
    })
}

/// What one event of each kind costs on this machine, measured where that is not known, and anew
/// where others ran while it was measured and do so no longer.
pub fn costs(host: &Host, clock: ClockVerdict) -> Vec<UnitCost> {
    let identity = format!("{:?} on {:?}", host.identity, host.cpus_allowed);
    let under = [process(), vec![build(), identity, format!("{clock:?}")]].concat();
    let measure = || unit_costs::measure(clock);
    let costs = known_or(place().as_deref(), COSTS, &under, false, measure);
    if costs.iter().any(UnitCost::is_disturbed) && !unit_costs::others_run() {
        return known_or(place().as_deref(), COSTS, &under, true, measure);
    }
    costs
}

/// Where the user's caches are.
fn place() -> Option<PathBuf> {
    user_directory("XDG_CACHE_HOME", ".cache")
}

/// Tries everything, side by side: what waits for a disk, for Java and for namespaces waits at once.
fn everything(dir: &Path) -> Survey {
    let host = Host {
        congestion_available: bytecost_host::congestion_available(&Roots::real()),
        ..Host::default()
    };
    // Without a directory to make files in there is no table of them; a run says why.
    let files = || file_survey::survey(&mut Files::new(dir.to_owned(), None)).ok();
    thread::scope(|scope| {
        let begun = Builder::new().spawn_scoped(scope, one_helped);
        let files_begun = Builder::new().spawn_scoped(scope, files);
        let serving_begun = Builder::new().spawn_scoped(scope, server_survey::survey);
        let mut survey = survey(&host, Transport::WITHIN);
        let panicked = |_| Err("the thread panicked".to_owned());
        let java = joined(begun, one_helped).unwrap_or_else(panicked);
        survey.movers.extend(helped_as_one(java, &survey));
        survey.files = joined(files_begun, files).ok().flatten();
        survey.serving = joined(serving_begun, server_survey::survey).ok();
        survey
    })
}

fn build() -> String {
    let build = program::own_build().unwrap_or_default();
    format!("{} {build}", env!("CARGO_PKG_VERSION"))
}

/// A file's text, or why it cannot be read, which is as good a circumstance.
fn text(path: &str) -> String {
    let read = fs::read_to_string(path);
    read.map_or_else(|why| why.to_string(), |text| text.trim().to_owned())
}

fn process() -> Vec<String> {
    let status = text("/proc/self/status");
    let of_status = |line: &&str| {
        let name = line.split(':').next();
        name.is_some_and(|name| STATUS.contains(&name))
    };
    let mut told: Vec<String> = status
        .lines()
        .filter(of_status)
        .map(str::to_owned)
        .collect();
    for file in ["cgroup", "limits", "attr/current"] {
        told.push(text(&format!("/proc/self/{file}")));
    }
    let namespace = |name: &&str| fs::read_link(format!("/proc/self/ns/{name}"));
    let namespaces = NAMESPACES.iter().map(namespace);
    told.extend(namespaces.map(|link| format!("{link:?}")));
    told
}

fn kernel() -> Vec<String> {
    let modules = text("/proc/modules");
    let names = modules.lines().filter_map(|line| line.split(' ').next());
    let names = names.sorted_unstable().join(" ");
    let setting = |name: &&str| text(&format!("/proc/sys/{name}"));
    let others = [build(), setting(&"kernel/random/boot_id"), names];
    others
        .into_iter()
        .chain(SETTINGS.iter().map(setting))
        .collect()
}

fn files(dir: &Path) -> Vec<String> {
    let about = fs::metadata(dir).map(|about| (about.dev(), about.mode(), about.uid()));
    let mount = rustix::fs::statvfs(dir).map(|about| (about.f_fsid, about.f_flag));
    vec![format!("{} {about:?} {mount:?}", dir.display())]
}

fn of_java() -> Vec<String> {
    let about = java::find().and_then(|path| Ok((fs::metadata(&path)?, path)));
    vec![match about {
        Ok((about, path)) => format!(
            "{} {}.{} {}",
            path.display(),
            about.mtime(),
            about.mtime_nsec(),
            about.size()
        ),
        Err(why) => why.to_string(),
    }]
}
