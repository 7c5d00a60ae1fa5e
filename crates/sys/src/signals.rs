//! Signals that ask a process to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::low_level;

use crate::children;

/// A flag that the first of these signals sets; the second ends the process at once with that
/// status, also where both come at once on two threads. signal(7), sigaction(2).
pub fn end_at_second(signals: &[i32], status: i32) -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in signals {
        let asked = Arc::clone(&asked);
        let act = move || {
            if asked.swap(true, Ordering::SeqCst) {
                children::exit(status);
            }
        };
        // SAFETY: the action swaps a word and calls _exit(2), which a handler may,
        // signal-safety(7).
        unsafe { low_level::register(*signal, act) }?;
    }
    Ok(asked)
}
