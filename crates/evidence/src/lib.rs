//! What the kernel really did with the bytes, counted by BPF programs that the crate brings along.
//!
//! The programs are built from the C files in `bpf`, beside which their objects lie; whoever uses
//! bytecost needs no compiler. They need root, or CAP_BPF and CAP_PERFMON, and a kernel that tells
//! its own types (CONFIG_DEBUG_INFO_BTF). Everything is held by descriptors and gone with them.

pub mod bpf;
pub mod copies;
