//! Ctrl-C and SIGTERM: end the run, keep what is finished. A file that may not grow: an error.

use std::io::{self, pipe};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

/// A flag that is set by the first of these signals; the second one ends the process at once.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// A descriptor that becomes readable with the first of these signals; the second one ends the
/// process at once. No thread waits for them, so that the process can fork.
pub fn stop_pipe() -> io::Result<OwnedFd> {
    let (stop, written) = pipe()?;
    stop_flag()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, written.try_clone()?)?;
    }
    Ok(stop.into())
}

/// Makes a write beyond RLIMIT_FSIZE fail with EFBIG, see setrlimit(2): the signal that comes
/// with it would end the process without a word.
pub fn outlive_file_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(|_| ())
}
