//! End-to-end suites against real servers.
