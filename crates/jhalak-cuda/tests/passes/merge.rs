//! Merging results over different keys.
