//! The tests of this crate in one program, a file a subject.

mod bounds;
mod false_discovery;
mod fixtures;
mod moderation;
mod rounds;
mod truths;
mod worlds;
