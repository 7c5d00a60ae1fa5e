//! Processes forked to serve one connection each.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::proc_view;
use crate::process::die_with_parent;
use crate::syscall::{handle, handled, made};

/// Links of `/proc/self/task` with one thread: one for each, and the two of every directory.
const LINKS_OF_ONE_THREAD: u64 = 3;

/// What asks a server to finish. SIGINT is among them because Ctrl-C goes to all processes of a
/// terminal's foreground at once, the children included.
const FINISH: [libc::c_int; 2] = [libc::SIGTERM, libc::SIGINT];

/// In a child.
static INPUT: AtomicI32 = AtomicI32::new(-1);

/// As [`fork_child`], to serve `socket`. SIGTERM and SIGINT end not the child but its input:
/// shutdown(2) with SHUT_RD, so that what has arrived can still be answered.
pub fn fork_server(socket: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    // A signal that comes before the child is ready for it must wait until it is.
    block(&FINISH, true)?;
    let forked = fork_child();
    if let Ok(None) = forked {
        INPUT.store(socket.as_raw_fd(), Ordering::Relaxed);
        let handled = FINISH.into_iter().try_for_each(end_input_on);
        // An error must not be returned here: the child would take itself for its parent.
        if handled.and_then(|()| block(&FINISH, false)).is_err() {
            exit(1);
        }
        return Ok(None);
    }
    block(&FINISH, false)?;
    forked
}

/// Forks: the child's number in the parent, none in the child, which is killed when the thread that
/// forked it ends, and ends by [`exit`]. `Unsupported` in a process with more than one thread: a
/// lock that another one held stays locked in the child for ever, fork(2). `WouldBlock` at the
/// limit of processes.
pub fn fork_child() -> io::Result<Option<u32>> {
    if fs::metadata("/proc/self/task")?.nlink() != LINKS_OF_ONE_THREAD {
        let why =
            "a process with several threads cannot fork a server: serve in a process of its own";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let parent = std::process::id();
    // SAFETY: no other thread is there that could have left anything half done.
    match unsafe { libc::fork() } {
        0 if die_with_parent(parent).is_ok() => Ok(None),
        0 => exit(1),
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Some(child as u32)),
    }
}

/// Processes that a process's first thread has started and that are still there, by `/proc` below
/// `root`; none without CONFIG_PROC_CHILDREN, proc(5), or where that is of another PID namespace.
pub fn started_by(root: &Path, process: u32) -> Option<Vec<u32>> {
    started_by_thread(root, process, process)
}

/// The same of any thread of a process.
pub fn started_by_thread(root: &Path, process: u32, thread: u32) -> Option<Vec<u32>> {
    let proc = root.join("proc");
    let path = proc.join(format!("{process}/task/{thread}/children"));
    if !proc_view::is_ours(&proc) {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    text.split_whitespace().map(|n| n.parse().ok()).collect()
}

/// Ends a child when it is dropped, which only a panic brings about.
#[derive(Debug)]
pub struct ExitOnDrop;

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        exit(1)
    }
}

/// Ends the process at once, without the parent's buffers, destructors and exit handlers, _exit(2).
pub fn exit(status: i32) -> ! {
    // SAFETY: ending the process leaves nobody who could see anything half done.
    unsafe { libc::_exit(status) }
}

extern "C" fn end_input(_signal: libc::c_int) {
    handled(|| {
        // SAFETY: shutdown(2) may be called in a handler, signal-safety(7), and a wrong number
        // gives an error.
        unsafe { libc::shutdown(INPUT.load(Ordering::Relaxed), libc::SHUT_RD) };
    });
}

fn end_input_on(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: the handler calls only what a handler may.
    unsafe { handle(signal, end_input, 0) }
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset writes the whole set, which is valid for that.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: sigemptyset has initialised it; a wrong number of a signal gives an error.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: as above.
    unsafe { set.assume_init() }
}

fn block(signals: &[libc::c_int], off: bool) -> io::Result<()> {
    let how = if off {
        libc::SIG_BLOCK
    } else {
        libc::SIG_UNBLOCK
    };
    let set = set_of(signals);
    // SAFETY: the set is initialised; null says that the old one is not asked for.
    match unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Becomes readable when children have ended, which are then to be waited for, signalfd(2).
#[derive(Debug)]
pub struct ChildExits(OwnedFd);

impl ChildExits {
    /// Makes SIGCHLD readable while this lives; in a process with one thread, or another may get
    /// it.
    pub fn new() -> io::Result<ChildExits> {
        block(&[libc::SIGCHLD], true)?;
        let set = set_of(&[libc::SIGCHLD]);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is initialised, and -1 asks for a new descriptor, which nobody else has.
        let fd = unsafe { made(libc::signalfd(-1, &raw const set, flags)) };
        if fd.is_err() {
            block(&[libc::SIGCHLD], false)?;
        }
        fd.map(ChildExits)
    }

    /// Forgets those so far.
    pub fn clear(&self) {
        // Signals that come while one is pending are one.
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
        let _ = block(&[libc::SIGCHLD], false);
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
