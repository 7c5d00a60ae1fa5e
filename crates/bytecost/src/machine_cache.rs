//! A cache of what takes long to find out about this machine: its survey, and the cost of events.
//!
//! An entry is valid for the same user while its conditions are the same: boot and build, rights of
//! the process, its control group, namespaces and limits, settings and modules of the kernel, the
//! file system of the directory of test files, and the Java in PATH.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread::{self, Builder};

use bytecost_engine::java;
use bytecost_host::Roots;
use bytecost_lab::files::Files;
use bytecost_lab::host_questions::HostQuestions;
use bytecost_lab::limits::joined;
use bytecost_lab::program::{Program, own_build};
use bytecost_lab::short_trials::Surveyor;
use bytecost_lab::survey::{self, helped_as_one, one_helped};
use bytecost_lab::{file_survey, server_survey};
use bytecost_spec::survey::{ClockVerdict, UnitCost};
use bytecost_spec::{Host, Survey, Transport};
use bytecost_store::known_or;
use itertools::Itertools as _;

use crate::commands::check_interrupted;
use crate::failure::Interrupted;
use crate::history::user_directory;

/// Names of the cache files.
const SURVEY_FILE: &str = "works.json";
const COSTS_FILE: &str = "unit-costs.json";

/// Lines of /proc/self/status with the user and the rights of the process, proc(5).
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

/// The survey of all movers, transports, files and servers: of the cache, unless `fresh` asks to try
/// all of them again, by trials whose endpoints `program` plays.
///
/// # Errors
/// Once `stop` is set.
pub fn survey(program: &Program, stop: &AtomicBool, fresh: bool) -> Result<Survey, Interrupted> {
    let dir = std::env::temp_dir();
    let conditions = [process(), kernel(), file_system(&dir), java_program()].concat();
    known_or(
        directory().as_deref(),
        SURVEY_FILE,
        &conditions,
        fresh,
        || try_everything(&Surveyor::new(program, stop), &dir, stop),
    )
}

/// The CPU time of one event of each kind on this machine. It is measured again if other processes
/// ran when it was measured, and none run now. Nothing is kept if it could not be measured at all.
pub fn costs(questions: &mut HostQuestions<'_>, host: &Host, clock: ClockVerdict) -> Vec<UnitCost> {
    let identity = format!("{:?} on {:?}", host.identity, host.cpus_allowed);
    let conditions = [process(), vec![build(), identity, format!("{clock:?}")]].concat();
    let kept_in = directory();
    let costs = |fresh: bool, asked: &mut HostQuestions<'_>| {
        known_or(kept_in.as_deref(), COSTS_FILE, &conditions, fresh, || {
            asked.unit_costs(clock)
        })
    };
    let known = costs(false, questions);
    let is_disturbed = (known.as_ref()).is_ok_and(|all| all.iter().any(UnitCost::is_disturbed));
    let found = if is_disturbed && !questions.do_others_run() {
        costs(true, questions)
    } else {
        known
    };
    found.unwrap_or_else(|why| UnitCost::all_absent(&why))
}

fn directory() -> Option<PathBuf> {
    user_directory("XDG_CACHE_HOME", ".cache")
}

/// Surveys this machine on several threads, since disks, Java and namespaces each take a while.
fn try_everything(
    surveyor: &Surveyor<'_>,
    dir: &Path,
    stop: &AtomicBool,
) -> Result<Survey, Interrupted> {
    let host = Host {
        congestion_available: bytecost_host::congestion_available(&Roots::real()),
        ..Host::default()
    };
    // Without a directory for test files the survey has no table of them; a run reports the reason.
    let files = || file_survey::survey(surveyor, &mut Files::new(dir.to_owned(), None)).ok();
    let java = || one_helped(surveyor);
    let servers = || server_survey::survey(surveyor);
    thread::scope(|scope| {
        let java_thread = Builder::new().spawn_scoped(scope, java);
        let files_thread = Builder::new().spawn_scoped(scope, files);
        let servers_thread = Builder::new().spawn_scoped(scope, servers);
        let mut survey = survey::survey(surveyor, &host, Transport::WITHIN);
        let panicked = |_| Err("the thread panicked".to_owned());
        let java = joined(java_thread, java).unwrap_or_else(panicked);
        survey.movers.extend(helped_as_one(surveyor, java, &survey));
        survey.files = joined(files_thread, files).ok().flatten();
        survey.serving = joined(servers_thread, servers).ok();
        check_interrupted(stop).map(|()| survey)
    })
}

fn build() -> String {
    let build = own_build().unwrap_or_default();
    format!("{} {build}", env!("CARGO_PKG_VERSION"))
}

/// The text of a file, or the error of reading it, which is a condition just as well.
fn text(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|why| why.to_string(), |text| text.trim().to_owned())
}

fn process() -> Vec<String> {
    let status = text("/proc/self/status");
    let is_condition = |line: &&str| {
        let name = line.split(':').next();
        name.is_some_and(|name| STATUS.contains(&name))
    };
    let rights = status.lines().filter(is_condition).map(str::to_owned);
    let files = ["cgroup", "limits", "attr/current"]
        .iter()
        .map(|file| text(&format!("/proc/self/{file}")));
    let namespaces = NAMESPACES
        .iter()
        .map(|name| format!("{:?}", fs::read_link(format!("/proc/self/ns/{name}"))));
    rights.chain(files).chain(namespaces).collect()
}

fn kernel() -> Vec<String> {
    let modules = text("/proc/modules")
        .lines()
        .filter_map(|line| line.split(' ').next())
        .sorted_unstable()
        .join(" ");
    let setting = |name: &&str| text(&format!("/proc/sys/{name}"));
    [build(), setting(&"kernel/random/boot_id"), modules]
        .into_iter()
        .chain(SETTINGS.iter().map(setting))
        .collect()
}

fn file_system(dir: &Path) -> Vec<String> {
    let owner = fs::metadata(dir).map(|about| (about.dev(), about.mode(), about.uid()));
    let mount = rustix::fs::statvfs(dir).map(|about| (about.f_fsid, about.f_flag));
    vec![format!("{} {owner:?} {mount:?}", dir.display())]
}

fn java_program() -> Vec<String> {
    let program = java::find().and_then(|path| Ok((fs::metadata(&path)?, path)));
    vec![match program {
        Ok((file, path)) => format!(
            "{} {}.{} {}",
            path.display(),
            file.mtime(),
            file.mtime_nsec(),
            file.size()
        ),
        Err(why) => why.to_string(),
    }]
}
