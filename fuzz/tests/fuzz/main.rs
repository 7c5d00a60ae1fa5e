//! All fuzz targets in one program; see the README beside them.

mod edit;
mod target;

mod protocol;
mod run;
mod samples;
mod study;
mod words;
