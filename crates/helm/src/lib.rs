//! Helm charts: from files to manifests.
//!
//! The behaviour is specified in the chapter `helm.md` of docs/reference. No Helm code is linked.
//! The crate neither reads files nor calls a cluster: files come in as bytes, and look-ups in a
//! cluster go through a trait.
//!
//! ```text
//! archive ──archive──┐
//!                    ├─> files ──chart──> Chart (metadata, values, templates, subcharts)
//! directory ─ignore──┘
//! Chart + values ──dependencies──> enabled charts ──values──> coalesced ──schema──> checked
//!      ──render──> a text for each file (templates of all charts are one set, `gotemplate`)
//!      ──manifest──> documents, hooks, notes
//! ```
//!
//! ```
//! use groundwork_helm::{Chart, File, Renderer, Request};
//!
//! let files = vec![
//!     File::new("Chart.yaml", *b"{apiVersion: v2, name: web, version: 0.1.0}"),
//!     File::new("values.yaml", *b"port: 80"),
//!     File::new("templates/service.yaml", *b"kind: Service\nport: {{ .Values.port }}\n"),
//! ];
//! let renderer = Renderer::new(Chart::from_files(files)?);
//! let rendered = renderer.render(&Request::default())?;
//! let expected = "---\n# Source: web/templates/service.yaml\nkind: Service\nport: 80\n";
//! assert_eq!(rendered.manifest(), expected);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod capabilities;
mod chart;
mod decode;
mod dependencies;
mod error;
mod functions;
mod glob;
mod ignore;
mod manifest;
mod metadata;
mod objects;
mod printed;
mod release;
mod render;
mod repository_index;
mod schema;
mod toml_text;
pub mod values;
mod yaml_errors;

pub use archive::{ArchiveError, LARGEST_ARCHIVE};
pub use capabilities::{Capabilities, KubeVersion, KubeVersionError};
pub use chart::{Chart, File, LARGEST_FILE};
pub use error::{LoadError, RenderError};
pub use functions::Lookup;
pub use ignore::{IGNORE_FILE, Ignore, PatternError};
pub use manifest::{Document, Hook, INSTALL_ORDER, UNINSTALL_ORDER, compare_for_uninstall, documents};
pub use metadata::{Dependency, Maintainer, Metadata};
pub use printed::{NoSuchTemplateError, Printing};
pub use release::{Encoded, HOOK_RUNS, Record, RecordError, ReleaseNameError, Status, check_release_name};
pub use render::{Prepared, Release, Rendered, Renderer, Request, TIME_LIMIT};
pub use repository_index::{IndexEntry, IndexError, find_in_index};
