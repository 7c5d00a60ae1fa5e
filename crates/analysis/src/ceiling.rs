//! The ceiling: what this machine's copy and disk reach at most, and each cell's share of it.

use bytecost_spec::survey::Route;
use bytecost_spec::{
    Access, Cache, Cell, CircumstanceKind, Host, Manifest, Measure, Metric, Pattern,
};
use itertools::Itertools as _;

use crate::cells::CellEstimates;
use crate::grouping::grouped;
use crate::input::Input;
use crate::result::{
    Analysis, CaveatFact, Ceiling, CeilingKind, CeilingRate, CeilingShare, Estimate,
};
use crate::round_noise::round_error;
use crate::trials::Trials;

/// The name of the study that measures a ceiling.
pub const STUDY: &str = "ceiling";

/// Memory sizes so far apart may be one machine's: what the kernel keeps differs from boot to boot.
const MEMORY_TOLERANCE: f64 = 0.02;
/// Movers that copy nothing of what they move, so that no copy is their ceiling.
const COPIES_NOTHING: [&str; 1] = ["sendfile-null"];
/// The size of the random requests that the disk's ceiling is measured with, in bytes.
const RANDOM_BYTES: u64 = 4096;
const THROUGHPUT: Metric = Metric::both(Measure::ThroughputGbitPerS);

/// The ceiling that a run of the study [`STUDY`] measured; none where it measured nothing.
pub fn ceiling(manifest: &Manifest, analysis: &Analysis) -> Option<Ceiling> {
    let measured = analysis.cells.iter().filter_map(|result| {
        let cell = &result.cell;
        let rate = CeilingRate {
            kind: kind(cell)?,
            mover: cell.mover.clone(),
            size_bytes: cell.size_bytes,
            working_set_bytes: cell.file_slots().max(1) * cell.size_bytes,
            depth: cell.depth,
            gbit_per_s: *result.estimates.get(&THROUGHPUT)?,
        };
        let key = (rate.kind, rate.working_set_bytes, rate.depth);
        Some(((key, rate.size_bytes), rate))
    });
    // Of several ways to ask for the same the better one is the ceiling.
    let better = |one: CeilingRate, other: CeilingRate| {
        if other.gbit_per_s.value > one.gbit_per_s.value {
            other
        } else {
            one
        }
    };
    let bests = grouped(measured)
        .into_iter()
        .filter_map(|((key, _), ways)| Some((key, ways.into_iter().reduce(better)?)))
        .sorted_by_key(|(key, _)| *key);
    let rates = bests.map(|(_, rate)| rate).collect_vec();
    let files = manifest.survey.files.as_ref();
    let others = CircumstanceKind::OtherProcesses.row().name;
    let caveats = analysis.caveats.iter().filter(|c| c.kind == others);
    let mut facts = caveats.flat_map(|c| &c.facts);
    (!rates.is_empty()).then(|| Ceiling {
        run: manifest.id.clone(),
        started: manifest.started.clone(),
        dir: files.map(|f| f.dir.clone()),
        device: files.and_then(|f| f.device),
        disturbed: facts.find_map(|fact| match fact {
            CaveatFact::Others(load) => Some(load.clone()),
            _ => None,
        }),
        rates,
    })
}

fn kind(cell: &Cell) -> Option<CeilingKind> {
    if cell.threads != 1 {
        return None;
    }
    match (cell.mover.as_str(), cell.cache, cell.access) {
        ("memcpy", _, _) => Some(CeilingKind::UserCopy),
        ("pread", Cache::Memory, Access::Sequential) => Some(CeilingKind::KernelRead),
        ("pwrite", Cache::Memory, Access::Sequential) => Some(CeilingKind::KernelWrite),
        ("libaio" | "uring-read" | "pread", Cache::Direct, Access::Sequential) => {
            Some(CeilingKind::DiskSequential)
        }
        ("libaio" | "uring-read", Cache::Direct, Access::Random)
            if cell.size_bytes == RANDOM_BYTES =>
        {
            Some(CeilingKind::DiskRandom)
        }
        _ => None,
    }
}

/// Returns true if two hosts have the same CPUs, caches, memory and kernel. Two machines of one model
/// are the same by this, and have the same ceiling.
pub fn is_same_machine(one: &Host, other: &Host) -> bool {
    let memory = [one, other].map(|h| h.memory_bytes as f64);
    let apart = (memory[0] - memory[1]).abs() / memory[0].max(memory[1]).max(1.0);
    let facts = [one, other].map(|h| {
        let cpus = h.cpus.iter().map(|c| (c.cpu, c.core)).collect_vec();
        let make = (&h.architecture, &h.cpu_model, &h.caches, cpus);
        (&h.kernel, &h.virtualization, make)
    });
    facts[0] == facts[1] && apart <= MEMORY_TOLERANCE
}

impl Ceiling {
    /// The rate that a cell is compared with; none where the ceiling says nothing of it. Memory:
    /// one core's copy within the kernel at about the same working set, however often it is copied
    /// itself. Disk: the disk's most. None for several flows, which have several cores, for who
    /// waits for answers, and for writing to the disk, which was not measured.
    fn rate_for(&self, cell: &Cell, route: Route, device: Option<u64>) -> Option<&CeilingRate> {
        if cell.threads != 1 {
            return None;
        }
        let in_file = cell.file_slots().max(1).saturating_mul(cell.size_bytes);
        let from_disk = matches!(cell.cache, Cache::Cold | Cache::Direct);
        match route {
            Route::MemoryToSocket | Route::FileToSocket => {
                let ring = cell.ring_slots().saturating_mul(cell.size_bytes);
                // Over wire nobody receives the bytes, so that they need not be copied at all.
                let copies = !from_disk && cell.transport.has_receiver();
                let is_bound = copies && cell.pattern == Pattern::Stream;
                is_bound.then(|| self.nearest(CeilingKind::KernelRead, ring))?
            }
            Route::MemoryToFile if from_disk => None,
            Route::MemoryToFile => self.nearest(CeilingKind::KernelWrite, in_file),
            Route::FileToFile if cell.cache == Cache::Direct => None,
            Route::FileToMemory | Route::FileToNull | Route::FileToFile if from_disk => {
                device.filter(|own| self.device == Some(*own))?;
                match cell.access {
                    Access::Sequential => self.most(CeilingKind::DiskSequential),
                    Access::Random if cell.size_bytes == RANDOM_BYTES => {
                        self.most(CeilingKind::DiskRandom)
                    }
                    Access::Random => None,
                }
            }
            Route::FileToNull if COPIES_NOTHING.contains(&cell.mover.as_str()) => None,
            Route::FileToMemory | Route::FileToNull | Route::FileToFile => {
                self.nearest(CeilingKind::KernelRead, in_file)
            }
            Route::Nowhere
            | Route::MemoryToMemory
            | Route::Work
            | Route::PingPong
            | Route::PingPongSpinning => None,
        }
    }

    fn nearest(&self, kind: CeilingKind, bytes: u64) -> Option<&CeilingRate> {
        let log = |size: u64| (size.max(1) as f64).ln();
        let distance = |r: &CeilingRate| (log(r.working_set_bytes) - log(bytes)).abs();
        let own = self.rates.iter().filter(|r| r.kind == kind);
        own.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    fn most(&self, kind: CeilingKind) -> Option<&CeilingRate> {
        let own = self.rates.iter().filter(|r| r.kind == kind);
        own.max_by(|a, b| a.gbit_per_s.value.total_cmp(&b.gbit_per_s.value))
    }
}

/// A cell's share of the ceiling; none where no ceiling of it is known.
pub(crate) fn cell_share(
    input: &Input<'_>,
    trials: &Trials<'_>,
    timed: &CellEstimates<'_>,
) -> Option<CeilingShare> {
    let device = input.manifest.survey.files.as_ref().and_then(|f| f.device);
    let rate = input
        .ceiling?
        .rate_for(timed.cell.cell, timed.cell.route, device)?;
    // The ceiling's run is a round of its own.
    let between = trials.between_rounds_of_any_cell(THROUGHPUT);
    let by_rounds = round_error(between, trials.rounds()).hypot(round_error(between, 1));
    share(timed.estimates.get(&THROUGHPUT)?, rate, by_rounds)
}

/// A rate over a ceiling. Both were measured apart, so the interval is made of theirs and of how far
/// their rounds may be apart (half of the interval of that, as a logarithm).
fn share(found: &Estimate, rate: &CeilingRate, by_rounds: f64) -> Option<CeilingShare> {
    let ceiling = &rate.gbit_per_s;
    if ceiling.value <= 0.0 || found.value <= 0.0 {
        return None;
    }
    let share = Some(found.value / ceiling.value).filter(|share| *share <= 1.0);
    let error = |end: Option<f64>| Some((end? / ceiling.value).ln()).filter(|log| log.is_finite());
    let end = |own: fn(Estimate) -> Option<f64>, other: Option<f64>| {
        let both = found.widened(error(other)?).widened(by_rounds);
        Some(own(both)? / ceiling.value).filter(|_| share.is_some())
    };
    Some(CeilingShare {
        ceiling: rate.clone(),
        share,
        low: end(|e| e.low, ceiling.high),
        high: end(|e| e.high, ceiling.low),
    })
}

impl CeilingKind {
    /// Returns true for the rates of a disk.
    pub fn is_of_disk(self) -> bool {
        matches!(self, CeilingKind::DiskSequential | CeilingKind::DiskRandom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_spec::Axis;
    use bytecost_spec::host::Cpu;

    fn estimate(value: f64, by: f64) -> Estimate {
        Estimate {
            value,
            low: Some(value / by),
            high: Some(value * by),
            trials: 10,
        }
    }

    fn rate(kind: CeilingKind, mib: f64, depth: u32, gbit_per_s: f64) -> CeilingRate {
        CeilingRate {
            kind,
            mover: "pread".into(),
            size_bytes: 65_536,
            working_set_bytes: (mib * 1_048_576.0) as u64,
            depth,
            gbit_per_s: estimate(gbit_per_s, 1.1),
        }
    }

    #[test]
    fn a_cell_is_compared_with_what_its_route_can_reach_at_its_working_set() {
        let ceiling = Ceiling {
            run: "quiet-otter".into(),
            started: "2026-11-21T03:00:00Z".into(),
            dir: Some("/there".into()),
            device: Some(7),
            disturbed: None,
            rates: vec![
                rate(CeilingKind::UserCopy, 1.0, 1, 300.0),
                rate(CeilingKind::KernelRead, 0.0625, 1, 200.0),
                rate(CeilingKind::KernelRead, 4.0, 1, 160.0),
                rate(CeilingKind::KernelRead, 256.0, 1, 80.0),
                rate(CeilingKind::KernelWrite, 4.0, 1, 140.0),
                rate(CeilingKind::DiskSequential, 256.0, 1, 10.0),
                rate(CeilingKind::DiskSequential, 256.0, 16, 16.0),
                rate(CeilingKind::DiskRandom, 256.0, 32, 4.0),
            ],
        };
        let on = |device: Option<u64>, route: Route, at: &str, expected: Option<f64>| {
            let mut cell = Cell::default();
            for pair in format!("size=64KiB {at}").split_whitespace() {
                let (axis, value) = pair.split_once('=').unwrap();
                cell.set(Axis::named(axis).unwrap(), value).unwrap();
            }
            let found = ceiling
                .rate_for(&cell, route, device)
                .map(|r| r.gbit_per_s.value);
            assert_eq!(found, expected, "{route:?} {at} {device:?}");
        };
        let check = |route: Route, at: &str, expected: Option<f64>| {
            on(Some(7), route, at, expected);
        };
        check(Route::FileToMemory, "ring=64KiB", Some(200.0));
        check(Route::FileToMemory, "ring=512KiB", Some(200.0));
        check(Route::FileToMemory, "ring=1MiB", Some(160.0));
        check(Route::FileToMemory, "ring=16MiB", Some(160.0));
        check(Route::FileToMemory, "ring=2GiB", Some(80.0));
        check(Route::MemoryToFile, "ring=4MiB", Some(140.0));
        check(Route::FileToFile, "ring=4MiB", Some(160.0));
        check(Route::MemoryToSocket, "ring=4MiB", Some(160.0));
        check(Route::FileToSocket, "ring=4MiB", Some(160.0));
        check(Route::Nowhere, "ring=4MiB", None);
        check(Route::MemoryToMemory, "ring=4MiB", None);
        check(Route::FileToMemory, "ring=4MiB threads=2", None);
        check(
            Route::MemoryToSocket,
            "ring=4MiB pattern=request-response",
            None,
        );
        check(Route::MemoryToSocket, "ring=4MiB transport=wire", None);
        check(Route::FileToSocket, "ring=4MiB transport=wire", None);
        check(Route::MemoryToFile, "ring=4MiB cache=direct", None);
        check(Route::MemoryToFile, "ring=4MiB cache=cold", None);
        check(Route::FileToFile, "ring=4MiB cache=direct", None);
        check(Route::FileToNull, "ring=4MiB mover=sendfile-null", None);
        check(Route::FileToMemory, "cache=direct access=random", None);
        // A disk is compared with its own most, and another disk with nothing.
        let read = Route::FileToMemory;
        for cache in ["cold", "direct"] {
            let at = format!("cache={cache} ring=1MiB");
            check(read, &at, Some(16.0));
            on(Some(8), read, &at, None);
            on(None, read, &at, None);
            check(read, &format!("{at} access=random size=4KiB"), Some(4.0));
        }
        on(None, read, "cache=warm ring=4MiB", Some(160.0));
    }

    #[test]
    fn a_share_has_an_interval_from_those_of_both_and_is_absent_above_the_whole() {
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        let ceiling = rate(CeilingKind::KernelRead, 1.0, 1, 160.0);
        let share_of = |found: Estimate| share(&found, &ceiling, 0.0).unwrap();
        let half = share_of(estimate(80.0, 1.1));
        let wide = (1.1_f64.ln() * 2.0_f64.sqrt()).exp();
        assert!(near(half.share.unwrap(), 0.5), "{half:?}");
        assert!(near(half.low.unwrap(), 0.5 / wide), "{half:?}");
        assert!(near(half.high.unwrap(), 0.5 * wide), "{half:?}");
        // One that is known for sure adds nothing.
        let sure = CeilingRate {
            gbit_per_s: estimate(160.0, 1.0),
            ..ceiling.clone()
        };
        let of_sure = share(&estimate(120.0, 1.1), &sure, 0.0).unwrap();
        assert!(near(of_sure.share.unwrap(), 0.75) && near(of_sure.high.unwrap(), 0.825));
        let bare = share_of(Estimate::bare(80.0, 10));
        assert_eq!((bare.low, bare.high), (None, None));
        // Rounds that differ add as much as they differ by.
        let over_rounds = share(&estimate(80.0, 1.1), &sure, 1.1_f64.ln()).unwrap();
        assert!(
            near(over_rounds.high.unwrap(), 0.5 * wide),
            "{over_rounds:?}"
        );
        assert_eq!(share(&estimate(0.0, 1.0), &ceiling, 0.0), None);
        let above = share_of(estimate(170.0, 1.1));
        assert_eq!((above.share, above.low, above.high), (None, None, None));
        assert_eq!(share_of(estimate(160.0, 1.1)).share, Some(1.0));
    }

    #[test]
    fn another_machine_or_kernel_is_another() {
        let host = Host {
            kernel: "6.18.44".into(),
            cpu_model: "AMD EPYC".into(),
            memory_bytes: 48 << 30,
            cpus: vec![Cpu::default()],
            ..Host::default()
        };
        let check = |is_same: bool, change: fn(&mut Host)| {
            let mut other = host.clone();
            change(&mut other);
            assert_eq!(is_same_machine(&host, &other), is_same, "{other:?}");
        };
        check(true, |_| ());
        check(true, |h| h.memory_bytes -= 100 << 20);
        check(true, |h| h.cpus[0].governor = Some("powersave".into()));
        check(true, |h| h.congestion_default = Some("bbr".into()));
        check(false, |h| h.memory_bytes /= 2);
        check(false, |h| h.kernel = "6.19.0".into());
        check(false, |h| h.cpu_model = "Xeon".into());
        check(false, |h| h.cpus.clear());
        check(false, |h| h.virtualization = Some("KVM".into()));
    }
}
