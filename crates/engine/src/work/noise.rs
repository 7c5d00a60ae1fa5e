//! What background load does.

use std::io;

use bytecost_spec::Noise;
use bytecost_sys::cache_lines::Pages;

use super::{Chase, Integer, Triad, Work};

/// The work of a neighbour, on so much memory where it uses any; none for an idle one.
///
/// # Errors
/// As the work itself.
pub fn of_noise(noise: Noise, bytes: usize) -> io::Result<Option<Box<dyn Work>>> {
    Ok(match noise {
        Noise::Idle => None,
        Noise::Spin => Some(Box::new(Integer::new(0))),
        Noise::Stream => Some(Box::new(Triad::new(bytes, Pages::Any)?)),
        Noise::Chase => Some(Box::new(Chase::new(bytes, 0, Pages::Any)?)),
    })
}
