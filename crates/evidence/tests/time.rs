//! Where the CPU time goes, of a process whose work is known: alone, as its threads are one party.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bytecost_evidence::{Parties, TimeSampler};
use bytecost_spec::evidence::{CpuSamples, Kind, Party};
use bytecost_sys::clock;

#[path = "../../../tests/lack.rs"]
mod lack;

use lack::{Lack, skipped};

#[test]
fn a_process_that_reads_a_cached_file_is_seen_to_copy() {
    let cpus: Vec<u32> = (0..std::thread::available_parallelism().unwrap().get() as u32).collect();
    let mut sampler = match TimeSampler::open(Path::new("/"), &cpus) {
        Ok(sampler) => sampler,
        Err(e) => return skipped(Lack::Right, e),
    };
    let me = Parties {
        sender: std::process::id(),
        ..Parties::default()
    };
    let mut buffer = vec![7; 1 << 20];
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&buffer).unwrap();
    let mut copying = || {
        sampler.begin(me).unwrap();
        let from = clock::thread_cpu_ns();
        while clock::thread_cpu_ns() < from + 100_000_000 {
            file.read_exact_at(&mut buffer, 0).unwrap();
            sampler.take();
        }
        sampler.end().unwrap()
    };
    let mut found = copying();
    // Where this process is kept waiting for long, what it does not take meanwhile is lost.
    let until = Instant::now() + Duration::from_secs(60);
    while found.lost > 0 && Instant::now() < until {
        found = copying();
    }
    assert_eq!(found.lost, 0);
    let mine = |of: &[CpuSamples], counts: fn(Kind) -> bool| -> u64 {
        of.iter()
            .filter(|l| l.party == Party::Sender && counts(l.kind))
            .map(|l| l.count)
            .sum()
    };
    // Work of the sampler between two reads is in user mode of this process.
    let kernel = mine(&found.looks, |kind| kind != Kind::User);
    let copied = mine(&found.looks, |kind| kind == Kind::DataCopy);
    let looks = &found.looks;
    assert!(copied * 2 > kernel, "{copied} of {kernel}: {looks:?}");
    // A second window begins anew.
    sampler.begin(me).unwrap();
    let again = sampler.end().unwrap();
    let all: u64 = found.looks.iter().map(|l| l.count).sum();
    assert!(again.looks.iter().map(|l| l.count).sum::<u64>() < all);
}
