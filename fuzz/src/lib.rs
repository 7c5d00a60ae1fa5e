//! Fuzz targets for everything that bytecost reads from outside; they are this crate's tests.
