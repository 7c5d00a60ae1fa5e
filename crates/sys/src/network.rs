//! Network namespaces, network_namespaces(7): links, addresses and counters of their own, held by
//! a file descriptor and by the threads inside, and gone with the last of them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::ethtool;

/// A network namespace without a name: the kernel removes it and its links when this descriptor and
/// the threads inside are gone, however they went.
#[derive(Debug)]
pub struct Network(OwnedFd);

impl Network {
    /// Makes one, with only a loopback device that is down. EPERM without CAP_SYS_ADMIN, EINVAL for
    /// a kernel without network namespaces, unshare(2).
    pub fn new() -> io::Result<Network> {
        on_a_thread(|| {
            // SAFETY: NEWNET alone changes which network the calling thread sees, and this thread
            // was started for that; memory and the table of file descriptors stay shared.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(Network(File::open("/proc/thread-self/ns/net")?.into()))
        })?
    }

    /// Does something on a thread that is inside, setns(2). Sockets that it makes stay there.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            enter(&self.0)?;
            Ok(work())
        })?
    }

    /// Has a process start inside, before its program runs. It is the spawn that fails, setns(2).
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

/// What a network device does for the stack, so that one large packet passes in place of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The name that ethtool(8) has for it.
    pub name: &'static str,
    /// The command that reads it, `include/uapi/linux/ethtool.h`; the next one sets it.
    read: u32,
}

const fn offload(name: &'static str, read: u32) -> Offload {
    Offload { name, read }
}

impl Offload {
    /// Cutting a packet of TCP into segments.
    pub const SEGMENTATION: Offload = offload("tso", 0x1e);

    /// All of them: checksums of what is sent, packets of several pieces of memory, cutting into
    /// segments, and the same by the kernel, just before the device.
    pub const ALL: [Offload; 4] = [
        offload("tx", 0x16),
        offload("sg", 0x18),
        Offload::SEGMENTATION,
        offload("gso", 0x23),
    ];

    /// Whether a device of the calling thread's network has it on: ENODEV without the device,
    /// EOPNOTSUPP where it does not say.
    pub fn is_on(self, device: &str) -> io::Result<bool> {
        Ok(ethtool::number(device, self.read, 0)? != 0)
    }

    /// Switches it: EPERM without CAP_NET_ADMIN.
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

/// On a thread of its own, so that the caller stays where it is.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
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
    fn an_offload_is_told_as_it_is_switched_and_for_nobody_else() {
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
