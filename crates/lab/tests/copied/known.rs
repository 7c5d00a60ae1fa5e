//! What is known of each mover's copies, and where a count may be absent.

use bytecost_engine::{Mover, Route};
use bytecost_spec::Cache;
use bytecost_spec::evidence::{CopyMeans, CopyPlace};

/// Copies that a byte may seem to have had too many or too few; of what goes over TCP, which sends
/// a segment again here and there, which is copied again.
const NEAR: f64 = 0.02;
const NEAR_OVER_TCP: f64 = 0.05;
/// Copies of each byte: out of a file, into the kernel, into a file, on delivery, to the reader.
pub type Known = [f64; 5];
const SENT: Known = [0.0, 1.0, 0.0, 0.0, 1.0];
const PINNED: Known = [0.0, 0.0, 0.0, 1.0, 1.0];
const TAKEN: Known = [0.0, 0.0, 0.0, 0.0, 1.0];
const READ_AND_SENT: Known = [1.0, 1.0, 0.0, 0.0, 1.0];
const READ: Known = [1.0, 0.0, 0.0, 0.0, 0.0];
const WRITTEN: Known = [0.0, 0.0, 1.0, 0.0, 0.0];
const READ_AND_WRITTEN: Known = [1.0, 0.0, 1.0, 0.0, 0.0];
const NOTHING: Known = [0.0; 5];

/// Every mover that has a peer or works on files.
pub const EXPECTED: &[(&str, Known)] = &[
    ("send", SENT),
    ("send-fields", SENT),
    ("send-more", SENT),
    ("writev", SENT),
    ("sendmsg", SENT),
    ("send-zerocopy", PINNED),
    ("sendfile", TAKEN),
    ("sendfile-cork", TAKEN),
    ("splice", TAKEN),
    ("vmsplice", TAKEN),
    ("uring-send", SENT),
    ("uring-send-zc", PINNED),
    ("read-write", READ_AND_SENT),
    ("mmap-send", SENT),
    ("uring-splice", TAKEN),
    ("uring-read-send", READ_AND_SENT),
    ("java-stream", READ_AND_SENT),
    ("java-transfer-to", TAKEN),
    ("read", READ),
    ("pread", READ),
    ("preadv2", READ),
    ("preadv2-nowait", READ),
    ("mmap-touch", NOTHING),
    ("posix-aio", READ),
    ("libaio", READ),
    ("uring-read", READ),
    ("uring-read-fixed", READ),
    ("uring-sqpoll", READ),
    ("write", WRITTEN),
    ("write-fdatasync", WRITTEN),
    ("pwrite", WRITTEN),
    ("pwrite-fdatasync", WRITTEN),
    ("uring-write", WRITTEN),
    ("uring-write-fdatasync", WRITTEN),
    ("read-null", READ),
    ("sendfile-null", NOTHING),
    ("read-write-file", READ_AND_WRITTEN),
    ("copy_file_range", WRITTEN),
    ("splice-file", WRITTEN),
];

/// One place on the way of one cell.
pub struct Case<'k> {
    pub means: CopyMeans,
    pub mover: &'static Mover,
    pub cache: Cache,
    pub leg: CopyPlace,
    pub kind: &'k str,
}

impl Case<'_> {
    /// Whether this is a number that is known to be right, or an absence that is allowed.
    pub fn is_right(&self, per_byte: Option<f64>) -> bool {
        let place = CopyPlace::ALL.iter().position(|l| *l == self.leg).unwrap();
        let row = EXPECTED.iter().find(|(name, _)| *name == self.mover.name);
        let once = row.map_or(f64::NAN, |(_, known)| known[place]);
        let expected = if self.cache == Cache::Direct {
            0.0
        } else {
            once
        };
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
        let splices = [
            "sendfile",
            "sendfile-cork",
            "splice",
            "uring-splice",
            "sendfile-null",
        ]
        .contains(&self.mover.name)
            || self.mover.route == Route::FileToFile && self.mover.name != "read-write-file";
        is_of_file
            && match self.means {
                // Modules' functions cannot be hooked.
                CopyMeans::Functions => !is_plain || self.kind == "btrfs",
                _ => {
                    self.mover.name == "libaio"
                        || self.shares()
                        || !is_plain && splices
                        || self.cache == Cache::Direct && !["ext4", "xfs"].contains(&self.kind)
                }
            }
    }
}
