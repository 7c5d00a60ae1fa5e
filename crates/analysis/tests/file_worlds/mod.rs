//! Runs of files with known truths: reads in several ways, and files sent to sockets.

use bytecost_spec::survey::{InFlight, MoverFacts, Release, Route};
use bytecost_spec::{Cell, Counter, Sample, SideReadings};

use crate::world::{self, True, World, put};

pub const READS: &str = world::study!(
    "file-read",
    r#"
[axes]
mover = ["null", "pread", "posix-aio", "libaio"]
size = ["4KiB", "64KiB"]
depth = [1, 16]
cache = ["warm", "direct"]

[[compare]]
axis = "mover"
baseline = "pread"
metrics = ["throughput_gbit_per_s", "latency_us_p99", "cpu_s_per_gb"]
"#
);

pub const SENDS: &str = world::study!(
    "file-to-socket",
    r#"
[axes]
mover = ["read-write", "sendfile", "mmap-send"]
size = ["64KiB", "256KiB"]
cache = ["warm", "cold"]

[[compare]]
axis = "mover"
baseline = "read-write"
metrics = ["throughput_gbit_per_s", "sender_cpu_s_per_gb"]
"#
);

fn facts(world: &mut World, rows: &[(&str, Route, InFlight)]) {
    let row = |(name, route, in_flight): &(&str, Route, InFlight)| MoverFacts {
        in_flight: *in_flight,
        ..world::row(name, *route)
    };
    world.manifest.survey.mover_facts = rows.iter().map(row).collect();
}

/// A world of reads, with so many context switches and calls a request.
pub fn reads(study: &str, truth: fn(&Cell) -> True, switches: fn(&Cell) -> u64) -> World {
    let mut world = World::new(study);
    let (one, by_threads) = (InFlight::One, InFlight::SeveralByThreads);
    let rows = [
        ("null", Route::Nowhere, one),
        ("pread", Route::FileToMemory, one),
        ("libaio", Route::FileToMemory, InFlight::Several),
        ("uring-read", Route::FileToMemory, by_threads),
        ("posix-aio", Route::FileToMemory, by_threads),
        ("pwrite", Route::MemoryToFile, one),
    ];
    facts(&mut world, &rows);
    // As the plan does: who waits for each request has one in flight.
    let waits = |c: &Cell| ["pread", "pwrite"].contains(&c.mover.as_str());
    world.cells.retain(|c| c.depth == 1 || !waits(c));
    world = world.run(7, 12, 0.01, truth);
    let mut asked =
        World::new(&study.replace("cache = ", "pattern = [\"request-response\"]\ncache = "))
            .run(7, 1, 0.02, truth);
    let histogram = asked.samples.remove(3).latency_ns_histogram;
    let is_moved = |c: &Cell| c.mover != "null";
    world.change(is_moved, |sample| {
        sample.receiver = None;
        sample.latency_ns_histogram.clone_from(&histogram);
    });
    world.by_cell(|cell, sample| {
        let switched = switches(cell) * count(&sample.sender, Counter::Messages);
        set(sample, Counter::ContextSwitchesVoluntary, switched);
        set(sample, Counter::ContextSwitchesInvoluntary, 0);
    });
    world
}

pub fn count(side: &SideReadings, counter: Counter) -> u64 {
    side.readings[&counter].measured().expect("a reading")
}

pub fn set(sample: &mut Sample, counter: Counter, value: u64) {
    put(&mut sample.sender.readings, counter, value);
}

pub fn speed(gbit_per_s: f64) -> True {
    True::costs(6.0 / gbit_per_s).at_rate(gbit_per_s)
}

/// A world of files to sockets, in which `read-write` makes two calls for each 4 KiB.
pub fn sends(study: &str, truth: fn(&Cell) -> True) -> World {
    let mut world = World::new(study);
    let names = [
        "read-write",
        "sendfile",
        "mmap-send",
        "java-stream",
        "java-transfer-to",
    ];
    let rows = names.map(|name| (name, Route::FileToSocket, InFlight::One));
    facts(&mut world, &rows);
    for row in &mut world.manifest.survey.mover_facts {
        if ["sendfile", "java-transfer-to"].contains(&row.name.as_str()) {
            row.release = Release::Never;
        }
    }
    world = world.run(5, 12, 0.01, truth);
    world.each(|sample| {
        let bytes = count(&sample.sender, Counter::Bytes);
        let reads = sample.cell.contains("/read-write/");
        let per_call = if reads { 2048 } else { 1 << 16 };
        set(sample, Counter::Calls, bytes / per_call);
    });
    world
}

/// Files that are answered, in which one mover waits for a delayed acknowledgement each time.
pub fn stalling(study: &str, truth: fn(&Cell) -> True, mover: &str) -> World {
    let asked = "pattern = [\"request-response\"]\nnodelay = [\"off\"]\ncache =";
    let mut world = sends(&study.replace("cache =", asked), truth);
    world.each(|sample| {
        let messages = count(&sample.sender, Counter::Messages);
        let waits = sample.cell.contains(&format!("/{mover}/"));
        let acks = if waits { messages } else { 0 };
        put(&mut sample.machine, Counter::TcpDelayedAcks, acks);
    });
    world
}
