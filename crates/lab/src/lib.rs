//! Carries out a plan: endpoints, trials, events.
