//! The copies that rows state next to the counts, by each means and on file systems that write
//! in their own ways: a count is right, or absent with a reason. There is no wrong zero.
//!
//! File systems are mounted in a mount namespace of the test's own, over memory, so that nothing is
//! left. The same program plays the endpoints, and the test in the namespace.

use std::path::Path;
use std::process::{Command, ExitCode};

use bytecost_engine::{MOVERS, RECEIVERS, Route};
use bytecost_spec::evidence::{CopyMeans, CopyPlace};

mod harness;
#[path = "copied/known.rs"]
mod known;

use harness::case;
use harness::lack::{Lack, skipped};
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
        "overlay",
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
        trials.extend([
            case(of("files in memory"), move || of_files(means, &["memory"])),
            case(of("files here"), move || {
                of_files(means, &["warm", "direct"])
            }),
            case(of("what is sent"), move || all_that_send(means)),
            case(of("what is received"), move || all_that_receive(means)),
        ]);
    }
    if std::env::var_os(DIR).is_none() {
        trials.push(case("unknown functions are found out", unknown_function));
        for (name, tools, script) in MOUNTED {
            let run = || mounted(name, tools, script);
            trials.push(case(format!("files on {name}"), run));
        }
    }
    // One test at a time: mounts and counts of another one would disturb.
    harness::run(trials, 1)
}

fn of_files(means: CopyMeans, caches: &[&str]) {
    let movers = || MOVERS.iter().filter(|m| m.route.is_of_files());
    let in_state = |cache| movers().map(move |m| cell(m.name, &format!("cache={cache}")));
    walk(means, caches.iter().flat_map(in_state))
}

fn all_that_send(means: CopyMeans) {
    let movers = || MOVERS.iter().filter(|m| m.has_peer() && !m.is_helped());
    let of_files = movers().filter(|m| m.route == Route::FileToSocket);
    let warm = of_files.map(|m| cell(m.name, "cache=warm"));
    walk(means, movers().map(|m| cell(m.name, "")).chain(warm))
}

fn all_that_receive(means: CopyMeans) {
    let names = RECEIVERS.iter().map(|r| r.name);
    walk(means, names.map(|r| cell("send", &format!("receiver={r}"))));
}

/// Memory files have a read function: where it is not counted, a known transfer shows that.
fn unknown_function() {
    let root = tempfile::tempdir().unwrap();
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let mut others: Vec<&str> = symbols.lines().collect();
    others.retain(|l| !l.contains("shmem_file_read_iter"));
    let proc = root.path().join("proc");
    std::fs::create_dir(&proc).unwrap();
    std::fs::write(proc.join("kallsyms"), others.join("\n")).unwrap();
    std::os::unix::fs::symlink("/sys", root.path().join("sys")).unwrap();
    let Some((mut lab, mut watch)) = counting(CopyMeans::Functions, root.path()) else {
        return;
    };
    for mover in ["pread", "mmap-touch", "read-write-file"] {
        let evidence = counted(&mut lab, &mut watch, &cell(mover, "")).unwrap();
        for copied in evidence.copies.expect("nobody counted").legs {
            let line = format!("{mover}, {}: {:?}", copied.leg.title(), copied.bytes);
            println!("{line}");
            let is_missed = line.contains("what reads files of this file system (tmpfs)");
            assert!(is_missed == (copied.leg == CopyPlace::FromFile), "{}", line);
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
        return skipped(Lack::Tool, format_args!("{tool} is not installed"));
    }
    if !rustix::process::geteuid().is_root() {
        return skipped(Lack::Right, format_args!("only root can mount {name}"));
    }
    let script = format!(
        "mount -t tmpfs none /mnt && cd /mnt && mkdir at && {{ {script}; }} || {{ echo not mounted; exit 3; }}; exec \"$0\" --test-threads=1 --nocapture 'files here'"
    );
    let words = "--pdeathsig KILL unshare --mount --propagation private sh -c";
    let output = Command::new("setpriv")
        .args(words.split(' '))
        .arg(&script)
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
        return skipped(
            Lack::Machine,
            format_args!("{name} cannot be mounted: {error}"),
        );
    }
    assert!(output.status.success(), "{text}\n{error}");
    let lay_there = text.contains(&format!(", {name}: "));
    assert!(lay_there, "nothing lay on {name}: {text}");
}
