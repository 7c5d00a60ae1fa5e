//! Study, host and survey to an ordered plan; pure.
