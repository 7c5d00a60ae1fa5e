//! Run directories: append, never rewrite.
//!
//! A run is a directory `ROOT/ID/`:
//!
//! | file | what it holds | how it is written |
//! | --- | --- | --- |
//! | `manifest.json` | [`bytecost_spec::Manifest`] | once, first, atomically |
//! | `samples.jsonl` | one [`bytecost_spec::Record`] a line | appended; a killed run loses at most the last line |
//! | `ended.json` | [`Ending`]: when and why the run ended | at the end, atomically; gone while a run goes on |
//! | anything else | reports | atomically, through [`Run::write_output`] |
//!
//! Everything that a report says is computed again from the first two.
//!
//! Anything may answer what the system refused ([`StoreError::Io`]), what reads a file
//! [`StoreError::Unreadable`], what writes one [`StoreError::Full`] and [`StoreError::OfAnother`];
//! `# Errors` names others.

mod error;
mod folder;
mod history;
mod kept;
mod log;
mod root;
mod run;

pub use error::StoreError;
pub use folder::{Folder, caller};
pub use history::{History, KnownRounds};
pub use kept::known_or;
pub use log::Loaded;
pub use root::Root;
pub use run::{Ending, Run};
