//! Networks whose hosts may connect.

use std::net::IpAddr;
use std::str::FromStr;

use bytecost_spec::units;
use ipnet::IpNet;

/// One address, or all that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses(IpNet);

impl Addresses {
    /// Returns true if an address is among them.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Addresses, String> {
        let one = text.parse::<IpAddr>().map(IpNet::from).ok();
        let all = one.or_else(|| text.parse().ok());
        all.map(Addresses).ok_or_else(|| {
            format!(
                "`{}` is no IP address: write one such as 192.0.2.7, or 192.0.2.0/24 for all that begin with these 24 bits",
                units::one_line(text)
            )
        })
    }
}
