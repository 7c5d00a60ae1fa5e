//! Names of caveats.

use serde::Serialize;

/// The name of a caveat in the table of caveats: `zero-copy-copied`, `pacing`, …
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CaveatKind(pub &'static str);

impl PartialEq<&str> for CaveatKind {
    fn eq(&self, name: &&str) -> bool {
        self.0 == *name
    }
}
