//! The stated copies of each row, and the places at which a count may be absent.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use bytecost_engine::{Mover, file};
use bytecost_evidence::copies::Copies;
use bytecost_lab::files::Files;
use bytecost_lab::protocol::ContentCheck;
use bytecost_lab::{Event, EvidenceTrial, Lab, Watch};
use bytecost_spec::evidence::{Copied, CopiedBytes, CopyMeans, CopyPlace, TrialEvidence};
use bytecost_spec::{Cache, Cell, Record};

use crate::harness;
use crate::harness::lack::{Lack, skipped};

/// Copies of a byte too many or too few; TCP sends a segment again here and there, another copy.
const NEAR: f64 = 0.02;
const NEAR_OVER_TCP: f64 = 0.05;
/// Set in the process that tests in a directory.
pub const DIR: &str = "BYTECOST_TEST_DIR";
/// Trials, one of which must count all: a program that would interrupt itself is left out.
const TRIALS: u32 = 3;
/// Calls that take pages out of a file, as its file system can.
const TAKING: &[&str] = &["sendfile", "splice", "copy_file_range", "IORING_OP_SPLICE"];

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
pub fn counting(means: CopyMeans, root: &Path) -> Option<(Lab, Watch)> {
    if let Err(e) = Copies::by(root, &[means]) {
        let is_held = means == CopyMeans::Tracepoints && rustix::process::geteuid().is_root();
        assert!(!is_held, "{e}");
        skipped(Lack::Machine, format_args!("{}: {e}", means.title()));
        return None;
    }
    let settings = harness::settings(ContentCheck::Quick);
    let window = settings.window;
    let lab = harness::lab(settings, Files::new(dir(), None));
    Some((lab, Watch::of_copies_by(&[means], root, window)))
}

pub fn cell(mover: &str, values: &str) -> Cell {
    let usual = "receiver=recv cache=memory size=64KiB block=64KiB ring=1MiB depth=4";
    harness::cell(&format!("mover={mover} {usual} {values}"))
}

/// The counts of a cell, or the reason why it does not work here.
pub fn counted(lab: &mut Lab, watch: &mut Watch, cell: &Cell) -> Result<TrialEvidence, String> {
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
    let trial = EvidenceTrial {
        round: 0,
        number: 0,
        cell: cell.clone(),
    };
    lab.watch(watch, [trial], None, &stop, &mut see);
    found
}

/// Holds each place on the way of these cells against what their rows state.
pub fn walk(means: CopyMeans, cells: impl Iterator<Item = Cell>) {
    let Some((mut lab, mut watch)) = counting(means, Path::new("/")) else {
        return;
    };
    let (mut places, mut wrong) = (0, Vec::new());
    for cell in cells {
        let mut trials = 0..if cell.transport.is_wire() { TRIALS } else { 1 };
        while trials.next().is_some() {
            let found = match counted(&mut lab, &mut watch, &cell) {
                Ok(found) => found.copies.expect("nobody counted"),
                Err(why) => {
                    skipped(Lack::Machine, format_args!("{}: {why}", cell.id()));
                    break;
                }
            };
            let (lost, differing) = compared(means, &cell, &found);
            // An absent count is tried again, a wrong one is not.
            if !lost || trials.is_empty() {
                let is_counted =
                    |c: &&Copied| found.payload_bytes > 0 && c.bytes.measured().is_some();
                places += found.legs.iter().filter(is_counted).count();
                wrong.extend(differing);
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(places > 0, "nothing was counted in {}", dir().display());
}

/// True if a count is absent that must not be, and all counts that are wrong.
fn compared(means: CopyMeans, cell: &Cell, found: &CopiedBytes) -> (bool, Vec<String>) {
    let kind = match cell.cache {
        Cache::Memory => "tmpfs".to_owned(),
        _ => file::file_system(&dir()).unwrap(),
    };
    let (mut lost, mut wrong) = (false, Vec::new());
    // Where nothing was moved within the window, nothing is known.
    for copied in found.legs.iter().filter(|_| found.payload_bytes > 0) {
        let bytes = copied.bytes.measured();
        let per_byte = bytes.map(|b| b as f64 / found.payload_bytes as f64);
        let amount = per_byte.map_or_else(|| format!("{:?}", copied.bytes), |v| format!("{v:.3}"));
        let (title, cell_id) = (copied.leg.title(), cell.id());
        let line = format!("{}: {cell_id}, {kind}: {title}: {amount}", means.title());
        println!("{line}");
        let case = Case {
            means,
            mover: Mover::named(&cell.mover).unwrap(),
            cell,
            leg: copied.leg,
            kind: &kind,
        };
        if !case.is_right(per_byte) {
            lost |= per_byte.is_none();
            wrong.push(line);
        }
    }
    (lost, wrong)
}

/// One place on the way of one cell.
struct Case<'k> {
    means: CopyMeans,
    mover: &'static Mover,
    cell: &'k Cell,
    leg: CopyPlace,
    kind: &'k str,
}

impl Case<'_> {
    /// Returns true for a number that is known to be right, or an absence that is allowed.
    fn is_right(&self, per_byte: Option<f64>) -> bool {
        let receiver = self.cell.receiver.as_str();
        let is_discarded = receiver == "recv-discard" && self.leg == CopyPlace::ToReader;
        let is_stated = self.mover.states.copies.contains(&self.leg);
        let is_copied = is_stated && !is_discarded && self.cell.cache != Cache::Direct;
        let expected = f64::from(u8::from(is_copied));
        let near = if self.mover.has_peer() {
            NEAR_OVER_TCP
        } else {
            NEAR
        };
        match per_byte {
            // Two files may share their blocks there.
            Some(0.0) if self.shares() => true,
            Some(found) => (found - expected).abs() < near,
            None => self.may_be_absent(),
        }
    }

    fn shares(&self) -> bool {
        self.mover.name == "copy_file_range" && ["btrfs", "xfs"].contains(&self.kind)
    }

    fn may_be_absent(&self) -> bool {
        let is_of_file = matches!(self.leg, CopyPlace::FromFile | CopyPlace::IntoFile);
        let is_plain = ["tmpfs", "ext4", "xfs", "btrfs"].contains(&self.kind);
        let mut calls = self.mover.states.calls.iter();
        let splices = calls.any(|call| TAKING.contains(&call.name));
        is_of_file
            && match self.means {
                // Modules' functions cannot be hooked.
                CopyMeans::Functions => !is_plain || self.kind == "btrfs",
                _ => {
                    self.mover.name == "libaio"
                        || self.shares()
                        || !is_plain && splices
                        || self.cell.cache == Cache::Direct && !["ext4", "xfs"].contains(&self.kind)
                }
            }
    }
}
