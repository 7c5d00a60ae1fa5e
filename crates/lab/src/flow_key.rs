//! Keys of flows: the first bytes of a connection, which show whose it is.

use std::fmt;
use std::io::{self, Write};

use bytecost_spec::units;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// Bytes of a key, which come before any payload.
pub const KEY_BYTES: usize = 16;

/// The first bytes of a connection: 128 bits that nobody guesses, for one flow of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowKey([u8; KEY_BYTES]);

impl FlowKey {
    /// A new one, getrandom(2).
    pub fn new() -> io::Result<FlowKey> {
        let mut key = FlowKey::default();
        // So few bytes come whole or not at all.
        getrandom(&mut key.0, GetRandomFlags::empty())?;
        Ok(key)
    }

    /// As many new keys as there are flows.
    pub fn several(flows: u32) -> io::Result<Vec<FlowKey>> {
        (0..flows).map(|_| FlowKey::new()).collect()
    }

    /// Sends it, which comes first on a connection.
    pub fn send(&self, connection: &mut impl Write) -> io::Result<()> {
        connection.write_all(&self.0)
    }

    /// Returns true if these bytes are the key. Takes a time that does not depend on them.
    pub fn matches(&self, bytes: &[u8; KEY_BYTES]) -> bool {
        self.0[..].ct_eq(&bytes[..]).into()
    }

    /// The key of these bytes.
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> FlowKey {
        FlowKey(bytes)
    }

    /// The first bytes of this key's digest (SHA-256), which nobody can choose.
    pub fn digest(&self) -> FlowKey {
        let mut key = FlowKey::default();
        key.0.copy_from_slice(&Sha256::digest(self.0)[..KEY_BYTES]);
        key
    }

    /// A seed of 64 bits for random numbers that differ from trial to trial.
    pub fn seed(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// In hexadecimal digits.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&units::hexadecimal(&self.0))
    }
}

/// Keys that no connection has used yet.
#[derive(Debug, Default)]
pub(crate) struct UnusedKeys(Vec<Option<FlowKey>>);

impl UnusedKeys {
    /// Keys of which each is for one connection.
    pub(crate) fn new(keys: &[FlowKey]) -> UnusedKeys {
        UnusedKeys(keys.iter().copied().map(Some).collect())
    }

    /// Uses up a key, and returns its number; none for any other key. Takes a time that does not depend
    /// on it.
    pub(crate) fn use_up(&mut self, sent: &FlowKey) -> Option<usize> {
        let (mut found, mut index) = (Choice::from(0), 0_u64);
        for (number, key) in self.0.iter().enumerate() {
            let unused = Choice::from(u8::from(key.is_some()));
            let same = key.unwrap_or_default().0[..].ct_eq(&sent.0[..]) & unused;
            index.conditional_assign(&(number as u64), same);
            found |= same;
        }
        let flow = bool::from(found).then_some(index as usize)?;
        self.0[flow] = None;
        Some(flow)
    }
}
