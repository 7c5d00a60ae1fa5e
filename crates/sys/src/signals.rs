//! Signals that ask a process to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::low_level;

use crate::children;

/// How long a process may take to end once it was asked to.
const LONGEST_S: u32 = 3;
const LATE: &[u8] = b"note: it did not end within 3 s of the signal, and is ended at once\n";

/// A flag that the first of these signals sets; the second ends the process at once with that
/// status, also where both come at once on two threads, and so do 3 s that have passed, whatever the
/// process waits for. signal(7), sigaction(2), alarm(2).
pub fn end_at_second(signals: &[i32], status: i32) -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let late = move || {
        // SAFETY: it reads a constant.
        unsafe { libc::write(libc::STDERR_FILENO, LATE.as_ptr().cast(), LATE.len()) };
        children::exit(status);
    };
    // SAFETY: the action calls write(2) and _exit(2), which a handler may, signal-safety(7).
    unsafe { low_level::register(libc::SIGALRM, late) }?;
    for signal in signals {
        let asked = Arc::clone(&asked);
        let act = move || {
            if asked.swap(true, Ordering::SeqCst) {
                children::exit(status);
            }
            // SAFETY: it takes a number, and a handler may call it, signal-safety(7).
            unsafe { libc::alarm(LONGEST_S) };
        };
        // SAFETY: the action swaps a word and calls alarm(2) or _exit(2), which a handler may,
        // signal-safety(7).
        unsafe { low_level::register(*signal, act) }?;
    }
    Ok(asked)
}
