//! The only unsafe code of bytecost: system calls, io_uring, perf events, clocks.
