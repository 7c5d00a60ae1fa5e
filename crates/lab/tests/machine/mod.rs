//! What this machine has of what a row needs.

use bytecost_engine::statement::Requirement;
use bytecost_sys::ring;

/// Whether it is there, where that is no matter of a path or of a file; none where it is.
pub fn has(need: &Requirement, has_java: impl FnOnce() -> bool) -> Option<bool> {
    match need {
        Requirement::Uring => Some(ring::probe().is_ok()),
        Requirement::Linux(major, minor) => {
            let name = rustix::system::uname();
            let release = name.release().to_string_lossy();
            let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
            let here: (u32, u32) = (numbers.next()?, numbers.next()?);
            Some(here >= (*major, *minor))
        }
        Requirement::Java => Some(has_java()),
        _ => None,
    }
}
