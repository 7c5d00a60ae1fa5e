//! Ways to move bytes and to take them in; measures nothing.
