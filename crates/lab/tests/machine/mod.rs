//! The needs of a row that this machine connection.

use bytecost_engine::statement::Requirement;
use bytecost_sys::ring;

/// True if a need is met that is neither a path nor a file; none for those.
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
