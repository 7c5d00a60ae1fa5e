//! What the engine's tables know, for studies that name things from them.

use bytecost_engine::{MOVERS, RECEIVERS, SERVERS, SERVICES};
use bytecost_spec::study::Known;
use bytecost_spec::{Cell, Invalid, Study};

/// Holds a study against the tables of movers, receivers, servers and services.
///
/// # Errors
/// As [`Study::check`].
pub fn check(study: &Study) -> Result<(), Invalid> {
    known(|known| study.check(known))
}

/// Holds one cell against them.
///
/// # Errors
/// As [`Known::check`].
pub fn check_cell(cell: &Cell) -> Result<(), Invalid> {
    known(|known| known.check(cell))
}

fn known<T>(check: impl FnOnce(Known<'_>) -> T) -> T {
    let movers: Vec<(&str, bool)> = MOVERS.iter().map(|m| (m.name, m.uses_fields)).collect();
    let receivers: Vec<&str> = RECEIVERS.iter().map(|r| r.name).collect();
    let servers: Vec<&str> = SERVERS.iter().map(|s| s.name).collect();
    let services: Vec<(&str, Option<(u64, u64)>)> =
        SERVICES.iter().map(|s| (s.name, s.sizes)).collect();
    check(Known {
        movers: &movers,
        receivers: &receivers,
        servers: &servers,
        services: &services,
    })
}
