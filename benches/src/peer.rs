//! Other programs as child processes: pinned, bounded in time, gone when dropped.

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use bytecost_sys::process;

/// A program in the directory that this one was built into.
pub fn beside_this_one(name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name(name);
    program.is_file().then_some(program)
}

/// How often a waiting loop looks: seldom enough not to disturb what it waits for.
const LOOK: Duration = Duration::from_millis(20);
/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(5);

/// A running peer. Dropping it kills it, by its own process id, and waits for it.
#[derive(Debug)]
pub struct Peer {
    name: String,
    child: Child,
}

/// What a program says of its version, or what to install where it is not there.
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

/// Waits until somebody listens on a port of 127.0.0.1, without connecting: that would be taken
/// for a client.
pub fn wait_for_listener(port: u16, server: &mut Peer) -> Result<()> {
    let deadline = Instant::now() + START;
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

/// Whether /proc/net/tcp, proc_net(5), has a listener on a port of 127.0.0.1 or of all addresses.
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
    pub fn of(name: &str, child: Child) -> Peer {
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
    /// It takes longer than `most`, or ends with a status other than 0.
    pub fn finish(mut self, most: Duration) -> Result<String> {
        let mut stdout = self
            .child
            .stdout
            .take()
            .ok_or_else(|| anyhow!("{}: its output is not piped", self.name))?;
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).map(|_| text)
        });
        let deadline = Instant::now() + most;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                bail!("{} did not end within {} s", self.name, most.as_secs());
            }
            thread::sleep(LOOK);
        };
        let text = reader
            .join()
            .map_err(|_| anyhow!("the reading thread panicked"))??;
        let text = String::from_utf8_lossy(&text).into_owned();
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
    fn a_listener_is_seen_and_nothing_else() {
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
            thread::sleep(LOOK);
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
        let said = peer.finish(Duration::from_secs(10)).unwrap();
        assert!(
            said.contains(&format!("Cpus_allowed_list:\t{cpu}\n")),
            "{said}"
        );
    }

    #[test]
    fn what_is_not_there_is_told_with_its_package() {
        let told = version("no-such-program-of-ours", "nothing").unwrap_err();
        assert!(told.contains("apt-get install nothing"), "{told}");
    }

    #[test]
    fn an_end_with_an_error_is_told_with_its_last_words() {
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
