//! Transfers whose copies are known, with which counts are compared before they are believed.

use std::sync::atomic::AtomicBool;

use bytecost_engine::{Mover, file};
use bytecost_spec::cell::Ring;
use bytecost_spec::evidence::{CopiedBytes, CopyPlace};
use bytecost_spec::{Cache, Cell, Reading};

use crate::files::Files;
use crate::testbed::Testbed;
use crate::trial;
use crate::trial_error::TrialError;
use crate::watch::{AffectedPlaces, Watch, copied, copy_places};

/// Movers, with the places at which the kernel copies each of their bytes.
const KNOWN: &[(&str, &[CopyPlace])] = &[
    ("pread", &[CopyPlace::FromFile]),
    ("pwrite", &[CopyPlace::IntoFile]),
    ("send", &[CopyPlace::IntoKernel, CopyPlace::ToReader]),
    (PINNING, &[CopyPlace::Delivery]),
];
/// TCP alone pins a sender's pages, which are then copied on delivery to this machine.
const PINNING: &str = "send-zerocopy";
/// One message of a known transfer, in bytes.
const MESSAGE_BYTES: u64 = 32 << 10;
/// Copies that must be counted of a byte that is copied once.
const LEAST: f64 = 0.5;

/// The mover that leaves copying to the file system.
const BY_FILE_SYSTEM: &str = "copy_file_range";
/// File systems that let files share blocks, and those whose disk writes without a copy.
const SHARING: &[&str] = &["btrfs", "xfs"];
const LOCAL: &[&str] = &["btrfs", "ext4", "f2fs", "xfs"];

/// The cell of a known transfer over the same path as another cell, or with a file in the same place.
fn known(cell: &Cell, mover: &Mover, files: &Files) -> Cell {
    let mut known = Cell {
        mover: mover.name.to_owned(),
        size_bytes: MESSAGE_BYTES,
        ..Cell::default()
    };
    if mover.has_peer() {
        "recv".clone_into(&mut known.receiver);
        known.transport = cell.transport;
        known.congestion.clone_from(&cell.congestion);
        known.mtu_bytes = cell.mtu_bytes;
        known.segment_bytes = cell.segment_bytes;
        known.device = cell.device;
        known.ack_bytes = cell.ack_bytes;
    } else {
        known.cache = match cell.cache {
            Cache::Memory => Cache::Memory,
            Cache::Warm | Cache::Cold | Cache::Direct => Cache::Warm,
        };
        // A file of the user's may be no longer than its own cells need it.
        if files.user().is_some() {
            known.size_bytes = cell.size_bytes.min(MESSAGE_BYTES);
        }
    }
    known.ring = Ring::Bytes(known.size_bytes);
    known
}

fn file_system(cell: &Cell, files: &Files) -> String {
    if cell.cache == Cache::Memory {
        return "tmpfs".to_owned();
    }
    file::file_system(files.user().unwrap_or_else(|| files.dir()))
        .unwrap_or_else(|_| "unknown".to_owned())
}

/// The error in the count of a known transfer at one place; none where it is right.
fn missed(leg: CopyPlace, mover: &str, per_byte: f64, file_system: &str) -> Option<String> {
    if per_byte >= LEAST {
        return None;
    }
    let does = match leg {
        CopyPlace::FromFile => format!("what reads files of this file system ({file_system})"),
        CopyPlace::IntoFile => format!("what writes files of this file system ({file_system})"),
        _ => "what copies on this path".to_owned(),
    };
    Some(format!(
        "{does} is not among what is counted: of a known transfer by `{mover}` {per_byte:.2} copies a byte were counted"
    ))
}

/// Returns true if the kernel must copy a cell's bytes at a place.
fn must_copy(cell: &Cell, leg: CopyPlace) -> bool {
    let Some(mover) = Mover::named(&cell.mover) else {
        return false;
    };
    let is_stated = mover.states.copies.contains(&leg);
    let is_cached = cell.cache != Cache::Direct && mover.name != BY_FILE_SYSTEM;
    is_stated && (leg == CopyPlace::IntoKernel || leg == CopyPlace::IntoFile && is_cached)
}

/// The reason not to believe a count that contradicts the facts of its mover; none for any other one.
fn contradiction(cell: &Cell, leg: CopyPlace, per_byte: f64, file_system: &str) -> Option<String> {
    if per_byte >= LEAST {
        return None;
    }
    if must_copy(cell, leg) {
        return Some(format!(
            "the kernel must copy these bytes {}, and {per_byte:.2} copies a byte were counted: what copies them is not among what is counted",
            leg.title()
        ));
    }
    let without_a_copy = match cell.cache {
        Cache::Direct => LOCAL,
        _ => SHARING,
    };
    let by_other = cell.mover == BY_FILE_SYSTEM && leg == CopyPlace::IntoFile;
    (by_other && !without_a_copy.contains(&file_system)).then(|| {
        format!("{file_system} may have had another program or machine copy, which nothing counts")
    })
}

/// The counts of a cell's copies, without those that are not to be believed.
pub(super) fn believed(
    counted: CopiedBytes,
    cell: &Cell,
    affected: &AffectedPlaces,
    files: &Files,
) -> CopiedBytes {
    believed_on(counted, cell, affected, &file_system(cell, files))
}

fn believed_on(
    mut counted: CopiedBytes,
    cell: &Cell,
    affected: &AffectedPlaces,
    file_system: &str,
) -> CopiedBytes {
    let payload_bytes = counted.payload_bytes.max(1) as f64;
    for copied in &mut counted.legs {
        let Some(bytes) = copied.bytes.measured() else {
            continue;
        };
        let per_byte = bytes as f64 / payload_bytes;
        let why = affected.get(&copied.leg).cloned();
        if let Some(why) = why.or_else(|| contradiction(cell, copied.leg, per_byte, file_system)) {
            copied.bytes = Reading::absent(why);
            copied.means = None;
        }
    }
    counted
}

/// The places of a cell at which known transfers over its path show that copies are not counted, each
/// with the reason not to believe its count.
pub(super) fn affected(
    bed: &mut Testbed,
    watch: &mut Watch,
    cell: &Cell,
    stop: &AtomicBool,
) -> Result<AffectedPlaces, TrialError> {
    let mut all = AffectedPlaces::new();
    if !watch.counts_copies() || cell.is_served() {
        return Ok(all);
    }
    let places = copy_places(cell);
    for (name, legs) in KNOWN {
        let is_there = *name != PINNING || cell.transport.is_tcp();
        let mover = Mover::named(name).filter(|_| is_there);
        let Some(mover) = mover.filter(|_| legs.iter().any(|leg| places.contains(leg))) else {
            continue;
        };
        let known = known(cell, mover, &bed.local.files);
        let found = match watch.known.get(&known.id()) {
            Some(found) => found.clone(),
            None => {
                let found = compared(bed, watch, &known, legs, stop)?;
                watch.known.insert(known.id(), found.clone());
                found
            }
        };
        all.extend(found);
    }
    Ok(all)
}

fn compared(
    bed: &mut Testbed,
    watch: &Watch,
    known: &Cell,
    legs: &[CopyPlace],
    stop: &AtomicBool,
) -> Result<AffectedPlaces, TrialError> {
    let file_system = file_system(known, &bed.local.files);
    let mut attempt = || trial::attempt(bed, known, watch.window(), Some(watch), stop);
    // Its result holds for all cells with this path, so that one failure by chance does not count.
    let output = match attempt() {
        Err(TrialError::Failed(_)) => attempt(),
        first => first,
    };
    let counted = match output {
        Err(TrialError::Interrupted) => return Err(TrialError::Interrupted),
        Err(TrialError::Failed(failure)) => Err(failure.reason),
        Ok(output) => copied(known, &output)
            .filter(|counted| counted.payload_bytes > 0)
            .ok_or_else(|| "nothing was moved".to_owned()),
    };
    let why = |leg: CopyPlace| match &counted {
        Err(why) => Some(format!(
            "the known transfer by `{}` that it is compared with failed: {why}",
            known.mover
        )),
        Ok(counted) => {
            let copied = counted.legs.iter().find(|c| c.leg == leg)?;
            let bytes = copied.bytes.measured()?;
            let per_byte = bytes as f64 / counted.payload_bytes as f64;
            missed(leg, &known.mover, per_byte, &file_system)
        }
    };
    Ok(legs
        .iter()
        .filter_map(|leg| Some((*leg, why(*leg)?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytecost_engine::MOVERS;
    use bytecost_spec::evidence::{Copied, CopyMeans};

    fn cell(mover: &str, cache: Cache) -> Cell {
        Cell {
            mover: mover.to_owned(),
            cache,
            ..Cell::default()
        }
    }

    /// The count that is left of so many copies a byte, affected or not.
    fn left(mover: &str, leg: CopyPlace, per_byte: f64, why: Option<&str>, kind: &str) -> Reading {
        let counted = CopiedBytes {
            payload_bytes: 1000,
            legs: vec![Copied {
                leg,
                means: Some(CopyMeans::Functions),
                bytes: Reading::Measured((per_byte * 1000.0) as u64),
            }],
            gaps: Vec::new(),
        };
        let affected = why.map(|why| (leg, why.to_owned())).into_iter().collect();
        let found = believed_on(counted, &cell(mover, Cache::Warm), &affected, kind);
        let is_measured = found.legs[0].bytes.measured().is_some();
        assert_eq!(found.legs[0].means.is_some(), is_measured);
        found.legs[0].bytes.clone()
    }

    #[test]
    fn a_zero_of_what_must_be_copied_is_absent_with_the_reason() {
        use CopyPlace::{FromFile, IntoFile, IntoKernel};
        let check = |mover, leg, per_byte: f64, kind, part: Option<&str>| {
            let found = left(mover, leg, per_byte, None, kind);
            let why = serde_json::to_string(&found).unwrap();
            let is_right = part.map_or(found.measured().is_some(), |part| why.contains(part));
            assert!(is_right, "{mover} {leg:?} {per_byte}: {why}");
        };
        let must = Some("must copy these bytes");
        check("pwrite", IntoFile, 0.0, "zfs", must);
        check("uring-write", IntoFile, 0.49, "ext4", must);
        check("splice-file", IntoFile, 0.0, "ext4", must);
        check("splice-file", IntoFile, 1.0, "ext4", None);
        check("splice-file", FromFile, 0.0, "ext4", None);
        check("mmap-touch", FromFile, 0.0, "ext4", None);
        check("copy_file_range", IntoFile, 0.0, "btrfs", None);
        let other = Some("fuse may have had");
        check("copy_file_range", IntoFile, 0.0, "fuse", other);
        check("copy_file_range", IntoFile, 1.0, "fuse", None);
        check("send", IntoKernel, 0.0, "ext4", must);
        check("send-zerocopy", IntoKernel, 0.0, "ext4", None);
        check("sendfile", IntoKernel, 0.0, "ext4", None);
        let direct = cell("pwrite", Cache::Direct);
        assert_eq!(contradiction(&direct, IntoFile, 0.0, "ext4"), None);
    }

    #[test]
    fn what_a_known_transfer_contradicts_is_absent_whatever_was_counted() {
        let uncounted = Some("not counted");
        for per_byte in [0.0, 1.0] {
            let found = left("read", CopyPlace::FromFile, per_byte, uncounted, "ext4");
            assert_eq!(found, Reading::absent("not counted"));
        }
        let why = missed(CopyPlace::IntoFile, "pwrite", 0.0, "btrfs").unwrap();
        let expected = "writes files of this file system (btrfs)";
        assert!(why.contains(expected), "{why}");
        assert_eq!(missed(CopyPlace::IntoFile, "pwrite", 0.99, "btrfs"), None);
    }

    #[test]
    fn every_place_has_a_known_transfer_that_is_copied_there() {
        for leg in CopyPlace::ALL {
            let own = KNOWN.iter().filter(|(_, legs)| legs.contains(leg));
            assert_eq!(own.count(), 1, "{leg:?}");
        }
        for (name, legs) in KNOWN {
            let mover = Mover::named(name).unwrap();
            let known = known(&cell("uring-read", Cache::Cold), mover, &Files::default());
            assert!(
                legs.iter().all(|leg| copy_places(&known).contains(leg)),
                "{name}"
            );
            let stated = mover.states.copies;
            assert!(legs.iter().all(|leg| stated.contains(leg)), "{name}");
        }
        assert!(MOVERS.iter().any(|m| m.name == BY_FILE_SYSTEM));
    }

    #[test]
    fn a_known_transfer_goes_the_very_path_of_its_cell() {
        let mut asked = cell("sendfile", Cache::Cold);
        asked.transport = bytecost_spec::Transport::Veth;
        asked.mtu_bytes = Some(9000);
        asked.size_bytes = 100;
        let of = |name, files: &Files| known(&asked, Mover::named(name).unwrap(), files);
        let own = Files::default();
        let sent = of("send", &own);
        assert_eq!(sent.transport, asked.transport);
        assert_eq!(sent.mtu_bytes, asked.mtu_bytes);
        let read = of("pread", &own);
        assert_eq!((read.cache, read.size_bytes), (Cache::Warm, MESSAGE_BYTES));
        let users = Files::new(std::env::temp_dir(), Some("/etc/hosts".into()));
        assert_eq!(of("pread", &users).size_bytes, 100);
    }
}
