//! The profiler against programs of which it is known what they do. As root.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bytecost_evidence::Profiler;
use bytecost_evidence::profile::Counted;
use bytecost_spec::profile::{DescriptorKind, Way};

#[path = "../../../tests/lack.rs"]
mod lack;

use lack::{Lack, skipped};

/// A shell that waits for a line and then becomes `script`.
fn waiting(script: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("read line; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Counts of all that a script does from the first program on that it executes.
fn profile(script: &str) -> Option<Counted> {
    let mut profiler = match Profiler::open(Path::new("/")) {
        Ok(profiler) => profiler,
        Err(e) => {
            assert!(!rustix::process::geteuid().is_root(), "{e}");
            skipped(Lack::Right, e);
            return None;
        }
    };
    let mut child = waiting(script);
    profiler.follow(child.id()).unwrap();
    profiler.start_at_exec().unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    child.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while profiler.is_any_running().unwrap() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(!profiler.is_any_running().unwrap(), "all have ended");
    profiler.stop().unwrap();
    Some(profiler.counted())
}

fn ways<'c>(counted: &'c Counted, call: &str, kind: DescriptorKind) -> Vec<&'c Way> {
    let is_kind = |way: &&Way| {
        let mut ends = way.from.iter().chain(&way.to);
        ends.any(|end| end.kind == kind)
    };
    let ways = counted.ways.iter().filter(|way| way.call == call);
    ways.filter(is_kind).collect()
}

#[test]
fn each_call_of_dd_is_counted_with_its_bytes_and_descriptors() {
    let Some(counted) = profile("exec dd if=/dev/zero of=/dev/null bs=4096 count=1000") else {
        return;
    };
    let [read] = ways(&counted, "read", DescriptorKind::Device)[..] else {
        panic!("{:#?}", counted.ways);
    };
    assert_eq!((read.calls, read.bytes), (1000, 4_096_000));
    assert_eq!(read.from.as_ref().unwrap().on.as_deref(), Some("1:5"));
    assert_eq!(read.lengths[12], 1000);
    let loops = &counted.copy_loops;
    println!("{:#?}", counted);
    assert_eq!(loops.len(), 1);
}
