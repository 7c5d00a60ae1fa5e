//! The house rules as tests, in `tests/house/`: who imports whom, where `unsafe` is, how long a file is.
