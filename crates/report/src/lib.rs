//! An analysis as text, page, Markdown, CSV and JSON: its words, tables and drawings.
//!
//! In the order of the data flow: phrase books (`phrases`, `run_words`, `figure_words`, `caveats/book`)
//! make words of the facts of an [`Analysis`](bytecost_analysis::Analysis); `advice`, `answer_table`,
//! `sections` and `comparisons` arrange them as a `document`, a list of blocks; [`terminal`], [`markdown`]
//! and [`html`] print a document, and [`screen()`] its beginning within 30 lines; `figure` draws a
//! [`Picture`]. [`findings_json`] and [`samples_csv`] write data.
//!
//! The crate is pure: the same analysis always gives the same bytes. It compares no numbers to reach a
//! verdict; those are `bytecost-analysis`'s. Start with `document.rs`, then `screen.rs`.

mod advice;
mod answer_table;
mod asked;
pub mod audit;
mod books;
mod caveats;
mod ceiling;
mod chart;
mod comparisons;
mod counted;
mod cpu_pairs;
mod crossing;
mod descriptions;
mod document;
mod explain;
mod explanations;
mod figure;
mod figure_words;
mod footprint;
mod full_report;
mod grid;
mod heat;
pub mod hosts;
mod json;
mod json_lines;
pub mod layout;
pub mod live;
mod main_effects;
mod markdown;
mod missing_points;
mod no_value;
mod numbers;
mod overview;
mod page;
mod phrases;
mod picture;
mod profile;
mod published_series;
mod published_tables;
mod question;
mod run_words;
mod samples;
mod scale;
pub mod screen;
mod sections;
pub mod service;
mod stack;
mod stalls;
mod style;
pub mod tables;
mod terminal;
mod text;
pub mod times;
mod topology;
mod two_groups;

pub use caveats::{CaveatText, DisturbanceText, caveats, disturbances};
pub use ceiling::ceiling;
pub use explain::explain;
pub use explanations::{ExplanationText, explanations};
pub use full_report::{html, markdown, terminal};
#[cfg(feature = "schema")]
pub use json::schemas;
pub use json::{Findings, explain_json, findings_json};
pub use picture::{Picture, pictures};
pub use profile::ProfileReport;
pub use samples::{SamplesError, samples_csv};
#[doc(inline)]
pub use screen::screen;
pub use style::Style;
