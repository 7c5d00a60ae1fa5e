//! What the kernel really did while messages were moved: evidence for the reasons of a finding.
//!
//! It reads and counts; it moves no byte and judges nothing.
//!
//! BPF programs are built from the C files in `bpf`, beside which their objects lie; whoever uses
//! bytecost needs no compiler. They need root, or CAP_BPF and CAP_PERFMON, and a kernel that tells
//! its own types (CONFIG_DEBUG_INFO_BTF). Everything is held by descriptors and gone with them.

pub mod attribution;
pub mod bpf;
pub mod copies;
pub mod cpu_accounts;
pub mod events;
pub mod footprint;
mod parties;
pub mod symbols;
pub mod time;

pub use copies::Copies;
pub use cpu_accounts::CpuAccountant;
pub use events::Events;
pub use footprint::WorkingSet;
pub use parties::Parties;
pub use time::TimeSampler;
