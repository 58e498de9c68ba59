//! Starts the real servers that tests need.
