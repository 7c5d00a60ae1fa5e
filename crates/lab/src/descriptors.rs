//! The limit of open descriptors, raised where that is allowed; else an error with its remedy.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process has open for itself: files, epoll set, timers, readings of `/proc`.
pub const OWN_DESCRIPTORS: u64 = 64;

/// Makes sure that this process may open `wanted` descriptors beside its own, getrlimit(2).
/// Processes that it starts inherit the limit. Refused by the hard limit, in one line that says how
/// to raise it.
pub fn make_room(wanted: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    match raised(wanted.saturating_add(OWN_DESCRIPTORS), limit) {
        Ok(None) => Ok(()),
        Ok(Some(raised)) => Ok(setrlimit(Resource::Nofile, raised)?),
        Err(why) => Err(io::Error::new(io::ErrorKind::QuotaExceeded, why)),
    }
}

/// Makes room for as many descriptors as there may be, at most `most`. Returns their number; errors as
/// those of [`make_room`].
pub fn make_most_room(most: u64) -> io::Result<u64> {
    let hard = getrlimit(Resource::Nofile).maximum;
    let room = hard.map_or(most, |hard| most.min(hard.saturating_sub(OWN_DESCRIPTORS)));
    make_room(room.max(1))?;
    Ok(room)
}

/// The limit to set, if another one is needed; none at all where the hard one does not allow it.
fn raised(needed: u64, limit: Rlimit) -> Result<Option<Rlimit>, String> {
    // No number is no limit.
    if limit.current.is_none_or(|soft| needed <= soft) {
        return Ok(None);
    }
    match limit.maximum {
        Some(hard) if needed > hard => Err(format!(
            "{needed} open descriptors are needed and {hard} are allowed: ask for fewer \
             connections, or raise the hard limit (ulimit -Hn {needed} as root, or \
             LimitNOFILE={needed} for a service)"
        )),
        // Not more than is needed: programs that go through all possible numbers take longer.
        maximum => Ok(Some(Rlimit {
            current: Some(needed),
            maximum,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_is_needed_and_allowed() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let check = |needed, have, expected| assert_eq!(raised(needed, have), expected);
        check(100, limit(Some(100), Some(1000)), Ok(None));
        check(100, limit(None, None), Ok(None));
        let some = |current, maximum| Ok(Some(limit(Some(current), maximum)));
        check(101, limit(Some(100), Some(1000)), some(101, Some(1000)));
        check(1000, limit(Some(100), Some(1000)), some(1000, Some(1000)));
        check(5000, limit(Some(100), None), some(5000, None));
        let refused = raised(1001, limit(Some(100), Some(1000))).unwrap_err();
        assert!(refused.starts_with("1001 open descriptors are needed and 1000 are allowed"));
        assert!(refused.contains("ulimit -Hn 1001"), "{refused}");
    }

    #[test]
    fn what_no_machine_allows_is_refused() {
        let error = make_room(u64::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
        assert!(make_room(0).is_ok());
        assert_eq!(make_most_room(10).unwrap(), 10);
    }
}
