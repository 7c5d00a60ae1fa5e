//! Programs that do the work of helped movers, compiled once for all of their trials.

use std::sync::Arc;

use bytecost_engine::java::{self, Compiled, START_PATIENCE};

/// The programs that do the work of helped movers, ready to be started, or the reason why they are not.
#[derive(Debug)]
pub struct Helpers {
    pub(crate) java: Result<Arc<Compiled>, String>,
}

impl Helpers {
    /// Finds and compiles them, which takes a second or more.
    pub fn ready() -> Helpers {
        let compiled = java::find().and_then(|java| Compiled::new(&java, START_PATIENCE));
        Helpers {
            java: compiled.map(Arc::new).map_err(|e| e.to_string()),
        }
    }

    /// Those of a machine without them, for this reason.
    pub fn missing(reason: &str) -> Helpers {
        Helpers {
            java: Err(reason.to_owned()),
        }
    }

    /// The version of Java that is found; none where there is none that works.
    pub fn java_version(&self) -> Option<&str> {
        self.java.as_deref().ok().map(Compiled::version)
    }
}
