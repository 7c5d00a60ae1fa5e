//! Ctrl-C and SIGTERM: end the run, keep what is finished. A file that may not grow: an error.

use std::io::{self, pipe};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytecost_sys::signals;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// Signals that end a run.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// Exit status of a command that SIGINT ended, as in sh(1): 128 and the number of the signal.
const INTERRUPTED: i32 = 130;

/// A flag that the first of these signals sets. The process ends at once with the second one, or if
/// it still runs 3 s later.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    signals::end_at_second(&ENDING, INTERRUPTED)
}

/// A descriptor that becomes readable with the first of these signals; the second one ends the
/// process at once. No thread waits for them, so that the process can fork.
pub fn stop_pipe() -> io::Result<OwnedFd> {
    let (read_end, write_end) = pipe()?;
    signals::held_back(&ENDING, || {
        stop_flag()?;
        for signal in ENDING {
            signal_hook::low_level::pipe::register(signal, write_end.try_clone()?)?;
        }
        Ok(())
    })?;
    Ok(read_end.into())
}

/// Makes a write beyond RLIMIT_FSIZE fail with EFBIG, see setrlimit(2), instead of ending the
/// process by SIGXFSZ, of which no message says why.
pub fn outlive_file_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(|_| ())
}
