//! A tun device: a network device whose other end is a file descriptor.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::ethtool;
use crate::syscall::checked;

/// Bytes of the header before each packet, `struct virtio_net_hdr`.
pub const HEADER_BYTES: usize = 10;

/// Creates a tun device in the calling thread's network namespace: down, without an address, removed
/// with its last descriptor. A read gives one IP packet that the kernel sends over it, a write passes
/// one to the kernel, each behind a header of [`HEADER_BYTES`]; neither blocks. The reader gets packets
/// without checksums and TCP segments that are not cut yet. Source: Linux,
/// `Documentation/networking/tuntap.rst`.
///
/// # Errors
/// `InvalidInput` for a text that cannot be a device's name; ENOENT or ENXIO without `/dev/net/tun` or
/// its driver, EACCES or EPERM without CAP_NET_ADMIN, EBUSY if the name is taken.
pub fn open(name: &str) -> io::Result<OwnedFd> {
    let mut request = ethtool::device_request(name).map_err(|e| {
        let why = format!("`{name}` is no name of a network device");
        io::Error::new(e.kind(), why)
    })?;
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: the request is a whole `ifreq` that lives through the call, and the kernel writes
    // nothing but the name back into it.
    let created = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) };
    checked(created)?;
    let offloads = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
    // SAFETY: this request takes its argument by value.
    let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
    checked(set)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_name_is_refused_before_anything_is_created() {
        for name in ["", "a name of more than fifteen", "a\0b"] {
            assert_eq!(open(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
