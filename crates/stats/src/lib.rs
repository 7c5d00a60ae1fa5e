//! Pure arithmetic on slices: intervals, tests, corrections.
