//! The first process of a guest: it makes a bare kernel fit for tests, runs all programs of
//! `/tests`, one after the other, says how they ended, and turns the guest off.
//!
//! `boot.sh` puts it into the guest as `/init`, next to the modules that the tests need. The last
//! line that it writes is the verdict ([`PASSED`] or [`FAILED`]), which `boot.sh` waits for: a
//! guest that ends without one has failed.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use netlink_packet_core::{
    NLM_F_CREATE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily as RouteFamily, RouteNetlinkMessage};
use rustix::event::{PollFd, PollFlags, Timespec};
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

/// bytecost, where the guest is to be the other host of a run.
const BYTECOST: &str = "/bytecost";
/// The port of virtio-serial that the channel goes by.
const PORT: &str = "agent";
/// The guest's address, and the bits of its network; `boot.sh` has the other one.
const ADDRESS: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 9, 2), 30);
/// Printed when the other host may begin its run.
const WAITS: &str = "guest: the agent waits";
/// Maximum time until it begins, and the interval of polling.
const BEGUN_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

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
    // If the kernel can restart, this does not return: qemu ends (`-no-reboot`).
    let refused = reboot(RebootCommand::Restart);
    println!("guest: it cannot be turned off: {refused:?}");
}

/// Runs all programs. Returns true if each of them succeeded.
fn run() -> io::Result<bool> {
    for (kind, at) in MOUNTS {
        fs::create_dir_all(at)?;
        mount(*kind, *at, *kind, MountFlags::empty(), None::<&CStr>)
            .map_err(|e| with_path(at, e))?;
    }
    for (setting, value) in SETTINGS {
        fs::write(setting, value).map_err(|e| with_path(setting, e))?;
    }
    set_loopback_up().map_err(|e| with_path("lo", e))?;
    load(files("/modules")?)?;
    println!("guest: Linux {}", uname().release().to_string_lossy());
    let tests = files("/tests")?;
    if tests.is_empty() {
        return Err(io::Error::other("there is nothing to run in /tests"));
    }
    let mut passed = true;
    if Path::new(BYTECOST).exists() {
        let status = play_the_other_host()?;
        println!("guest: the agent: {status}");
        passed &= status.success();
    }
    for test in tests {
        let mut command = Command::new(&test);
        command.args(["--test-threads=1", "--nocapture"]);
        if let Some((_, filter)) = test.to_string_lossy().split_once(FILTER) {
            command.arg(filter);
        }
        let status = command
            .status()
            .map_err(|e| with_path(&test.display(), e))?;
        println!("guest: {}: {status}", test.display());
        passed &= status.success();
    }
    Ok(passed)
}

/// An error with the path or device that it is about.
fn with_path(
    subject: &(impl std::fmt::Display + ?Sized),
    error: impl Into<io::Error>,
) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("{subject}: {error}"))
}

/// The files of a folder, sorted by name; none if it does not exist.
fn files(folder: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(with_path(&folder, e)),
    };
    let mut found = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    found.sort();
    Ok(found)
}

/// Loads kernel modules that depend on each other: each round loads those whose dependencies are
/// loaded already.
fn load(mut modules: Vec<PathBuf>) -> io::Result<()> {
    while !modules.is_empty() {
        let mut left = Vec::new();
        let mut why = None;
        for module in &modules {
            if let Err(e) = load_one(module) {
                why = Some(with_path(&module.display(), e));
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

/// Runs an agent whose channel is a port of virtio-serial, once something comes there: how it ended.
fn play_the_other_host() -> io::Result<ExitStatus> {
    let card = fs::read_dir("/sys/class/net")?
        .flatten()
        .map(|device| device.path().join("ifindex"))
        .filter_map(|index| fs::read_to_string(index).ok()?.trim().parse().ok())
        .find(|index| *index != LOOPBACK)
        .ok_or_else(|| io::Error::other("the guest has no network card"))?;
    add_address(card).map_err(|e| with_path("the card's address", e))?;
    set_up(card).map_err(|e| with_path("the card", e))?;
    let port = fs::read_dir("/sys/class/virtio-ports")?
        .flatten()
        .find(|port| {
            let name = fs::read_to_string(port.path().join("name"));
            name.is_ok_and(|name| name.trim() == PORT)
        })
        .ok_or_else(|| io::Error::other("the guest has no port for the channel"))?;
    let port = Path::new("/dev").join(port.file_name());
    let port = File::options().read(true).write(true).open(port)?;
    println!("{WAITS}");
    // As long as nobody is at its other end, a port is hung up, and can be read all the same.
    let is_begun =
        |polled: &PollFd<'_>| polled.revents() & (PollFlags::IN | PollFlags::HUP) == PollFlags::IN;
    let until = Instant::now() + BEGUN_WITHIN;
    loop {
        let mut polled = [PollFd::new(&port, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&Timespec::default()))?;
        if is_begun(&polled[0]) {
            break;
        }
        if Instant::now() > until {
            return Err(io::Error::other("nobody began a run within a minute"));
        }
        thread::sleep(LOOK);
    }
    let mut command = Command::new(BYTECOST);
    command.arg("agent").stdin(port.try_clone()?).stdout(port);
    command.status()
}

/// Gives a device the guest's address.
fn add_address(index: u32) -> io::Result<()> {
    let (address, bits) = ADDRESS;
    let mut message = AddressMessage::default();
    message.header.family = RouteFamily::Inet;
    message.header.prefix_len = bits;
    message.header.index = index;
    message.attributes = vec![
        AddressAttribute::Local(address.into()),
        AddressAttribute::Address(address.into()),
    ];
    ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE)
}

/// Brings the loopback device up, which a kernel leaves to its first process.
fn set_loopback_up() -> io::Result<()> {
    set_up(LOOPBACK)
}

fn set_up(index: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    ask(RouteNetlinkMessage::SetLink(link), 0)
}

/// Has the kernel change a network, by rtnetlink(7).
fn ask(asked: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let asked = NetlinkPayload::InnerMessage(asked);
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
