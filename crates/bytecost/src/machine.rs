//! The description of this machine: the files that `host` reads, with probes that need system calls.

use anyhow::Result;
use bytecost_host::{Probes, Roots, congestion_available};
use bytecost_lab::{cpu_clock, obstacles, survey};
use bytecost_meter::ThreadMeter;
use bytecost_spec::survey::CpuClock;
use bytecost_spec::{Counter, Host};
use bytecost_sys::{clock, ring};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The time in UTC, to the second, as RFC 3339 writes it.
pub fn now() -> Result<String> {
    let second = OffsetDateTime::now_utc().replace_nanosecond(0)?;
    Ok(second.format(&Rfc3339)?)
}

/// A time since 1970 in UTC as RFC 3339 writes it; none beyond the year 9999.
pub fn utc(since_1970_s: u64) -> Option<String> {
    let second = OffsetDateTime::from_unix_timestamp(i64::try_from(since_1970_s).ok()?).ok()?;
    second.format(&Rfc3339).ok()
}

/// Reads this machine, and tests its CPU clock.
pub fn host() -> (Host, CpuClock) {
    let refused = ThreadMeter::open().refused();
    let cycles = refused.iter().find(|r| r.subject == Counter::Cycles);
    let loopback = obstacles::of_loopback(&Roots::real());
    let probes = Probes {
        hardware_counters: cycles.map_or(Ok(()), |r| Err(r.why.clone())),
        io_uring: ring::probe().map_err(|e| e.to_string()),
        clock_resolution_ns: clock::resolution_ns(),
        timer_overshoot_ns: timer_overshoot_ns(),
        cpu_clock: cpu_clock::test(&Roots::real()),
        obstacles: loopback.obstacles,
        unseen: loopback.unseen,
        congestion_controls: survey::congestion_controls(&congestion_available(&Roots::real())),
    };
    let host = bytecost_host::read(&Roots::real(), &probes);
    (host, probes.cpu_clock)
}

/// Median delay with which a thread wakes from a sleep of 100 µs.
fn timer_overshoot_ns() -> u64 {
    let mut delays: Vec<u64> = (0..15)
        .map(|_| {
            let until = clock::monotonic_ns() + 100_000;
            clock::sleep_until_ns(until);
            clock::monotonic_ns().saturating_sub(until)
        })
        .collect();
    delays.sort_unstable();
    delays[delays.len() / 2]
}
