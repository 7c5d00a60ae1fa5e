//! Ctrl-C and SIGTERM: end the run, keep what is finished. A file that may not grow: an error.

use std::io::{self, pipe};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytecost_sys::signals;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// What ends a run.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// The status of a process that a signal ended at once, as a shell has it.
const INTERRUPTED: i32 = 130;

/// A flag that is set by the first of these signals; the second one ends the process at once, and
/// so do 3 s without its end.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    signals::end_at_second(&ENDING, INTERRUPTED)
}

/// A descriptor that becomes readable with the first of these signals; the second one ends the
/// process at once. No thread waits for them, so that the process can fork.
pub fn stop_pipe() -> io::Result<OwnedFd> {
    let (stop, written) = pipe()?;
    stop_flag()?;
    for signal in ENDING {
        signal_hook::low_level::pipe::register(signal, written.try_clone()?)?;
    }
    Ok(stop.into())
}

/// Makes a write beyond RLIMIT_FSIZE fail with EFBIG, see setrlimit(2): the signal that comes
/// with it would end the process without a word.
pub fn outlive_file_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(|_| ())
}
