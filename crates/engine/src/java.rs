//! A Java virtual machine that sends files, which gets its orders line by line, and ended with the
//! thread that started it.
//!
//! The program is a single source file, which `java` compiles as it starts (JEP 330). Source and
//! compiled program lie in memory files, so nothing is written. Output and errors share a pipe,
//! whose last line shows what went wrong; commands and answers have two pipes of their own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytecost_sys::{child_end, helper_process, proc_view};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};

mod found;
mod lines;

pub use found::{PASSED_ON, find};
use lines::{cannot_compile, greeting, in_words, last_line, sent};

const PROGRAM: &str = include_str!("../java/FileSender.java");

/// The longest time until the machine is ready: to compile the program takes some 1 s of CPU time.
pub const START_PATIENCE: Duration = Duration::from_secs(30);
/// The longest time in which a machine ends that has closed its pipe.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// The longest line of the program, in bytes, with its line feed.
const LINE_BYTES: usize = 256;
/// Bytes that are kept of other output: as much as a pipe holds.
const SAID_BYTES: usize = 64 << 10;
/// The length of a message for which patience lasts once: the progress of one is not seen.
const PATIENCE_BYTES: u64 = 256 << 20;

/// No files are left behind, the collector is the one without threads, and threads are kept, so
/// that what they count stays.
const OPTIONS: &[&str] = &[
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:-UsePerfData",
    "-XX:+DisableAttachMechanism",
    "-XX:+SuppressFatalErrorMessage",
    "-XX:-CreateCoredumpOnCrash",
    "-XX:+UseSerialGC",
    "-XX:-UseDynamicNumberOfCompilerThreads",
];
/// An option for a machine that sends almost nothing: Java's own compiler runs once, and optimising it
/// takes longer than that. Trials are started without it.
const ONCE: &str = "-XX:TieredStopAtLevel=1";
/// The property of the machine that says which process has started it.
pub const ENDPOINT_PROPERTY: &str = "-Dbytecost.endpoint=";
/// The oldest Java that starts source files, and so the language of the program.
const SOURCE: &str = "11";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Stream,
    TransferTo,
    /// It does not, but makes an archive of itself.
    Pack,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Stream => "stream",
            Way::TransferTo => "transfer-to",
            Way::Pack => "pack",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Start {
    /// A connected, blocking stream socket.
    pub(crate) socket: OwnedFd,
    /// The file; it is opened anew.
    pub(crate) file: OwnedFd,
    pub(crate) way: Way,
    /// Bytes of the array that [`Way::Stream`] goes through.
    pub(crate) block: usize,
    /// The program, compiled; where there is none, its source is.
    pub(crate) compiled: Option<PathBuf>,
    pub(crate) start_patience: Duration,
    /// For a message of up to 256 MiB, and as much again for each further one.
    pub(crate) patience: Duration,
}

/// The program, compiled once for all who start it: a memory file, gone with this.
#[derive(Debug)]
pub struct Compiled {
    archive: OwnedFd,
    version: String,
}

impl Compiled {
    /// Has `java` compile it, some 1 s of CPU time. The error is a sentence: `java` cannot be
    /// started, cannot compile it, ends, says something else or nothing in time.
    pub fn new(java: &Path, patience: Duration) -> io::Result<Compiled> {
        let archive = rustix::fs::memfd_create("FileSender.jar", MemfdFlags::CLOEXEC)?;
        let start = Start {
            socket: File::open("/dev/null")?.into(),
            file: archive.try_clone()?,
            way: Way::Pack,
            block: 0,
            compiled: None,
            start_patience: patience,
            patience,
        };
        let (_, version) = Jvm::start(java, start)?;
        Ok(Compiled { archive, version })
    }

    /// The version of the Java that has compiled it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The path by which other processes of the same user open it, as long as this one lives.
    pub fn path(&self) -> PathBuf {
        proc_view::own_directory().join(format!("fd/{}", self.archive.as_raw_fd()))
    }
}

#[derive(Debug)]
pub(crate) struct Jvm {
    child: Child,
    commands: OwnedFd,
    answers: OwnedFd,
    said: OwnedFd,
    patience: Duration,
}

impl Jvm {
    /// Starts `java`, for this thread's life at most, and waits until it says its version.
    pub(crate) fn start(java: &Path, start: Start) -> io::Result<(Jvm, String)> {
        let Start { socket, file, .. } = start;
        let (read_commands, commands) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (answers, write_answers) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (said, write_said) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // Not its ends, which would not wait any more: only what is read here.
        rustix::fs::fcntl_setfl(&said, OFlags::NONBLOCK)?;
        let source = rustix::fs::memfd_create("FileSender.java", MemfdFlags::CLOEXEC)?;
        let mut source = File::from(source);
        source.write_all(PROGRAM.as_bytes())?;
        let source = OwnedFd::from(source);

        let mut command = Command::new(java);
        command
            .env_clear()
            .envs((PASSED_ON.iter()).filter_map(|name| Some((name, std::env::var_os(name)?))))
            .args(OPTIONS)
            .arg(format!("{ENDPOINT_PROPERTY}{}", std::process::id()))
            .args(start.compiled.is_none().then_some(ONCE))
            .args(match start.compiled {
                Some(archive) => ["-cp".into(), archive.into(), "FileSender".into()],
                None => {
                    let source = format!("/proc/self/fd/{}", source.as_raw_fd());
                    ["--source".into(), SOURCE.into(), OsString::from(source)]
                }
            })
            .args([start.way.name(), &start.block.to_string()])
            .args([&file, &read_commands, &write_answers].map(|fd| fd.as_raw_fd().to_string()))
            .stdin(Stdio::from(socket))
            .stdout(Stdio::from(write_said.try_clone()?))
            .stderr(Stdio::from(write_said))
            .process_group(0);
        helper_process::attach(
            &mut command,
            vec![source, file, read_commands, write_answers],
        );
        let child = command
            .spawn()
            .map_err(|e| java_error(&format!("{} cannot be started: {e}", java.display())))?;
        // With it the ends go that are the machine's: it must be the last to have them.
        drop(command);
        let mut jvm = Jvm {
            child,
            commands,
            answers,
            said,
            patience: start.patience,
        };
        let mut line = [0; LINE_BYTES];
        let line = jvm.answer(&mut line, start.start_patience)?;
        let version = greeting(line).ok_or_else(|| wrong(line, java))?;
        Ok((jvm, version.to_owned()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends `len` bytes of the file from `offset` on: the system calls that it took, as far as the
    /// program can know. Does not allocate where that works.
    pub(crate) fn send(&mut self, offset: u64, len: u64) -> io::Result<u64> {
        let mut command = [0; LINE_BYTES];
        let mut rest = &mut command[..];
        writeln!(rest, "send {offset} {len}")?;
        let written = LINE_BYTES - rest.len();
        // Less than what a pipe takes as one, and nothing else waits in it.
        match rustix::io::write(&self.commands, &command[..written]) {
            Ok(_) | Err(Errno::PIPE) => {}
            Err(e) => return Err(e.into()),
        }
        let times = u32::try_from(1 + len / PATIENCE_BYTES).unwrap_or(u32::MAX);
        let mut line = [0; LINE_BYTES];
        let line = self.answer(&mut line, self.patience.saturating_mul(times))?;
        match sent(line) {
            Some((bytes, calls)) if bytes == len => Ok(calls),
            _ => Err(wrong(line, Path::new("java"))),
        }
    }

    /// Without its end. A line that comes in pieces has the patience once more for all of them.
    fn answer<'l>(
        &mut self,
        line: &'l mut [u8; LINE_BYTES],
        patience: Duration,
    ) -> io::Result<&'l str> {
        let mut got = 0;
        let mut until = None;
        loop {
            let left = until.map_or(patience, |until: Instant| {
                until.saturating_duration_since(Instant::now())
            });
            if !is_readable(&self.answers, left)? {
                let seconds = patience.as_secs_f32();
                let why = format!(
                    "java did not respond within {seconds} s{}",
                    last_line(&self.said())
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            match retry_on_intr(|| rustix::io::read(&self.answers, &mut line[got..]))? {
                0 => return Err(self.end()),
                n => got += n,
            }
            match line[..got].iter().position(|b| *b == b'\n') {
                Some(end) if end + 1 == got => {
                    return std::str::from_utf8(&line[..end])
                        .map_err(|_| java_error("java responded with bytes that are not text"));
                }
                Some(_) => return Err(java_error("java responded with more than one line")),
                None if got == LINE_BYTES => {
                    return Err(java_error(&format!(
                        "java responded with a line of more than {LINE_BYTES} bytes"
                    )));
                }
                None => {
                    until.get_or_insert_with(|| Instant::now() + patience);
                }
            }
        }
    }

    #[cold]
    fn end(&mut self) -> io::Error {
        // It has closed its pipe and may be about to end by itself, with a status that says more.
        let ended = child_end::wait_for(&mut self.child, END_PATIENCE);
        let how = match ended.ok().flatten() {
            Some(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("was ended by signal {signal}"),
                (None, code) => format!("ended with status {}", code.unwrap_or(-1)),
            },
            None => "closed its pipe".to_owned(),
        };
        let said = self.said();
        if cannot_compile(&said) {
            return java_error(
                "this java cannot run a source file: install a JDK of version 11 or newer (16 for Unix sockets); a JRE has no compiler",
            );
        }
        java_error(&format!("java {how}{}", last_line(&said)))
    }

    fn said(&self) -> String {
        let mut bytes = vec![0; SAID_BYTES];
        let mut got = 0;
        while got < SAID_BYTES {
            match rustix::io::read(self.said.as_fd(), &mut bytes[got..]) {
                Ok(0) | Err(_) => break,
                Ok(n) => got += n,
            }
        }
        String::from_utf8_lossy(&bytes[..got]).into_owned()
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        // A script that stands before the virtual machine may have others started in its turn.
        let group = Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = child_end::wait_or_kill(&mut self.child, Duration::ZERO);
    }
}

fn is_readable(fd: impl AsFd, patience: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(patience).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut polled = [PollFd::new(&fd, PollFlags::IN)];
    // A signal starts the timeout again; there are few signals.
    Ok(retry_on_intr(|| poll(&mut polled, Some(&timeout)))? > 0)
}

#[cold]
fn wrong(line: &str, java: &Path) -> io::Error {
    match line.strip_prefix("failed ") {
        Some(why) => java_error(&format!("java: {}", in_words(why))),
        None => java_error(&format!(
            "unexpected response from {}: {:?}",
            java.display(),
            line.get(..64).unwrap_or(line)
        )),
    }
}

fn java_error(message: &str) -> io::Error {
    io::Error::other(message.to_owned())
}

#[cfg(test)]
mod tests;
