//! Evidence from the kernel: counts and samples of its work while messages are moved, and while a
//! program of the user's runs. It reads and counts, moves no byte, and judges nothing.
//!
//! Each source opens once, with a self-test against known work where it can be wrong, and has a window
//! of its own: [`Events`] (system calls, switches, faults, packets), [`Copies`] (copies of each byte
//! by place), [`TimeSampler`] (CPU time by kind of work), [`CpuAccountant`] (CPU time by user),
//! [`WorkingSet`] (displaced cache lines); [`Profiler`] follows one program and its children. Where a
//! kernel has no such source, the result is absent with the reason, never zero.
//!
//! BPF programs are built from `bpf/*.c`, and lie there as objects. They need root, or CAP_BPF and
//! CAP_PERFMON, and CONFIG_DEBUG_INFO_BTF. Everything is held by descriptors and gone with them.
//! Start reading at `events.rs`; `bpf.rs` has what all share.

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

#[doc(inline)]
pub use copies::Copies;
#[doc(inline)]
pub use cpu_accounts::CpuAccountant;
#[doc(inline)]
pub use events::Events;
#[doc(inline)]
pub use footprint::WorkingSet;
pub use parties::Parties;
#[doc(inline)]
pub use profile::Profiler;
#[doc(inline)]
pub use time::TimeSampler;
