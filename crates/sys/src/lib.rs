//! The only unsafe code of bytecost: memory that the kernel reads behind our back, the error
//! queue, io_uring, perf counters, and the few options that no safe crate offers.
//!
//! Safe system calls are taken from rustix where they are used. Each wrapper here is safe to
//! call with any arguments: a wrong one gives an error, never undefined behaviour. Where nothing
//! else is said of errors, they are what the system call answers that is named.

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
