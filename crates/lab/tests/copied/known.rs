//! What each row states of its copies, and where a count may be absent.

use bytecost_engine::Mover;
use bytecost_spec::Cache;
use bytecost_spec::evidence::{CopyMeans, CopyPlace};

/// Copies that a byte may seem to have had too many or too few; of what goes over TCP, which sends
/// a segment again here and there, which is copied again.
const NEAR: f64 = 0.02;
const NEAR_OVER_TCP: f64 = 0.05;
/// Calls that take pages out of a file, as its file system can.
const TAKING: &[&str] = &["sendfile", "splice", "copy_file_range", "IORING_OP_SPLICE"];

/// One place on the way of one cell.
pub struct Case<'k> {
    pub means: CopyMeans,
    pub mover: &'static Mover,
    pub receiver: &'k str,
    pub cache: Cache,
    pub leg: CopyPlace,
    pub kind: &'k str,
}

impl Case<'_> {
    /// Whether this is a number that is known to be right, or an absence that is allowed.
    pub fn is_right(&self, per_byte: Option<f64>) -> bool {
        let is_discarded = self.receiver == "recv-discard" && self.leg == CopyPlace::ToReader;
        let is_stated = self.mover.states.copies.contains(&self.leg);
        let is_copied = is_stated && !is_discarded && self.cache != Cache::Direct;
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
                        || self.cache == Cache::Direct && !["ext4", "xfs"].contains(&self.kind)
                }
            }
    }
}
