//! Findings to terminal, HTML, CSV, JSON and Markdown; pure.
