//! What this machine has of what a row needs.

use bytecost_engine::statement::Need;
use bytecost_sys::ring;

/// Whether it is there, where that is no matter of a path or of a file; none where it is.
pub fn has(need: &Need, has_java: impl FnOnce() -> bool) -> Option<bool> {
    match need {
        Need::Uring => Some(ring::probe().is_ok()),
        Need::Linux(major, minor) => {
            let name = rustix::system::uname();
            let release = name.release().to_string_lossy();
            let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
            let here: (u32, u32) = (numbers.next()?, numbers.next()?);
            Some(here >= (*major, *minor))
        }
        Need::Java => Some(has_java()),
        _ => None,
    }
}
