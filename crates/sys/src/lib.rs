//! The only unsafe code of bytecost: system calls, io_uring, perf events, clocks.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod clock;
pub mod perf;
pub mod process;
