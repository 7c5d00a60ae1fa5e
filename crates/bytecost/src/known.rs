//! What the engine's tables know, for studies that name things from them.

use bytecost_engine::{MOVERS, RECEIVERS, SERVERS, SERVICES};
use bytecost_spec::Survey;
use bytecost_spec::survey::ServerSurvey;

/// The tables as a survey that has tried nothing yet.
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
