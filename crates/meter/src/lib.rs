//! Turns counters into readings; moves nothing.
