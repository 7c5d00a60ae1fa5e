//! The servers that are held against each other, each as a process of its own.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytecost_engine::servers::{self, Limits};
use bytecost_engine::services::ServiceSetup;
use bytecost_engine::{Server, Service};
use bytecost_host::Roots;

use super::SIZE;
use crate::bench::BenchResults;
use crate::peer::{self, Peer};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bare/epoll.c");

/// A server that is held against ours.
pub struct Rival {
    /// Its name.
    pub name: &'static str,
    /// Starts it on a port.
    pub start: Box<dyn Fn(u16) -> Result<Peer>>,
}

/// The rivals that are installed here, with a note of each that is not.
pub fn rivals(cpu: u32, directory: &Path, found: &mut BenchResults) -> Result<Vec<Rival>> {
    let mut rivals = Vec::new();
    match peer::version("sockperf", "sockperf") {
        Ok(version) => {
            found
                .notes
                .push(format!("Peer: {version}, server -F e (epoll)"));
            let feed = directory.join("sockperf-feed");
            let start = move |port| sockperf(&feed, port, cpu);
            rivals.push(Rival {
                name: "sockperf",
                start: Box::new(start),
            });
        }
        Err(why) => found.notes.push(why),
    }
    match peer::version("cc", "gcc") {
        Ok(compiler) => {
            found
                .notes
                .push(format!("Peer: bare/epoll.c, cc -O2, {compiler}"));
            let program = compile(directory)?;
            let start = move |port| bare(&program, port, cpu);
            rivals.push(Rival {
                name: "bare C",
                start: Box::new(start),
            });
        }
        Err(why) => found.notes.push(why),
    }
    Ok(rivals)
}

fn compile(directory: &Path) -> Result<PathBuf> {
    let program = directory.join("bare-epoll");
    let out = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(SOURCE)
        .output()?;
    ensure!(
        out.status.success(),
        "cc does not compile {SOURCE}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(program)
}

/// One of ours, played by this program in a process of its own.
pub fn ours(model: &str, port: u16, cpu: u32) -> Result<Peer> {
    let program = std::env::current_exe()?;
    let mut command = peer::silent(&program.to_string_lossy());
    command.args(["serve", model, &port.to_string()]);
    // It ends with its input, which ends with this process.
    peer::start(command.stdin(Stdio::piped()), cpu)
}

fn bare(program: &Path, port: u16, cpu: u32) -> Result<Peer> {
    let mut command = peer::piped(&program.to_string_lossy());
    command.arg(port.to_string());
    peer::start(command.stdin(Stdio::piped()), cpu)
}

/// Only with a list of addresses does it take more than one connection.
fn sockperf(feed: &Path, port: u16, cpu: u32) -> Result<Peer> {
    fs::write(feed, format!("T:127.0.0.1:{port}\n"))?;
    let mut command = peer::silent("sockperf");
    command.args(["server", "-F", "e", "-f"]).arg(feed);
    peer::start(&mut command, cpu)
}

/// `bytecost-benches serve MODEL PORT`: serves until its input ends.
pub fn play(model: Option<&String>, port: Option<&String>) -> Result<()> {
    let model = model
        .and_then(|m| Server::named(m))
        .context("serve needs the name of a model")?;
    let port = port
        .and_then(|p| p.parse().ok())
        .context("serve needs a port")?;
    let limits = Limits::default();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (listener, _) = servers::listen(address, limits.patience)?;
    (model.serve)(servers::ServerSetup {
        listener,
        stop: io::stdin().as_fd().try_clone_to_owned()?,
        service: echo(),
        serving: setup(),
        workers: 1,
        limits,
    })?;
    Ok(())
}

/// The row of `echo`.
pub fn echo() -> &'static Service {
    Service::named("echo").expect("the table has it")
}

/// The message size and options of both ends.
pub fn setup() -> ServiceSetup {
    ServiceSetup {
        size: SIZE,
        roots: Roots::real(),
        kept_for: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Edges, PATIENCE, Place};
    use super::*;
    use crate::bench::Context;
    use bytecost_lab::load::LoadSpan;
    use std::io::{BufRead as _, BufReader};

    fn place() -> Place {
        Place::new(&Context {
            blocks: 2,
            window: Duration::from_millis(50),
            seed: 1,
            cpus: crate::machine::two_cpus().unwrap(),
        })
        .unwrap()
    }

    #[test]
    fn the_bare_loop_serves_what_is_asked_and_ends_with_its_input() {
        let directory = tempfile::tempdir().unwrap();
        let program = compile(directory.path()).unwrap();
        let place = place();
        let mut peer = bare(&program, 0, place.server).unwrap();
        let (mut port, stdout) = (String::new(), peer.child().stdout.as_mut().unwrap());
        BufReader::new(stdout).read_line(&mut port).unwrap();
        let mut load = place.load(8, port.trim().parse().unwrap());
        load.span = LoadSpan::Requests(5);
        let edges = Edges::new(peer.child().id());
        let outcome = place.run_load(&load, &edges).unwrap();
        assert_eq!((outcome.errors.all(), outcome.answers), (0, 40));
        drop(peer.child().stdin.take());
        peer.finish(PATIENCE).unwrap();
    }
}
