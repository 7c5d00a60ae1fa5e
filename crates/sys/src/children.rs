//! Children of fork(2) without exec, and the children of other processes.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::proc_view;
use crate::process::die_with_parent;
use crate::syscall::{handle, keeping_errno, new_fd};

/// Links of `/proc/self/task` in a process of one thread: one for each thread, and two of any
/// directory.
const LINKS_OF_ONE_THREAD: u64 = 3;

/// Signals that ask a server to finish. SIGINT is among them because Ctrl-C goes to all processes of a
/// terminal's foreground at once, the children included.
const FINISH: [libc::c_int; 2] = [libc::SIGTERM, libc::SIGINT];

/// In a child, the descriptor of its connection.
static INPUT: AtomicI32 = AtomicI32::new(-1);

/// Forks a child, as [`fork_child`] does, that serves `socket`. SIGTERM and SIGINT end not the child but
/// its input: shutdown(2) with SHUT_RD, so that requests that have arrived still get a response.
pub fn fork_server(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    // A signal must not arrive before the child has its handler.
    block(&FINISH)?;
    let forked = fork_child();
    if let Ok(None) = forked {
        INPUT.store(socket.as_raw_fd(), Ordering::Relaxed);
        let handled = FINISH.into_iter().try_for_each(end_input_on);
        // An error must not be returned here: the child would take itself for its parent.
        if handled.and_then(|()| unblock(&FINISH)).is_err() {
            exit(1);
        }
        return Ok(None);
    }
    unblock(&FINISH)?;
    forked
}

/// fork(2): the child's process id in the parent, none in the child. The child is killed when the thread
/// that forked it ends; it ends itself by [`exit`].
///
/// # Errors
/// `Unsupported` in a process with more than one thread: a lock that another thread holds would stay
/// locked in the child for ever. `WouldBlock` at the limit of processes.
pub fn fork_child() -> io::Result<Option<u32>> {
    if fs::metadata("/proc/self/task")?.nlink() != LINKS_OF_ONE_THREAD {
        let why =
            "a process with several threads cannot fork a server: serve in a process of its own";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let parent = std::process::id();
    // SAFETY: there is no other thread that could have left something half done.
    match unsafe { libc::fork() } {
        0 if die_with_parent(parent).is_ok() => Ok(None),
        0 => exit(1),
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Some(child as u32)),
    }
}

/// The living children that the first thread of a process has started, by `/proc` below `root`; none
/// without CONFIG_PROC_CHILDREN, proc(5), or if that `/proc` is of another PID namespace.
pub fn started_by(root: &Path, process: u32) -> Option<Vec<u32>> {
    started_by_thread(root, process, process)
}

/// The living children that one thread of a process has started, as [`started_by`].
pub fn started_by_thread(root: &Path, process: u32, thread: u32) -> Option<Vec<u32>> {
    let proc = root.join("proc");
    let path = proc.join(format!("{process}/task/{thread}/children"));
    if !proc_view::is_ours(&proc) {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    text.split_whitespace().map(|n| n.parse().ok()).collect()
}

/// A guard in a child of fork(2): a panic that unwinds to it ends the process, so that the child does
/// not return into the parent's code.
#[derive(Debug)]
pub struct ExitOnDrop;

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        exit(1)
    }
}

/// Ends the process at once, without the parent's buffers, destructors and exit handlers, _exit(2).
pub fn exit(status: i32) -> ! {
    // SAFETY: no code of this process runs afterwards.
    unsafe { libc::_exit(status) }
}

extern "C" fn end_input(_signal: libc::c_int) {
    keeping_errno(|| {
        // SAFETY: shutdown(2) may be called in a handler, signal-safety(7), and a wrong number
        // gives an error.
        unsafe { libc::shutdown(INPUT.load(Ordering::Relaxed), libc::SHUT_RD) };
    });
}

fn end_input_on(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: the handler calls only what a handler may.
    unsafe { handle(signal, end_input, 0) }
}

/// The set of these signals.
pub(crate) fn signal_set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset writes the whole set, which is valid for that.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: sigemptyset has initialised it; a wrong signal number gives an error.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: as above.
    unsafe { set.assume_init() }
}

fn block(signals: &[libc::c_int]) -> io::Result<()> {
    swap_mask(libc::SIG_BLOCK, &signal_set(signals)).map(drop)
}

fn unblock(signals: &[libc::c_int]) -> io::Result<()> {
    swap_mask(libc::SIG_UNBLOCK, &signal_set(signals)).map(drop)
}

/// Changes the signals that this thread blocks. Returns those that it blocked before. pthread_sigmask(3).
pub(crate) fn swap_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut former = signal_set(&[]);
    // SAFETY: both sets are initialised.
    match unsafe { libc::pthread_sigmask(how, set, &raw mut former) } {
        0 => Ok(former),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A descriptor that becomes readable when children have ended (SIGCHLD), signalfd(2). The caller then
/// waits for them.
#[derive(Debug)]
pub struct ChildExits(OwnedFd);

impl ChildExits {
    /// Blocks SIGCHLD and makes it readable until this is dropped. Only for a process of one thread:
    /// otherwise another thread may get the signal.
    pub fn new() -> io::Result<ChildExits> {
        block(&[libc::SIGCHLD])?;
        let set = signal_set(&[libc::SIGCHLD]);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is initialised, and -1 asks for a new descriptor, which has no other owner.
        let fd = unsafe { new_fd(libc::signalfd(-1, &raw const set, flags)) };
        if fd.is_err() {
            unblock(&[libc::SIGCHLD])?;
        }
        fd.map(ChildExits)
    }

    /// Discards the signals so far, so that the descriptor is not readable until the next one.
    pub fn clear(&self) {
        // A signal that arrives while one is pending is merged with it.
        let _ = rustix::io::read(&self.0, &mut [0; 4 * size_of::<libc::signalfd_siginfo>()]);
    }
}

impl AsFd for ChildExits {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for ChildExits {
    fn drop(&mut self) {
        let _ = unblock(&[libc::SIGCHLD]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_forked() {
        // The test's own thread is not the only one.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = fork_server(socket.as_fd()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("several threads"), "{error}");
    }
}
