//! Every mover that moves bytes through the kernel, with what its row states of its copies held
//! beside what is counted, by each means and on file systems that write in their own ways: a count
//! is right, or absent with a reason. There is no wrong zero.
//!
//! File systems are mounted for the test in a mount namespace of its own, over a file system in
//! memory, so that nothing is left of them however the test ends. It has a main of its own, since
//! the same program plays the endpoints, and the test in the namespace.

use std::path::Path;
use std::process::{Command, ExitCode};

use bytecost_engine::{MOVERS, RECEIVERS, Receiver, Route};
use bytecost_spec::Cache;
use bytecost_spec::evidence::{CopyMeans, CopyPlace};
use libtest_mimic::Arguments;

mod harness;
#[path = "copied/known.rs"]
mod known;

use harness::case;
use known::{DIR, cell, counted, counting, walk};

/// File systems, each with the tools that it takes and how it comes to be at `/mnt/at`.
const MOUNTED: &[(&str, &[&str], &str)] = &[
    (
        "btrfs",
        &["mkfs.btrfs"],
        "truncate -s 400M image && mkfs.btrfs -q image && mount -o loop image at",
    ),
    (
        "xfs",
        &["mkfs.xfs"],
        "truncate -s 400M image && mkfs.xfs -q image && mount -o loop image at",
    ),
    (
        "overlayfs",
        &[],
        "mkdir lower upper work && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work at",
    ),
    // Its server dies with who tests.
    (
        "fuse",
        &["bindfs"],
        "mkdir below && { setpriv --pdeathsig KILL bindfs -f below at & } && for i in $(seq 500); do mountpoint -q at && break; sleep 0.02; done && mountpoint -q at",
    ),
];

fn main() -> ExitCode {
    if let Some(code) = harness::endpoint() {
        return code;
    }
    let mut trials = Vec::new();
    for means in [CopyMeans::Functions, CopyMeans::Tracepoints] {
        let of = move |what: &str| format!("{what}, by {}", means.title());
        trials.push(case(of("files in memory"), move || {
            all_of_files(means, &[Cache::Memory])
        }));
        trials.push(case(of("files here"), move || {
            all_of_files(means, &[Cache::Warm, Cache::Direct])
        }));
        trials.push(case(of("what is sent"), move || all_that_send(means)));
        trials.push(case(of("what is received"), move || {
            all_that_receive(means)
        }));
    }
    if std::env::var_os(DIR).is_none() {
        trials.push(case(
            "functions that nobody knows of are found out",
            unknown_function,
        ));
        for (name, tools, script) in MOUNTED {
            trials.push(case(format!("files on {name}"), || {
                mounted(name, tools, script)
            }));
        }
    }
    let mut arguments = Arguments::from_args();
    // What one test mounts and counts, no other needs a CPU for.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn all_of_files(means: CopyMeans, caches: &[Cache]) {
    let movers = || MOVERS.iter().filter(|m| m.route.is_of_files());
    let all = caches
        .iter()
        .flat_map(|c| movers().map(move |m| cell(m.name, *c)));
    walk(means, all)
}

fn all_that_send(means: CopyMeans) {
    let movers = || MOVERS.iter().filter(|m| m.has_peer() && !m.is_helped());
    let of_files = movers().filter(|m| m.route == Route::FileToSocket);
    let all = movers().map(|m| cell(m.name, Cache::Memory));
    walk(
        means,
        all.chain(of_files.map(|m| cell(m.name, Cache::Warm))),
    )
}

fn all_that_receive(means: CopyMeans) {
    let by = |receiver: &Receiver| {
        let mut cell = cell("send", Cache::Memory);
        receiver.name.clone_into(&mut cell.receiver);
        cell
    };
    walk(means, RECEIVERS.iter().map(by));
}

/// Memory files are read by a function of their own: where it is not counted, a known transfer
/// shows that, and neither zeros nor what must be copied are told.
fn unknown_function() {
    let root = tempfile::tempdir().unwrap();
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let others = symbols
        .lines()
        .filter(|l| !l.contains("shmem_file_read_iter"));
    std::fs::create_dir(root.path().join("proc")).unwrap();
    std::fs::write(
        root.path().join("proc/kallsyms"),
        others.collect::<Vec<_>>().join("\n"),
    )
    .unwrap();
    std::os::unix::fs::symlink("/sys", root.path().join("sys")).unwrap();
    let Some((mut lab, mut watch)) = counting(CopyMeans::Functions, root.path()) else {
        return;
    };
    for mover in ["pread", "mmap-touch", "read-write-file"] {
        let evidence = counted(&mut lab, &mut watch, &cell(mover, Cache::Memory)).unwrap();
        for copied in evidence.copies.expect("nobody counted").legs {
            let told = format!("{mover}, {}: {:?}", copied.leg.title(), copied.bytes);
            println!("{told}");
            let is_missed = told.contains("what reads files of this file system (tmpfs)");
            assert!(is_missed == (copied.leg == CopyPlace::FromFile), "{}", told);
        }
    }
}

/// Runs the tests of files once more, in a directory of a file system that is mounted for it.
fn mounted(name: &str, tools: &[&str], script: &str) {
    let all = ["setpriv", "unshare", "sh", "mount", "mountpoint"];
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let is_there = |tool: &&str| {
        path.split(':')
            .any(|dir| Path::new(dir).join(tool).exists())
    };
    if let Some(tool) = all.iter().chain(tools).find(|tool| !is_there(tool)) {
        println!("skipped: {tool} is not installed");
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount {name}");
        return;
    }
    let script = format!(
        "mount -t tmpfs none /mnt && cd /mnt && mkdir at && {{ {script}; }} || {{ echo not mounted; exit 3; }}; exec \"$0\" --test-threads=1 --nocapture 'files here'"
    );
    let words = [
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
    ];
    let output = Command::new("setpriv")
        .args(words)
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env("PATH", path)
        .env(DIR, "/mnt/at")
        .output()
        .map_err(|e| format!("setpriv: {e}"))
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    if text.contains("not mounted") && text.lines().count() == 1 {
        println!("skipped: {name} cannot be mounted here: {error}");
        return;
    }
    assert!(output.status.success(), "{text}\n{error}");
    assert!(
        text.contains(&format!(", {name}: ")),
        "nothing lay on {name}: {text}"
    );
}
