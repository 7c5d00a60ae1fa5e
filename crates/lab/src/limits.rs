//! The names of limits that were reached: by a thread or process that was not started, and by a process
//! that the kernel ended.

use std::io;
use std::process::ExitStatus;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use std::{os::unix::process::ExitStatusExt, thread};

use bytecost_host::{Roots, limits};
use bytecost_spec::units::bytes_in_words;
use rustix::io::Errno;
use rustix::process::Signal;

use crate::classes::REALTIME_MOST_US;

/// The time for which an attempt without memory is repeated, and the time between two.
const RETRIED_FOR: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Starts a thread in a scope. The error names the limit that refuses it.
pub(crate) fn start<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).map_err(named)
}

/// Repeats an attempt for a while, as long as its error is one of lack.
pub(crate) fn retried<T, E>(
    is_lacking: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(e) if is_lacking(&e) && begun.elapsed() < RETRIED_FOR => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

/// Memory of so many bytes with this value; the error names the limit that refuses it. The allocator of
/// `vec!` would end the process.
pub(crate) fn memory(value: u8, bytes: usize) -> io::Result<Vec<u8>> {
    let mut memory = empty_memory(bytes)?;
    memory.resize(bytes, value);
    Ok(memory)
}

/// As [`memory`], but untouched: a vector without elements whose capacity is so many bytes.
pub(crate) fn empty_memory(bytes: usize) -> io::Result<Vec<u8>> {
    let mut memory = Vec::new();
    memory
        .try_reserve_exact(bytes)
        .map_err(|_| named(Errno::NOMEM.into()))?;
    Ok(memory)
}

/// The result of a thread, or of the same work by the caller where the thread could not be started.
pub fn joined<T>(
    begun: io::Result<ScopedJoinHandle<'_, T>>,
    work: impl FnOnce() -> T,
) -> thread::Result<T> {
    match begun {
        Ok(thread) => thread.join(),
        Err(_) => Ok(work()),
    }
}

/// The error of a thread or process that could not be started, with the limit that refuses it.
pub(crate) fn named(error: io::Error) -> io::Error {
    let roots = Roots::real();
    let why = match Errno::from_io_error(&error) {
        Some(Errno::AGAIN) => limits::thread_refusal(&roots),
        Some(Errno::NOMEM) => limits::memory_refusal(&roots),
        _ => return error,
    };
    io::Error::new(error.kind(), why)
}

/// The end of a process, with the limit that ended it, as a clause without a subject. `stderr` is
/// the first line of its standard error.
pub(crate) fn how_ended(status: ExitStatus, stderr: &str) -> String {
    let roots = Roots::real();
    let stderr_in_brackets = || match stderr {
        "" => String::new(),
        line => format!(" ({line})"),
    };
    let Some(signal) = status.signal() else {
        let code = status.code().unwrap_or(-1);
        return match stderr {
            "" => format!("ended with status {code} and said nothing"),
            line => format!("ended with status {code} ({line})"),
        };
    };
    match Signal::from_named_raw(signal) {
        // A mapped file that ends before the mapping does.
        Some(Signal::BUS) => {
            "was ended by SIGBUS: the file became shorter while it was mapped, or its disk failed"
                .to_owned()
        }
        Some(Signal::XCPU) => format!(
            "was ended by the kernel: a thread of real time did not block for {} s (RLIMIT_RTTIME): shorten --window, or choose another --class",
            REALTIME_MOST_US / 1_000_000
        ),
        Some(Signal::KILL) => killed(&roots),
        Some(Signal::ABORT) if stderr.contains("memory allocation") => {
            format!("got no memory: {}", limits::memory_refusal(&roots))
        }
        Some(Signal::SEGV) if stderr.contains("overflowed its stack") => {
            "used up its stack (RLIMIT_STACK): raise it with `ulimit -s 8192`".to_owned()
        }
        named => {
            let name = named.map_or_else(|| format!("signal {signal}"), signal_name);
            format!("was ended by {name}{}", stderr_in_brackets())
        }
    }
}

/// SIGKILL comes from the kernel that has no memory left, or from another program.
fn killed(roots: &Roots) -> String {
    let group = limits::group_memory_limit(roots);
    let by_kernel = limits::oom_kills(roots) > 0;
    match group.filter(|_| by_kernel) {
        Some(group) => format!(
            "was ended by the kernel: {} allows {}, which were used up: raise it, or choose a smaller --ring and --threads",
            group.name,
            bytes_in_words(group.limit)
        ),
        None => "was ended by SIGKILL: another program sent it, or the kernel for want of memory (`dmesg` shows that)".to_owned(),
    }
}

fn signal_name(signal: Signal) -> String {
    // `Signal::SEGV`.
    let debug = format!("{signal:?}");
    let name = debug.rsplit([':', '(']).next().unwrap_or(&debug);
    format!("SIG{}", name.trim_end_matches(')'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial_error::is_lacking;

    #[test]
    fn what_lacks_memory_for_a_moment_is_tried_again_and_what_is_refused_is_not() {
        let mut attempts = 0;
        let mut failing = |errno: Errno, times| {
            attempts = 0;
            let done = retried(is_lacking, || {
                attempts += 1;
                if attempts > times {
                    Ok(())
                } else {
                    Err(io::Error::from(errno))
                }
            });
            (done.is_ok(), attempts)
        };
        assert_eq!(failing(Errno::NOMEM, 3), (true, 4));
        assert_eq!(failing(Errno::OPNOTSUPP, 3), (false, 1));
        let (works, tries) = failing(Errno::NOMEM, u32::MAX);
        assert!(!works && tries > 1, "{tries}");
    }

    #[test]
    fn how_a_process_ended_is_never_a_bare_number() {
        let by = |signal: Signal| ExitStatus::from_raw(signal.as_raw());
        let check = |status: ExitStatus, stderr: &str, parts: &[&str]| {
            let how = how_ended(status, stderr);
            for part in parts {
                assert!(how.contains(part), "{how}");
            }
            for raw in ["()", "signal 9", "signal 11"] {
                assert!(!how.contains(raw), "{how}");
            }
        };
        check(by(Signal::KILL), "", &["SIGKILL", "want of memory"]);
        check(by(Signal::SEGV), "", &["was ended by SIGSEGV"]);
        check(
            by(Signal::SEGV),
            "thread 'main' has overflowed its stack",
            &["RLIMIT_STACK"],
        );
        check(
            by(Signal::ABORT),
            "memory allocation of 8 bytes failed",
            &["got no memory", "--ring"],
        );
        check(by(Signal::XCPU), "", &["did not block for 10 s"]);
        // Wait statuses have the code in their second byte.
        check(
            ExitStatus::from_raw(101 << 8),
            "",
            &["status 101 and said nothing"],
        );
        check(
            ExitStatus::from_raw(1 << 8),
            "error: x",
            &["status 1 (error: x)"],
        );
    }

    #[test]
    fn memory_that_no_machine_has_is_an_error_with_its_remedy() {
        assert_eq!(memory(7, 3).unwrap(), [7; 3]);
        let beyond_addresses = 1 << 48;
        let why = memory(0, beyond_addresses).unwrap_err().to_string();
        assert!(why.contains("memory") && why.len() > 20, "{why}");
    }

    #[test]
    fn a_refused_thread_names_its_limit() {
        let error = named(io::Error::from(Errno::AGAIN));
        let why = error.to_string();
        assert!(why.starts_with("no more threads and processes"), "{why}");
        assert!(
            why.contains("raise it") && why.contains("--threads"),
            "{why}"
        );
        let other = named(io::Error::other("else"));
        assert_eq!(other.to_string(), "else");
    }
}
