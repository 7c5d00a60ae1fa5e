//! Work for a CPU or its memory: each unit's result is checked against one found another way, so
//! that a step which a compiler left out would be noticed.

use std::io;

use bytecost_spec::HugePages;
use bytecost_sys::cache_lines::{CacheLines, Pages};

mod arithmetic;
mod chase;
mod noise;
mod reads;
mod triad;

pub(crate) use arithmetic::{Float, Integer};
pub(crate) use chase::Chase;
pub use noise::of_noise;
pub(crate) use reads::{Order, Reads};
pub(crate) use triad::Triad;

/// As far as strides here go; a machine with longer lines touches each twice.
const LINE_BYTES: usize = 64;

/// Something to do over and over.
pub trait Work: Send {
    /// Does one unit; `InvalidData` where its result is a wrong one. Does not allocate.
    fn unit(&mut self) -> io::Result<()>;

    /// Steps of one unit, of all chains together or lines of memory, and the bytes of each.
    fn steps(&self) -> (u64, u64);
}

pub(crate) fn pages(asked: HugePages) -> Pages {
    match asked {
        HugePages::Auto => Pages::Any,
        HugePages::On => Pages::Huge,
        HugePages::Off => Pages::Small,
    }
}

/// The reason why memory in huge pages is not available here, found by trying; none if it is.
pub fn huge_pages_refused() -> Option<String> {
    CacheLines::new(1, Pages::Huge).err().map(|e| e.to_string())
}

fn wrong(what: &str) -> io::Error {
    let why = format!("{what} came to a wrong result: the memory or the processor is faulty");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The largest power of two of lines that fits into so many bytes, at least two.
fn lines_within(bytes: usize, pages: Pages) -> io::Result<CacheLines> {
    match (bytes / LINE_BYTES).checked_ilog2() {
        Some(bits @ 1..) => CacheLines::new(1 << bits, pages),
        _ => Err(too_small(bytes)),
    }
}

fn too_small(bytes: usize) -> io::Error {
    let least = 2 * LINE_BYTES;
    let why = format!("{bytes} bytes are too few to work on: at least {least}");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests;
