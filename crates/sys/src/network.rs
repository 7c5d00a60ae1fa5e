//! Network namespaces, network_namespaces(7), and the offloads of network devices.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::ethtool;

/// A network namespace without a name: links, addresses and counters of its own. The kernel removes it
/// with its links when this descriptor is closed and no thread is inside, even after a crash.
#[derive(Debug)]
pub struct Network(OwnedFd);

impl Network {
    /// Creates a namespace whose only device is a loopback device that is down, unshare(2). EPERM
    /// without CAP_SYS_ADMIN, EINVAL for a kernel without network namespaces.
    pub fn new() -> io::Result<Network> {
        on_new_thread(|| {
            // SAFETY: NEWNET alone changes which network the calling thread sees, and this thread
            // was started for that; memory and the table of file descriptors stay shared.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(Network(File::open("/proc/thread-self/ns/net")?.into()))
        })?
    }

    /// The namespace of a process, by its directory in `/proc`.
    pub fn from_process(process: &Path) -> io::Result<Network> {
        Ok(Network(File::open(process.join("ns/net"))?.into()))
    }

    /// Runs `work` on a new thread inside the namespace, setns(2). Sockets that it opens stay inside.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_new_thread(|| {
            enter(&self.0)?;
            Ok(work())
        })?
    }

    /// Makes a command's process start inside the namespace. If that fails, the spawn fails, setns(2).
    pub fn start_in(&self, command: &mut Command) -> io::Result<()> {
        let fd = self.0.try_clone()?;
        // SAFETY: between fork and exec it makes one system call, on a descriptor that it owns;
        // it takes no lock and allocates nothing, not even for its error.
        unsafe {
            command.pre_exec(move || enter(&fd));
        }
        Ok(())
    }
}

/// Work that a network device does for the kernel's stack, so that one large packet passes the stack
/// in place of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The name in ethtool(8).
    pub name: &'static str,
    /// The command that reads it, `include/uapi/linux/ethtool.h`; the next one sets it.
    read: u32,
}

const fn offload(name: &'static str, read: u32) -> Offload {
    Offload { name, read }
}

impl Offload {
    /// Segmentation of TCP packets (TSO).
    pub const SEGMENTATION: Offload = offload("tso", 0x1e);

    /// All offloads of sending: checksums, packets of several pieces of memory, segmentation, and
    /// segmentation by the kernel just before the device (GSO).
    pub const ALL: [Offload; 4] = [
        offload("tx", 0x16),
        offload("sg", 0x18),
        Offload::SEGMENTATION,
        offload("gso", 0x23),
    ];

    /// Returns true if a device of the calling thread's namespace has it switched on. ENODEV without the
    /// device, EOPNOTSUPP if the driver does not report it.
    pub fn is_on(self, device: &str) -> io::Result<bool> {
        Ok(ethtool::number(device, self.read, 0)? != 0)
    }

    /// Switches it on or off. EPERM without CAP_NET_ADMIN.
    pub fn switch(self, device: &str, on: bool) -> io::Result<()> {
        ethtool::number(device, self.read + 1, u32::from(on)).map(drop)
    }
}

fn enter(fd: &OwnedFd) -> io::Result<()> {
    move_into_link_name_space(fd.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

impl AsFd for Network {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Runs `work` on a new thread, so that the calling thread stays in its namespace.
fn on_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work)?;
        thread
            .join()
            .map_err(|_| io::Error::other("a thread within a network namespace panicked"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lack::{Lack, skipped};

    #[test]
    fn an_offload_is_read_as_it_was_switched_and_in_its_namespace_alone() {
        assert!(Offload::SEGMENTATION.is_on("no-such-device").is_err());
        assert!(Offload::SEGMENTATION.is_on("a\0b").is_err());
        let network = match Network::new() {
            Ok(network) => network,
            Err(e) => {
                assert!(!rustix::process::geteuid().is_root(), "{e}");
                return skipped(Lack::Right, e);
            }
        };
        let read = || Offload::ALL.map(|o| o.is_on("lo").unwrap());
        let before = read();
        network
            .within(|| {
                assert_eq!(read(), [true; 4], "a new loopback device");
                Offload::SEGMENTATION.switch("lo", false).unwrap();
                assert_eq!(read(), [true, true, false, true]);
                Offload::SEGMENTATION.switch("lo", true).unwrap();
                assert_eq!(read(), [true; 4]);
            })
            .unwrap();
        assert_eq!(read(), before);
    }
}
