//! The house rules, held against the tree; STYLE.md says them in words.

mod circles;
mod documents;
mod glossary;
mod guide;
mod imports;
mod invariants;
mod make;
mod programs;
mod pure;
mod ratios;
mod source;
mod tree;
mod unsafety;
mod waits;
