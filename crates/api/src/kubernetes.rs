//! Kubernetes' rules for names, labels and versions of objects, for code that checks them before
//! the API server does.
//!
//! The rules are those of `k8s.io/apimachinery/pkg/util/validation`; a test compares them with the
//! answers of an API server (`tests/tests/api/names.rs`).

mod labels;
mod names;
mod version;

pub use labels::{is_annotation_key, is_label_key, is_label_value, label_key_problems, label_value_problems};
pub use names::{is_dns_label, is_dns_subdomain, looks_like_dns_label, looks_like_dns_subdomain};
pub use version::ResourceVersion;
