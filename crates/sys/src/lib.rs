//! The only unsafe code of bytecost: memory that the kernel reads behind our back, the error
//! queue, io_uring, perf counters, and the few options that no safe crate offers.
//!
//! Safe system calls are taken from rustix where they are used. Each wrapper here is safe to
//! call with any arguments: a wrong one gives an error, never undefined behaviour.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

mod buffer_ring;
pub mod census;
pub mod children;
pub mod clock;
pub mod companion;
pub mod errqueue;
pub mod file_map;
pub mod gather;
pub mod libaio;
pub mod lines;
pub mod memory_policy;
pub mod multishot;
pub mod network;
pub mod packet;
pub mod perf;
pub mod pipe;
pub mod places;
pub mod posix_aio;
pub mod process;
pub mod readiness;
pub mod region;
pub mod ring;
pub mod sampler;
pub mod sched;
pub mod signals;
pub mod switchboard;
pub mod tcp;
pub mod ticks;
pub mod tun;
pub mod udp;
pub mod uring;
pub mod uring_file;
pub mod uring_relay;
pub mod words;
