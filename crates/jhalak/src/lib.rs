//! Exact attention in linear memory.
