//! What machine is this: kernel, CPUs, limits, knobs.
