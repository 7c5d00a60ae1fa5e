//! The work of a background load.

use std::{hint, io};

use bytecost_spec::LoadKind;
use bytecost_sys::cache_lines::Pages;

use super::{Chase, Integer, Triad, Work};

/// The work of background load, on so much memory where it uses any; none for an idle one.
pub fn of_noise(noise: LoadKind, bytes: usize) -> io::Result<Option<Box<dyn Work>>> {
    Ok(match noise {
        LoadKind::Idle => None,
        LoadKind::Spin => Some(Box::new(Integer::new(0))),
        LoadKind::Stream => Some(Box::new(Triad::new(bytes, Pages::Any)?)),
        LoadKind::Chase => Some(Box::new(Chase::new(bytes, 0, Pages::Any)?)),
        LoadKind::Awake => Some(Box::new(Pauses)),
    })
}

/// A loop of pauses, which leaves all of a core to its other thread.
#[derive(Debug)]
struct Pauses;

/// Size of a unit: a few µs, so that it ends soon after the stop signal.
const PAUSES: u64 = 64;

impl Work for Pauses {
    fn unit(&mut self) -> io::Result<()> {
        (0..PAUSES).for_each(|_| hint::spin_loop());
        Ok(())
    }

    fn steps(&self) -> (u64, u64) {
        (PAUSES, 0)
    }
}
