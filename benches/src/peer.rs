//! Other programs as child processes: pinned to a CPU, bounded in time, killed when dropped.

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use bytecost_sys::process;

/// A program of this workspace; none if it is not built with the same profile as this one.
pub fn built_program(name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name(name);
    program.is_file().then_some(program)
}

/// Interval of polling: long enough not to background the program that is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum time until a server listens.
const START_LIMIT: Duration = Duration::from_secs(5);

/// A running peer. Dropping it kills it, by its own process id, and waits for it.
#[derive(Debug)]
pub struct Peer {
    name: String,
    child: Child,
}

/// The first line of `program --version`.
///
/// # Errors
/// A program that is not installed, with the command that installs it.
pub fn version(program: &str, package: &str) -> Result<String, String> {
    match Command::new(program).arg("--version").output() {
        Ok(out) => {
            let text = String::from_utf8_lossy(&out.stdout).into_owned()
                + &String::from_utf8_lossy(&out.stderr);
            Ok(text.lines().next().unwrap_or(program).trim().to_owned())
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(format!(
            "{program} is not installed: apt-get install {package}"
        )),
        Err(e) => Err(format!("{program} cannot be started: {e}")),
    }
}

/// Starts a program on one CPU. Children inherit the affinity of the thread that starts them, so
/// that needs no other program.
pub fn start(command: &mut Command, cpu: u32) -> Result<Peer> {
    let name = command.get_program().to_string_lossy().into_owned();
    let child = thread::scope(|scope| {
        let started = scope.spawn(|| {
            process::set_affinity(&[cpu])?;
            command.spawn()
        });
        started
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the starting thread panicked")))
    })
    .with_context(|| format!("{name} cannot be started"))?;
    Ok(Peer { name, child })
}

/// A TCP port of 127.0.0.1 that was free a moment ago.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Waits until a server listens on a port of 127.0.0.1. It makes no connection, which the server would
/// take for a client's.
pub fn wait_for_listener(port: u16, server: &mut Peer) -> Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    while Instant::now() < deadline {
        if listens(&fs::read_to_string("/proc/net/tcp")?, port) {
            return Ok(());
        }
        if let Some(status) = server.child.try_wait()? {
            bail!("{} ended at its start: {status}", server.name);
        }
        thread::sleep(Duration::from_millis(5));
    }
    bail!("{} does not listen on port {port}", server.name)
}

/// Returns true if the text of /proc/net/tcp, proc_net(5), has a listener on a port of 127.0.0.1 or of
/// all addresses.
fn listens(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (Some(local), Some(_), Some(state)) = (words.next(), words.next(), words.next()) else {
            return false;
        };
        state == LISTEN
            && local.split_once(':').is_some_and(|(address, p)| {
                ["0100007F", "00000000"].contains(&address)
                    && u16::from_str_radix(p, 16) == Ok(port)
            })
    })
}

impl Peer {
    /// A child that was started elsewhere.
    pub fn new(name: &str, child: Child) -> Peer {
        Peer {
            name: name.to_owned(),
            child,
        }
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for its end and returns what it wrote to its standard output, which must be piped.
    ///
    /// # Errors
    /// A program that takes longer than `limit`, or ends with a status other than 0.
    pub fn finish(mut self, limit: Duration) -> Result<String> {
        let mut stdout = self
            .child
            .stdout
            .take()
            .ok_or_else(|| anyhow!("{}: its output is not piped", self.name))?;
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).map(|_| text)
        });
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("{} did not end within {} s", self.name, limit.as_secs());
            }
            thread::sleep(POLL_INTERVAL);
        };
        let bytes = reader
            .join()
            .map_err(|_| anyhow!("the reading thread panicked"))??;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if !status.success() {
            bail!("{} ended with {status}: {}", self.name, tail(&text));
        }
        Ok(text)
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command whose output is read and whose errors are dropped.
pub fn piped(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// A command whose output is dropped.
pub fn silent(program: &str) -> Command {
    let mut command = piped(program);
    command.stdout(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_listened_on_while_its_listener_is_open() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let table = || fs::read_to_string("/proc/net/tcp").unwrap();
        assert!(listens(&table(), port));
        assert!(!listens("  sl  local_address\n garbage\n", port));
        drop(listener);
        // Another test may have forked just now: its child has the listener until it executes.
        let deadline = Instant::now() + Duration::from_secs(10);
        while listens(&table(), port) {
            assert!(Instant::now() < deadline, "{port} is still listened on");
            thread::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn a_peer_that_hangs_is_ended() {
        let mut peer = start(piped("sleep").arg("60"), machine_cpu()).unwrap();
        let id = peer.child().id();
        let error = peer.finish(Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn a_peer_runs_on_the_cpu_it_was_given() {
        let cpu = machine_cpu();
        let peer = start(piped("sh").args(["-c", "cat /proc/self/status"]), cpu).unwrap();
        let status = peer.finish(Duration::from_secs(10)).unwrap();
        assert!(
            status.contains(&format!("Cpus_allowed_list:\t{cpu}\n")),
            "{status}"
        );
    }

    #[test]
    fn the_error_of_a_missing_program_names_its_package() {
        let error = version("no-such-program-of-ours", "nothing").unwrap_err();
        assert!(error.contains("apt-get install nothing"), "{error}");
    }

    #[test]
    fn the_error_of_a_failed_program_has_the_last_lines_of_its_output() {
        let peer = start(piped("sh").args(["-c", "echo why; exit 3"]), machine_cpu()).unwrap();
        let error = peer
            .finish(Duration::from_secs(10))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("why"),
            "{error}"
        );
    }

    fn machine_cpu() -> u32 {
        crate::machine::two_cpus().unwrap().1
    }
}
