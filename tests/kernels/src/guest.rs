//! The first process of a guest: it makes a bare kernel fit for tests, runs all programs of
//! `/tests`, one after the other, says how they ended, and turns the guest off.
//!
//! `boot.sh` puts it into the guest as `/init`, beside the modules that the tests need. The last
//! line that it writes is the verdict ([`PASSED`] or [`FAILED`]), which `boot.sh` waits for: a
//! guest that ends without one has failed.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use rustix::mount::{MountFlags, mount};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use rustix::system::{RebootCommand, finit_module, reboot, uname};

/// Said where every program ended well.
const PASSED: &str = "guest: passed";
/// Said where one did not, or the guest could not be made ready.
const FAILED: &str = "guest: failed";

/// Between the name of a program and which of its tests are wanted.
const FILTER: char = '=';

/// File systems, and where they belong.
const MOUNTS: &[(&str, &str)] = &[
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("bpf", "/sys/fs/bpf"),
    ("tracefs", "/sys/kernel/tracing"),
    ("tmpfs", "/tmp"),
];

/// Settings of the kernel. Emulated CPUs work at such different times that what moves from one to
/// the other comes late or out of order; TCP would take it for lost and send it again, which is
/// then copied again.
const SETTINGS: &[(&str, &str)] = &[
    ("/proc/sys/net/ipv4/tcp_early_retrans", "0"),
    ("/proc/sys/net/ipv4/tcp_recovery", "0"),
    ("/proc/sys/net/ipv4/tcp_reordering", "300"),
];

/// The loopback device is the first of every network.
const LOOPBACK: u32 = 1;

fn main() {
    // Anywhere else it would mount over what is there, and turn the machine off.
    if std::process::id() != 1 {
        eprintln!(
            "bytecost-guest is the first process of a guest: tests/kernels/boot.sh boots one"
        );
        std::process::exit(2);
    }
    let verdict = match run() {
        Ok(true) => PASSED,
        Ok(false) => FAILED,
        Err(e) => {
            println!("guest: {e}");
            FAILED
        }
    };
    println!("{verdict}");
    // Where it can be had, this does not return: qemu ends (`-no-reboot`).
    let refused = reboot(RebootCommand::Restart);
    println!("guest: it cannot be turned off: {refused:?}");
}

/// Whether all programs ended well.
fn run() -> io::Result<bool> {
    for (kind, at) in MOUNTS {
        fs::create_dir_all(at)?;
        mount(*kind, *at, *kind, MountFlags::empty(), None::<&CStr>).map_err(|e| told(at, e))?;
    }
    for (setting, value) in SETTINGS {
        fs::write(setting, value).map_err(|e| told(setting, e))?;
    }
    set_loopback_up().map_err(|e| told("lo", e))?;
    load(files("/modules")?)?;
    println!("guest: Linux {}", uname().release().to_string_lossy());
    let tests = files("/tests")?;
    if tests.is_empty() {
        return Err(io::Error::other("there is nothing to run in /tests"));
    }
    let mut passed = true;
    for test in tests {
        let mut command = Command::new(&test);
        command.args(["--test-threads=1", "--nocapture"]);
        if let Some((_, filter)) = test.to_string_lossy().split_once(FILTER) {
            command.arg(filter);
        }
        let status = command.status().map_err(|e| told(&test.display(), e))?;
        println!("guest: {}: {status}", test.display());
        passed &= status.success();
    }
    Ok(passed)
}

fn told(what: &(impl std::fmt::Display + ?Sized), error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The files of a folder by name; none where it is not there.
fn files(folder: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(told(&folder, e)),
    };
    let mut found = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    found.sort();
    Ok(found)
}

/// Loads modules of the kernel, whatever order they need: each round those that what is there
/// already is enough for.
fn load(mut modules: Vec<PathBuf>) -> io::Result<()> {
    while !modules.is_empty() {
        let mut left = Vec::new();
        let mut why = None;
        for module in &modules {
            if let Err(e) = load_one(module) {
                why = Some(told(&module.display(), e));
                left.push(module.clone());
            }
        }
        match why {
            Some(why) if left.len() == modules.len() => return Err(why),
            _ => modules = left,
        }
    }
    Ok(())
}

fn load_one(module: &Path) -> io::Result<()> {
    match finit_module(File::open(module)?, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Brings the loopback device up, which a kernel leaves to its first process; by rtnetlink(7).
fn set_loopback_up() -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = LOOPBACK;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let asked = NetlinkPayload::InnerMessage(RouteNetlinkMessage::SetLink(link));
    let mut message = NetlinkMessage::new(header, asked);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // The kernel has done it, or says why not, before the call returns; tests of connections
    // say the latter.
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &bytes, SendFlags::empty(), &kernel)?;
    Ok(())
}
