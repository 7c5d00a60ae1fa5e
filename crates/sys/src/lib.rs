//! All unsafe code of bytecost, behind functions that are safe for every argument: a wrong one gives an
//! error, never undefined behaviour.
//!
//! Memory: [`region::Region`], [`iovecs`], [`io_buffers`] and [`file_map`] hold memory that the kernel
//! reads or writes while Rust code runs. I/O: [`request_queue::RequestQueue`] (POSIX AIO, Linux AIO,
//! io_uring) reads files; `uring_*` send and serve; [`errqueue`], [`pipe`], [`tcp`] and [`tun`] are
//! single interfaces. Measuring: [`clock`], [`perf`], [`sampler`], [`usage`]. Processes: [`children`],
//! [`child_end`], [`held_command`], [`sched`], [`network`].
//!
//! Calls for which rustix has a safe function are made where they are needed, not here. Unless a
//! function says otherwise, its errors are those of the system call that its comment names. Nothing here
//! prints, decides what to measure, or knows of movers. Start with [`region`] and [`errqueue`].

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod cache_lines;
pub mod call_listener;
pub mod child_end;
pub mod children;
pub mod clock;
pub mod errqueue;
pub mod ethtool;
pub mod file_map;
pub mod file_system;
pub mod held_command;
pub mod helper_process;
pub mod io_buffers;
pub mod iovecs;
#[cfg(test)]
#[path = "../../../tests/lack.rs"]
mod lack;
pub mod libaio;
mod mapping;
pub mod memory_policy;
pub mod network;
pub mod packet;
pub mod perf;
pub mod pipe;
pub mod posix_aio;
pub mod proc_view;
pub mod process;
pub mod readiness;
pub mod region;
pub mod regular_file;
pub mod request_queue;
pub mod ring;
pub mod sampler;
pub mod sched;
pub mod signals;
mod syscall;
pub mod tcp;
pub mod time_stamp;
pub mod tun;
pub mod uring_client;
pub mod uring_connections;
pub mod uring_file;
pub mod uring_relay;
pub mod uring_socket;
pub mod usage;
