//! What a coordinator on another host may ask of this one: nothing that names a place here, and no
//! more than there is room for.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytecost_spec::cell::{MAX_CALL_BYTES, MAX_CONNECTIONS, MAX_SIZE_BYTES, MAX_THREADS};
use bytecost_spec::{Transport, units};

use crate::meters::Meters;
use crate::protocol::{Meets, Role, Task};

/// The share of the memory that buffers may take, as a divisor.
const MEMORY_SHARE: u64 = 2;
/// The longest that a call may go without progress, and the longest window.
const MOST_PATIENCE_MS: u64 = 60_000;
const MOST_WINDOW: Duration = Duration::from_secs(3600);

/// Whether a side can be played here, on a host with these addresses and so much memory.
///
/// # Errors
/// Why not, and what to do about it.
pub(super) fn fits(
    task: &Task,
    window: Duration,
    own: &[IpAddr],
    memory_bytes: u64,
) -> Result<(), String> {
    let cell = &task.cell;
    let names_a_place = !task.pins.is_empty()
        || task.java.is_some()
        || !task.doors.is_empty()
        || !task.probed.is_empty()
        || task.meters != Meters::default()
        || (task.file.as_ref())
            .is_some_and(|f| f.target.is_some() || !f.path.as_os_str().is_empty());
    if names_a_place {
        return Err("a path, a CPU or a program of this host was named, which is not for the other host to choose".to_owned());
    }
    if cell.transport != Transport::Peer || task.role == Role::Neighbour {
        return Err("only a side of a trial between two hosts is played here".to_owned());
    }
    match &task.meets {
        Meets::Nobody => return Err("a side without another was asked for".to_owned()),
        Meets::Listens { at, .. } if !at.is_some_and(|at| own.contains(&at)) => {
            return Err("an address to listen at was named that is none of this host's".to_owned());
        }
        Meets::Connects { to } if to.parse::<SocketAddr>().is_err() => {
            return Err("an address to connect to was named that is none".to_owned());
        }
        Meets::Listens { .. } | Meets::Connects { .. } => {}
    }
    let in_bounds = (1..=MAX_THREADS).contains(&cell.threads)
        && (1..=MAX_SIZE_BYTES).contains(&cell.size_bytes)
        && cell.read_bytes() <= MAX_CALL_BYTES
        && cell.serving.all_connections() <= u64::from(MAX_CONNECTIONS)
        && task.keys.len() == cell.threads as usize
        && task.messages_least <= 3 * cell.ring_slots().max(cell.file_slots())
        && task.patience_ms <= MOST_PATIENCE_MS
        && window <= MOST_WINDOW;
    if !in_bounds {
        return Err("a size, a time or a number of flows is out of bounds".to_owned());
    }
    let ring = cell.size_bytes.saturating_mul(cell.ring_slots());
    let buffers = ring
        .saturating_add(cell.read_bytes())
        .saturating_mul(cell.threads.into());
    let room = memory_bytes / MEMORY_SHARE;
    match memory_bytes > 0 && !cell.is_served() && buffers > room {
        true => Err(format!(
            "buffers of {} would be needed, more than half of the memory: choose a smaller --ring or --size, or fewer --threads",
            units::bytes_in_words(buffers)
        )),
        false => Ok(()),
    }
}
