//! Component descriptors, overwrite rules and the transitive closure.
