//! Run directories: append, never rewrite.
