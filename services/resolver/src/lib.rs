//! The resolver service.
