//! The admission of a new connection: a place among those of its address, so that no address takes the
//! places of all others, a send buffer, and a rate. An address that may not connect gets no place.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytecost_sys::tcp;
use rustix::net::{getpeername, sockopt};

use crate::servers::{Addresses, Limits};

/// The bits of an IPv6 address that name its network.
const NETWORK: u128 = !(u64::MAX as u128);

type Counts = Mutex<BTreeMap<IpAddr, usize>>;

/// Counts the connections of each address where they have a bound.
pub(super) struct AddressLimit {
    most: Option<usize>,
    allow: Vec<Addresses>,
    counts: Arc<Counts>,
    send_buffer: Option<usize>,
    max_bytes_per_s: Option<u64>,
}

/// The place of a connection among those of its address, until it is dropped.
#[derive(Default)]
pub(super) struct AddressSlot(Option<(Arc<Counts>, IpAddr)>);

impl AddressLimit {
    pub(super) fn new(limits: &Limits) -> AddressLimit {
        AddressLimit {
            most: limits.each_address,
            allow: limits.allow.clone(),
            counts: Arc::default(),
            send_buffer: limits.send_buffer,
            max_bytes_per_s: limits.max_bytes_per_s,
        }
    }

    /// A place for a new connection; none where its address may not connect, or has as many as it
    /// may have.
    pub(super) fn admit(&self, socket: &OwnedFd) -> Option<AddressSlot> {
        if let Some(bytes) = self.send_buffer {
            // It may be gone already. The listener's would not be that of who came before it was set.
            let _ = sockopt::set_socket_send_buffer_size(socket, bytes);
        }
        if let Some(rate) = self.max_bytes_per_s {
            // A connection without the bound is none that is wanted.
            tcp::set_max_pacing_rate(socket, rate).ok()?;
        }
        if self.most.is_none() && self.allow.is_empty() {
            return Some(AddressSlot::default());
        }
        // A connection that is gone already has no address, and needs no place.
        let address = SocketAddr::try_from(getpeername(socket).ok()??).ok()?;
        self.admit_address(address.ip())
    }

    fn admit_address(&self, address: IpAddr) -> Option<AddressSlot> {
        if !self.allow.is_empty() && !self.allow.iter().any(|a| a.contains(address)) {
            return None;
        }
        let Some(most) = self.most else {
            return Some(AddressSlot::default());
        };
        let address = match address.to_canonical() {
            IpAddr::V6(ip) => IpAddr::from((ip.to_bits() & NETWORK).to_be_bytes()),
            ip => ip,
        };
        let mut counts = locked(&self.counts);
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(AddressSlot(Some((Arc::clone(&self.counts), address))))
    }
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let Some((counts, address)) = &self.0 else {
            return;
        };
        let mut counts = locked(counts);
        if let Some(count) = counts.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(address);
            }
        }
    }
}

/// Counts that are whole between any two calls.
fn locked(counts: &Counts) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_others_have_theirs() {
        let limit = AddressLimit {
            most: Some(2),
            allow: vec![
                "192.0.2.0/24".parse().unwrap(),
                "2001:db8::/32".parse().unwrap(),
            ],
            counts: Arc::default(),
            send_buffer: None,
            max_bytes_per_s: None,
        };
        let admit = |address: &str| limit.admit_address(address.parse().unwrap());
        let held = [admit("192.0.2.1"), admit("::ffff:192.0.2.1")];
        assert!(
            held.iter().all(Option::is_some),
            "one address, two ways to write it"
        );
        assert!(admit("192.0.2.1").is_none());
        let _others = [admit("192.0.2.2").unwrap(), admit("2001:db8::1").unwrap()];
        let _same_network = admit("2001:db8::ffff").unwrap();
        assert!(admit("2001:db8::2").is_none());
        assert!(admit("2001:db8:0:1::2").is_some());
        assert!(admit("198.51.100.1").is_none(), "it may not connect");
        drop(held);
        assert!(admit("192.0.2.1").is_some());
        assert_eq!(locked(&limit.counts).len(), 2, "who has gone is forgotten");
    }
}
