//! The engine's tables in the form of a survey, by which studies and claims are checked.

use bytecost_engine::{MOVERS, RECEIVERS, SERVERS, SERVICES};
use bytecost_spec::Survey;
use bytecost_spec::survey::ServerSurvey;

/// The names and facts of all movers, receivers, servers and services, as if all of them worked here.
pub fn tables() -> Survey {
    Survey {
        mover_facts: MOVERS.iter().map(|row| row.surveyed()).collect(),
        receiver_facts: RECEIVERS.iter().map(|row| row.facts.owned()).collect(),
        serving: Some(ServerSurvey {
            servers: SERVERS.iter().map(|row| row.facts.owned()).collect(),
            services: SERVICES.iter().map(|row| row.facts.owned()).collect(),
            ..ServerSurvey::default()
        }),
        ..Survey::default()
    }
}
