//! The key of live sessions: a file with 128 bits, and the greeting in which both ends prove that
//! they have it.
//!
//! The greeting is Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s (<https://noiseprotocol.org>, revision
//! 34), and so is each word of the session after it. Its prologue is the opening of the connection,
//! so that neither version nor the wish for a key can be changed on the way. The payload of the
//! flows goes in clear, since it is what is measured.

use std::cell::RefCell;
use std::fmt;
use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use bytecost_spec::units;
use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::{Builder, HandshakeState, TransportState};

use super::greeting::{self, TAG_BYTES};
use crate::greeters::{FlowKey, KEY_BYTES};
use crate::protocol;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// The longest word of the greeting: a public key and its tag.
pub(super) const GREETING_BYTES: usize = 32 + TAG_BYTES;
/// Digits of a key in its file.
const DIGITS: usize = 2 * KEY_BYTES;

/// A secret that both ends of a live session have.
#[derive(Clone)]
pub struct SessionKey([u8; 32]);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

impl SessionKey {
    /// Makes a key, and the file that has it, which only its owner can read. A file that is there
    /// already stays as it is.
    ///
    /// # Errors
    /// What getrandom(2), open(2) and write(2) answer: `AlreadyExists` where the file is there.
    pub fn make(path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let (key, mut file) = (FlowKey::new()?, options.open(path)?);
        writeln!(file, "{key}")?;
        file.sync_all()
    }

    /// The key of a file.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do.
    pub fn read(path: &Path) -> Result<SessionKey, String> {
        let name = units::one_line(&path.display().to_string());
        let told = |e: io::Error| format!("key file {name} cannot be read: {e}");
        // A pipe without a writer is opened too, and then refused.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(flags).open(path);
        let file = opened.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => format!(
                "key file {name} does not exist: copy it from the other end, or make one with `bytecost key {name}`"
            ),
            _ => told(e),
        })?;
        check(&file.metadata().map_err(told)?, &name)?;
        let mut text = String::new();
        let mut start = file.take(2 * DIGITS as u64);
        start.read_to_string(&mut text).map_err(told)?;
        let text = text.trim_ascii_end();
        let is_key = text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_key);
        let number = number.ok_or_else(|| {
            format!("key file {name} has no key, which is {DIGITS} hexadecimal digits: make one with `bytecost key FILE`")
        })?;
        // Noise wants 32 bytes: the other ones say what the key is for.
        let mut secret = *b"................bytecost live v2";
        secret[..KEY_BYTES].copy_from_slice(&number.to_be_bytes());
        Ok(SessionKey(secret))
    }

    /// Greets as the end that connects, or answers as the one that `listens`. What comes back has
    /// proved nothing until its first word is read: one that says again what another one said comes
    /// as far as this, and no further. `PermissionDenied` where the other end has another key.
    pub(super) fn greet(
        &self,
        listens: bool,
        mut from: impl Read,
        mut to: impl Write,
    ) -> io::Result<Cipher> {
        let mut state = self.handshake(listens).map_err(denied)?;
        for hears in [listens, !listens] {
            let mut word = [0; GREETING_BYTES];
            if hears {
                let word = protocol::read_bytes(&mut from, GREETING_BYTES)?;
                state.read_message(&word, &mut []).map_err(denied)?;
            } else {
                let length = state.write_message(&[], &mut word).map_err(denied)?;
                protocol::write_bytes(&mut to, &word[..length], GREETING_BYTES)?;
            }
        }
        let state = state.into_transport_mode().map_err(denied)?;
        Ok(Cipher(Some(RefCell::new(state))))
    }

    fn handshake(&self, listens: bool) -> Result<HandshakeState, snow::Error> {
        let opening = greeting::opening(greeting::VERSION, true);
        let builder = Builder::new(PATTERN.parse()?).psk(0, &self.0)?;
        let builder = builder.prologue(&opening)?;
        match listens {
            true => builder.build_responder(),
            false => builder.build_initiator(),
        }
    }
}

/// How words of a session are said: in clear, or by the key of both ends.
#[derive(Default)]
pub(super) struct Cipher(Option<RefCell<TransportState>>);

impl Cipher {
    pub(super) fn most(&self) -> usize {
        greeting::MAX_FRAME_BYTES + self.0.as_ref().map_or(0, |_| TAG_BYTES)
    }

    pub(super) fn write(&self, to: &mut impl Write, word: &impl Serialize) -> io::Result<()> {
        let plain = serde_json::to_vec(word)?;
        let Some(state) = &self.0 else {
            return protocol::write_bytes(to, &plain, self.most());
        };
        let mut sealed = vec![0; plain.len() + TAG_BYTES];
        let sealing = state.borrow_mut().write_message(&plain, &mut sealed);
        let length = sealing.map_err(|_| io::Error::other("the message is too long"))?;
        protocol::write_bytes(to, &sealed[..length], self.most())
    }

    /// `PermissionDenied` where it is none of the key's.
    pub(super) fn read<T: DeserializeOwned>(&self, from: &mut impl Read) -> io::Result<T> {
        let sealed = protocol::read_bytes(from, self.most())?;
        let Some(state) = &self.0 else {
            return protocol::parsed(&sealed);
        };
        let mut plain = vec![0; sealed.len()];
        let opened = state.borrow_mut().read_message(&sealed, &mut plain);
        protocol::parsed(&plain[..opened.map_err(denied)?])
    }
}

/// Whether a key file is the user's own and nobody else can read it.
fn check(found: &Metadata, name: &str) -> Result<(), String> {
    let (user, mode) = (found.uid(), found.mode() & 0o7777);
    let wrong = if !found.is_file() {
        "is no regular file: make one with `bytecost key FILE`".to_owned()
    } else if user != rustix::process::geteuid().as_raw() {
        format!("is owned by user {user}, not by you: make one with `bytecost key FILE`")
    } else if mode & 0o077 != 0 {
        format!(
            "has mode {mode:04o}, so that other users can use it: `chmod 600` it, or make a new key"
        )
    } else {
        return Ok(());
    };
    Err(format!("key file {name} {wrong}"))
}

/// What a word that does not fit the key is.
fn denied(_: snow::Error) -> io::Error {
    let why = "the other end did not prove that it has the same key";
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
