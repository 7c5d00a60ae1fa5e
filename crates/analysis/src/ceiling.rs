//! The ceiling: what this machine's copy and its disk reach at most, and what share of it a cell
//! reaches.

use bytecost_spec::survey::Route;
use bytecost_spec::{Access, Cache, Cell, Host, Manifest, Measure, Metric, Pattern};

use crate::result::{
    Analysis, Ceiling, CeilingKind, CeilingRate, CeilingShare, CellResult, Estimate,
};
use crate::trials::CellTrials;

mod told;

pub(crate) use told::{answers, explanation};

/// The name of the study that measures a ceiling.
pub const STUDY: &str = "ceiling";

/// Memory sizes as far apart as this are the same machine's: what the kernel keeps for itself
/// differs from boot to boot.
const MEMORY_TOLERANCE: f64 = 0.02;
/// Movers that copy nothing of what they move, so that no copy is their ceiling.
const COPIES_NOTHING: [&str; 1] = ["sendfile-null"];
/// The size of the random requests that the disk's ceiling is measured with, in bytes.
const RANDOM_BYTES: u64 = 4096;

/// The ceiling that a run of the study [`STUDY`] measured, from its manifest and its cells; none
/// where it measured nothing.
pub fn ceiling(manifest: &Manifest, analysis: &Analysis) -> Option<Ceiling> {
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    let mut rates: Vec<CeilingRate> = Vec::new();
    for result in &analysis.cells {
        let (Some(kind), Some(estimate)) = (kind(&result.cell), result.estimates.get(&throughput))
        else {
            continue;
        };
        let rate = CeilingRate {
            kind,
            mover: result.cell.mover.clone(),
            size_bytes: result.cell.size_bytes,
            working_set_bytes: result.cell.file_slots().max(1) * result.cell.size_bytes,
            depth: result.cell.depth,
            gbit_per_s: *estimate,
        };
        // Of several ways to ask for the same the better one is the ceiling.
        let same = |r: &&mut CeilingRate| {
            (r.kind, r.working_set_bytes, r.depth, r.size_bytes)
                == (
                    rate.kind,
                    rate.working_set_bytes,
                    rate.depth,
                    rate.size_bytes,
                )
        };
        match rates.iter_mut().find(same) {
            Some(there) if there.gbit_per_s.value >= rate.gbit_per_s.value => {}
            Some(there) => *there = rate,
            None => rates.push(rate),
        }
    }
    rates.sort_by_key(|r| (r.kind, r.working_set_bytes, r.depth));
    let files = manifest.survey.files.as_ref();
    let disturbed = analysis
        .caveats
        .iter()
        .find(|d| d.kind == "other-processes");
    (!rates.is_empty()).then(|| Ceiling {
        run: manifest.id.clone(),
        started: manifest.started.clone(),
        dir: files.map(|f| f.dir.clone()),
        device: files.and_then(|f| f.device),
        disturbed: disturbed.map(|d| d.evidence.clone()),
        rates,
    })
}

/// What the cell of a ceiling's study measures.
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

/// Whether two descriptions are of one machine under one kernel: the same CPUs, caches and memory.
/// Two machines of one make cannot be told apart, and reach the same.
pub fn is_same_machine(one: &Host, other: &Host) -> bool {
    let memory = [one, other].map(|h| h.memory_bytes as f64);
    let apart = (memory[0] - memory[1]).abs() / memory[0].max(memory[1]).max(1.0);
    let cpus = |h: &Host| h.cpus.iter().map(|c| (c.cpu, c.core)).collect::<Vec<_>>();
    (&one.kernel, &one.architecture, &one.cpu_model, &one.caches)
        == (
            &other.kernel,
            &other.architecture,
            &other.cpu_model,
            &other.caches,
        )
        && one.virtualization == other.virtualization
        && cpus(one) == cpus(other)
        && apart <= MEMORY_TOLERANCE
}

impl Ceiling {
    /// The rate that a cell is compared with; none where the ceiling says nothing of it.
    ///
    /// What goes through memory is compared with one core's copy within the kernel at about the
    /// same working set, however often it is copied itself; what comes from the disk, against the
    /// disk's most. Several flows have several cores, who waits for answers is bound by that, and
    /// writing to the disk was not measured.
    fn of(&self, cell: &Cell, route: Route, device: Option<u64>) -> Option<&CeilingRate> {
        if cell.threads != 1 {
            return None;
        }
        let in_file = cell.file_slots().max(1).saturating_mul(cell.size_bytes);
        let from_disk = matches!(cell.cache, Cache::Cold | Cache::Direct);
        match route {
            Route::Nowhere
            | Route::MemoryToMemory
            | Route::Work
            | Route::PingPong
            | Route::PingPongSpinning => None,
            // Over wire nobody takes the bytes in, so that they need not be copied at all.
            Route::MemoryToSocket | Route::FileToSocket
                if from_disk || !cell.transport.has_receiver() =>
            {
                None
            }
            Route::MemoryToSocket | Route::FileToSocket => {
                let ring = cell.ring_slots().saturating_mul(cell.size_bytes);
                (cell.pattern == Pattern::Stream)
                    .then(|| self.nearest(CeilingKind::KernelRead, ring))?
            }
            Route::MemoryToFile if from_disk => None,
            Route::MemoryToFile => self.nearest(CeilingKind::KernelWrite, in_file),
            Route::FileToFile if cell.cache == Cache::Direct => None,
            Route::FileToMemory | Route::FileToNull | Route::FileToFile if from_disk => {
                if self.device.is_none() || self.device != device {
                    return None;
                }
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
        }
    }

    /// The rate at the working set that is nearest by its logarithm.
    fn nearest(&self, kind: CeilingKind, bytes: u64) -> Option<&CeilingRate> {
        let log = |bytes: u64| (bytes.max(1) as f64).ln();
        let distance = |r: &CeilingRate| (log(r.working_set_bytes) - log(bytes)).abs();
        let own = self.rates.iter().filter(|r| r.kind == kind);
        own.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    fn most(&self, kind: CeilingKind) -> Option<&CeilingRate> {
        let own = self.rates.iter().filter(|r| r.kind == kind);
        own.max_by(|a, b| a.gbit_per_s.value.total_cmp(&b.gbit_per_s.value))
    }
}

/// Gives each cell its share of the ceiling, where it has one.
pub(crate) fn take_shares(
    cells: &mut [CellResult],
    trials: &[CellTrials<'_>],
    ceiling: Option<&Ceiling>,
    device: Option<u64>,
) {
    let Some(ceiling) = ceiling else { return };
    let throughput = Metric::both(Measure::ThroughputGbitPerS);
    for (result, of) in cells.iter_mut().zip(trials) {
        let rate = ceiling.of(of.cell, of.route, device);
        if let (Some(rate), Some(found)) = (rate, result.estimates.get(&throughput)) {
            result.ceiling = share(found, rate);
        }
    }
}

/// A rate over a ceiling. Both were measured apart, so the interval is made of theirs: on a log
/// scale their distances to each end add up as squares (Zou and Donner, Construction of
/// confidence limits about effect measures, 2008).
fn share(found: &Estimate, rate: &CeilingRate) -> Option<CeilingShare> {
    let ceiling = &rate.gbit_per_s;
    if ceiling.value <= 0.0 || found.value <= 0.0 {
        return None;
    }
    let share = found.value / ceiling.value;
    if share > 1.0 {
        return Some(CeilingShare {
            ceiling: rate.clone(),
            share: None,
            low: None,
            high: None,
            withheld: Some(above(rate.kind)),
        });
    }
    let far = |a: Option<f64>, b: Option<f64>| {
        let (a, b) = (a? / found.value, b? / ceiling.value);
        (a > 0.0 && b > 0.0).then(|| a.ln().hypot(b.ln()))
    };
    let low = far(found.low, ceiling.high).map(|d| share * (-d).exp());
    let high = far(found.high, ceiling.low).map(|d| share * crate::cells::exp(d));
    Some(CeilingShare {
        ceiling: rate.clone(),
        share: Some(share),
        low,
        high,
        withheld: None,
    })
}

/// Why a share above 100 % is not given.
fn above(kind: CeilingKind) -> String {
    let why = match kind.is_of_disk() {
        true => "not all bytes came from the disk",
        false => "the cell copies each byte less than once",
    };
    format!("it would be above 100 %: {why}, or the ceiling was measured too low")
}

#[cfg(test)]
mod tests;
