//! Facts of a network device by SIOCETHTOOL (`include/uapi/linux/ethtool.h`), as ethtool(8) shows them.
//! Unlike the newer netlink family, this request is on every kernel and needs no library.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::netdevice::name_to_index;

use crate::syscall::checked;

const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const GET_STRINGS: u32 = 0x1b;
const GET_SET_SIZES: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
/// The set of strings that names the features: ETH_SS_FEATURES.
const FEATURES: u32 = 4;
/// Bytes of a string: ETH_GSTRING_LEN.
const STRING_BYTES: usize = 32;
/// The most features that are read; there are 64.
const MOST_FEATURES: usize = 4096;

/// Facts of a network device. A fact that the driver does not report has the kernel's error in its
/// place.
#[derive(Debug)]
pub struct DeviceFacts {
    /// Its interface index in its network namespace.
    pub index: io::Result<u32>,
    /// Its MTU in bytes.
    pub mtu: io::Result<u64>,
    /// Its driver.
    pub driver: io::Result<String>,
    /// Its features by the kernel's names, `tx-tcp-segmentation`, each on or off.
    pub features: io::Result<Vec<(String, bool)>>,
    /// Entries of its receive ring and its send ring, then the maximum of each.
    pub rings: io::Result<[u32; 4]>,
    /// The time by which it may delay an interrupt for received packets, in µs, and whether it adapts
    /// that time itself.
    pub coalesce_rx: io::Result<(u32, bool)>,
}

impl DeviceFacts {
    /// Reads a device of the calling thread's network namespace.
    pub fn read(device: &str) -> DeviceFacts {
        let coalesce_rx =
            request_ethtool(device, GET_COALESCE, &mut [0; 23], |w| (w[1], w[10] != 0));
        DeviceFacts {
            index: socket().and_then(|s| Ok(name_to_index(s, device)?)),
            mtu: mtu(device),
            driver: request_ethtool(device, GET_DRIVER, &mut [0; 49], |w| {
                string(&bytes(&w[1..9]))
            }),
            features: features(device),
            rings: request_ethtool(device, GET_RINGS, &mut [0; 9], |w| [w[5], w[8], w[1], w[4]]),
            coalesce_rx,
        }
    }
}

/// A request with one number as argument and result.
pub(crate) fn number(device: &str, command: u32, data: u32) -> io::Result<u32> {
    request_ethtool(device, command, &mut [0, data], |words| words[1])
}

fn features(device: &str) -> io::Result<Vec<(String, bool)>> {
    // The mask of the string sets has 64 bits; the size of the requested set follows it.
    let mask = (1u64 << FEATURES).to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = mask;
    let halves = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
    let sizes = &mut [0, 0, halves[0], halves[1], 0];
    let count = request_ethtool(device, GET_SET_SIZES, sizes, |w| w[4])? as usize;
    if count == 0 || count > MOST_FEATURES {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // The kernel writes as many strings as it has, whatever the request says.
    let mut strings = vec![0; 3 + count * STRING_BYTES / 4];
    (strings[1], strings[2]) = (FEATURES, count as u32);
    let names = request_ethtool(device, GET_STRINGS, &mut strings, |w| bytes(&w[3..]))?;
    let sets = count.div_ceil(32);
    let mut words = vec![0; 2 + 4 * sets];
    words[1] = sets as u32;
    request_ethtool(device, GET_FEATURES, &mut words, |words| {
        let active = |i: usize| words[2 + 4 * (i / 32) + 2] >> (i % 32) & 1 == 1;
        names
            .chunks_exact(STRING_BYTES)
            .enumerate()
            .map(|(i, name)| (string(name), active(i)))
            .collect()
    })
}

/// One SIOCETHTOOL request: `words` is the structure of the command, whose first word is its number;
/// `parse` gets it as the kernel filled it.
fn request_ethtool<T>(
    device: &str,
    command: u32,
    words: &mut [u32],
    parse: impl FnOnce(&[u32]) -> T,
) -> io::Result<T> {
    words[0] = command;
    let socket = socket()?;
    let mut request = device_request(device)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request is a whole `ifreq` and points to the words, which live through the call;
    // each caller in this file gives as many as the structure of its command has, of which the
    // kernel reads and writes no more.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &mut request) };
    checked(done)?;
    Ok(parse(words))
}

fn mtu(device: &str) -> io::Result<u64> {
    let socket = socket()?;
    let mut request = device_request(device)?;
    // SAFETY: the request is a whole `ifreq`, and the kernel writes to it alone.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &mut request) };
    checked(done)?;
    // SAFETY: the kernel has filled in this field of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(u64::try_from(mtu).unwrap_or(0))
}

/// An empty request to a device; `InvalidInput` for a text that cannot be a device's name.
pub(crate) fn device_request(device: &str) -> io::Result<libc::ifreq> {
    let bytes = device.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: std::ptr::null_mut(),
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?)
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The text up to the first zero byte.
fn string(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_facts_and_errors_for_the_others() {
        let lo = DeviceFacts::read("lo");
        assert!(lo.mtu.unwrap() > 0);
        assert!(lo.index.unwrap() > 0);
        let features = lo.features.unwrap();
        let named = |name: &str| features.iter().find(|(n, _)| n == name);
        let is_on = named("tx-scatter-gather").map(|(_, on)| *on);
        assert_eq!(is_on, Some(true));
        assert!(lo.rings.is_err() && lo.coalesce_rx.is_err());
        for name in ["no-such-device", "", "a\0b", "longer-than-any-device"] {
            let none = DeviceFacts::read(name);
            let known = [none.index.is_ok(), none.features.is_ok(), none.mtu.is_ok()];
            assert_eq!(known, [false; 3], "{name}");
        }
    }
}
