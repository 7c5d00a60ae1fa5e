//! Signals that ask a process to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::low_level;

use crate::children;

/// The time that the process has to end after the first signal, in s.
const GRACE_S: u32 = 3;
const LATE: &[u8] = b"note: it did not end within 3 s of the signal, and is ended at once\n";

/// A flag that the first of these signals sets. A second signal, even if both arrive at once on two
/// threads, ends the process with `status`; so does an alarm 3 s after the first, whatever the process
/// waits for. signal(7), sigaction(2), alarm(2).
pub fn end_at_second(signals: &[i32], status: i32) -> io::Result<Arc<AtomicBool>> {
    held_back(signals, || end_by(signals, status))
}

fn end_by(signals: &[i32], status: i32) -> io::Result<Arc<AtomicBool>> {
    let requested = Arc::new(AtomicBool::new(false));
    let late = move || {
        // SAFETY: it reads a constant.
        unsafe { libc::write(libc::STDERR_FILENO, LATE.as_ptr().cast(), LATE.len()) };
        children::exit(status);
    };
    // SAFETY: the action calls write(2) and _exit(2), which a handler may, signal-safety(7).
    unsafe { low_level::register(libc::SIGALRM, late) }?;
    for signal in signals {
        let requested = Arc::clone(&requested);
        let act = move || {
            if requested.swap(true, Ordering::SeqCst) {
                children::exit(status);
            }
            // SAFETY: it takes a number, and a handler may call it, signal-safety(7).
            unsafe { libc::alarm(GRACE_S) };
        };
        // SAFETY: the action swaps a word and calls alarm(2) or _exit(2), which a handler may,
        // signal-safety(7).
        unsafe { low_level::register(*signal, act) }?;
    }
    Ok(requested)
}

/// Sets handlers of signals, while none of them is delivered to this thread: signal-hook loses one that comes
/// as its first handler is set, and a second handler of it would miss one that comes before. To be called
/// while there is no other thread that could get them. pthread_sigmask(3).
pub fn held_back<T>(signals: &[i32], set: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let held = children::signal_set(signals);
    let former = children::swap_mask(libc::SIG_BLOCK, &held)?;
    let done = set();
    children::swap_mask(libc::SIG_SETMASK, &former)?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_while_handlers_are_set_is_delivered_to_all_of_them() {
        let signal = libc::SIGUSR2;
        let [first, second] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let set = |flag: &Arc<AtomicBool>| signal_hook::flag::register(signal, Arc::clone(flag));
        held_back(&[signal], || {
            held_back(&[signal], || set(&first))?;
            // SAFETY: the signal is for this thread, which blocks it.
            unsafe { libc::raise(signal) };
            set(&second)?;
            assert!(!first.load(Ordering::SeqCst));
            Ok(())
        })
        .unwrap();
        assert!(first.load(Ordering::SeqCst) && second.load(Ordering::SeqCst));
    }
}
