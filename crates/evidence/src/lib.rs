//! What the kernel did while messages were moved. It reads and counts, moves no byte, judges
//! nothing.
//!
//! BPF programs are built from `bpf/*.c`, and lie there as objects. They need root, or CAP_BPF and
//! CAP_PERFMON, and CONFIG_DEBUG_INFO_BTF. Everything is held by descriptors and gone with them.

pub mod attribution;
pub mod bpf;
pub mod copies;
pub mod cpu_accounts;
pub mod events;
pub mod footprint;
mod parties;
pub mod profile;
pub mod symbols;
pub mod time;

pub use copies::Copies;
pub use cpu_accounts::CpuAccountant;
pub use events::Events;
pub use footprint::WorkingSet;
pub use parties::Parties;
pub use profile::Profiler;
pub use time::TimeSampler;
