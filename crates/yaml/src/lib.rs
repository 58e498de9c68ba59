//! YAML the way Go tools read and write it, with source positions.
