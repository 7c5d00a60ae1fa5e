//! A host with its survey.

use bytecost_spec::{Host, PeerHost, Survey};

/// A host, and what was found to work on it.
#[derive(Clone, Copy, Debug)]
pub struct SurveyedHost<'h> {
    /// The host.
    pub host: &'h Host,
    /// Its survey.
    pub survey: &'h Survey,
}

impl<'h> From<&'h PeerHost> for SurveyedHost<'h> {
    fn from(peer: &'h PeerHost) -> SurveyedHost<'h> {
        SurveyedHost {
            host: &peer.host,
            survey: &peer.survey,
        }
    }
}
