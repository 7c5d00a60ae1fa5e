//! Run directories: records are appended and never rewritten.
//!
//! In the order of the data flow: a [`Root`] is the directory of all runs; it creates a [`Run`] from a
//! manifest, which appends records and ends with an [`Ending`]; [`Loaded`] are the records read back.
//! [`History`] keeps summaries of rounds for later runs. All files go through [`Folder`], which writes
//! atomically and follows no links. The crate knows nothing of measuring. Start with `run.rs`.
//!
//! A run is a directory `ROOT/ID/`:
//!
//! | file | content | written |
//! | --- | --- | --- |
//! | `manifest.json` | [`bytecost_spec::Manifest`] | once, first, atomically |
//! | `samples.jsonl` | one [`bytecost_spec::Record`] a line | appended; a killed run loses at most the last line |
//! | `ended.json` | [`Ending`]: when and why the run ended | at the end, atomically; absent while a run continues |
//! | anything else | reports | atomically, through [`Run::write_output`] |
//!
//! Everything in a report is computed again from the first two.
//!
//! Every function can fail with [`StoreError::Io`], a reader with [`StoreError::Unreadable`], a writer with
//! [`StoreError::Full`] and [`StoreError::OfAnother`]; `# Errors` names the others.

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
