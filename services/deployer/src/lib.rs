//! The deployer service.
