//! Every mover that moves bytes through the kernel, with what its row states of its copies held
//! beside what is counted, by each means and on file systems that write in their own ways: a count
//! is right, or absent with a reason. There is no wrong zero.
//!
//! File systems are mounted for the test in a mount namespace of its own, over a file system in
//! memory, so that nothing is left of them however the test ends. It has a main of its own, since
//! the same program plays the endpoints, and the test in the namespace.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;

use bytecost_engine::{MOVERS, Mover, RECEIVERS, Receiver, Route, file};
use bytecost_evidence::copies::Copies;
use bytecost_lab::files::Files;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::{Event, Lab, Watch};
use bytecost_meter::MachineMeter;
use bytecost_spec::evidence::{CopyMeans, CopyPlace, TrialEvidence};
use bytecost_spec::{Axis, Cache, Cell, Record};
use libtest_mimic::Arguments;

mod harness;
#[path = "copied/known.rs"]
mod known;

use harness::case;
use known::Case;

/// Set in the process that tests in a directory.
const DIR: &str = "BYTECOST_TEST_DIR";

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

/// Where files lie: what was mounted, else a disk where there is one.
fn dir() -> PathBuf {
    let of_crate = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    match std::env::var_os(DIR) {
        Some(dir) => dir.into(),
        None if of_crate.is_dir() => of_crate,
        None => std::env::temp_dir(),
    }
}

/// A lab, and who counts by these means; none where they are refused, which is printed.
fn counting(means: CopyMeans, root: &Path) -> Option<(Lab, Watch)> {
    let copies = match Copies::by(root, &[means]) {
        Ok(copies) => copies,
        Err(e) => {
            let is_held = means == CopyMeans::Tracepoints && rustix::process::geteuid().is_root();
            assert!(!is_held, "{e}");
            println!("{}: refused: {e}", means.title());
            return None;
        }
    };
    let settings = harness::settings(ContentCheck::Quick);
    let window = settings.window;
    let lab = Lab::new(settings, MachineMeter::open(Path::new("/")));
    let lab = lab.with_files(Files::new(dir(), None));
    Some((lab, Watch::counting(Some(copies), None, window)))
}

fn cell(mover: &str, cache: Cache) -> Cell {
    let mut cell = Cell {
        cache,
        ..Cell::default()
    };
    for (axis, value) in [
        (Axis::Mover, mover),
        (Axis::Receiver, "recv"),
        (Axis::Size, "64KiB"),
        (Axis::Block, "64KiB"),
        (Axis::Ring, "1MiB"),
        (Axis::Depth, "4"),
    ] {
        cell.set(axis, value).unwrap();
    }
    cell
}

/// What was counted of a cell, or why it does not work here.
fn counted(lab: &mut Lab, watch: &mut Watch, cell: &Cell) -> Result<TrialEvidence, String> {
    let mut found = Err("nothing ended".to_owned());
    let mut see = |event| {
        if let Event::TrialEnded(record) = event {
            found = match *record {
                Record::Evidence(evidence) => Ok(evidence),
                Record::Failure(failure) => Err(failure.reason),
                other => Err(format!("{other:?}")),
            };
        }
    };
    let stop = AtomicBool::new(false);
    lab.watched(watch, [(0, 0, cell.clone())], None, &stop, &mut see);
    found
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

/// Holds each place on the way of these cells against what their rows state.
fn walk(means: CopyMeans, cells: impl Iterator<Item = Cell>) {
    let Some((mut lab, mut watch)) = counting(means, Path::new("/")) else {
        return;
    };
    let mut places = 0;
    let mut wrong = Vec::new();
    for cell in cells {
        let Cell {
            mover,
            receiver,
            cache,
            ..
        } = &cell;
        let what = format!("{}: {mover} to {receiver}, {}", means.title(), cache.name());
        let kind = match cache {
            Cache::Memory => "tmpfs".to_owned(),
            _ => file::file_system(&dir()).unwrap(),
        };
        let evidence = match counted(&mut lab, &mut watch, &cell) {
            Ok(evidence) => evidence,
            Err(why) => {
                println!("{what}, {kind}: does not work here: {why}");
                continue;
            }
        };
        let copies = evidence.copies.expect("nobody counted");
        if copies.payload_bytes == 0 {
            println!("{what}, {kind}: nothing was moved within the window");
            continue;
        }
        for copied in &copies.legs {
            let per_byte = copied
                .bytes
                .measured()
                .map(|b| b as f64 / copies.payload_bytes as f64);
            let told =
                per_byte.map_or_else(|| format!("{:?}", copied.bytes), |v| format!("{v:.3}"));
            println!("{what}, {kind}: {}: {told}", copied.leg.title());
            let case = Case {
                means,
                mover: Mover::named(mover).unwrap(),
                receiver,
                cache: *cache,
                leg: copied.leg,
                kind: &kind,
            };
            if !case.is_right(per_byte) {
                wrong.push(format!("{what}, {kind}: {}: {told}", copied.leg.title()));
            }
            places += usize::from(per_byte.is_some());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(places > 0, "nothing was counted in {}", dir().display());
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
