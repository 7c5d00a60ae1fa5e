//! Fuzz targets for everything that bytecost reads from outside. They are tests, and there is
//! nothing else here; the README says what each holds.
#![cfg(test)]

mod edit;
mod target;

mod protocol;
mod published;
mod run;
mod samples;
mod study;
mod wire;
mod words;
