//! Journal entries about the resolution for a job.

use groundwork_api::{Installation, Kind as _, ResourceExt};
use groundwork_bus::{About, Kind, ObjectId, What};
use groundwork_component::{ComponentVersion, Reference};
use groundwork_controller::{Journal, Note};
use groundwork_lifecycle::{OperationError, Resolution, parent_name};

/// Records the component version that the job uses and the reason, or the operation that failed.
/// The repository context is left out, since it may contain credentials.
pub(crate) fn tell(
    journal: &Journal,
    job: &str,
    installation: &Installation,
    resolution: &Resolution,
    closure: &Result<Vec<ComponentVersion>, OperationError>,
) {
    let named = |reference: &Reference| format!("{}:{}", reference.name, reference.version);
    let (reason, text) = match (closure, &resolution.reference) {
        (Err(error), _) => (error.reason.to_string(), format!("failed in the operation {}", error.operation)),
        (Ok(_), None) => ("Inline".to_owned(), "the Installation refers to no component".to_owned()),
        (Ok(versions), Some(found)) if found.matched => {
            let (written, used) = (named(&found.original), named(&found.effective));
            let text = format!(
                "overwrites turn the reference {written} into {used}; its closure has {} component versions",
                versions.len()
            );
            ("Overwritten".to_owned(), text)
        }
        (Ok(versions), Some(found)) => {
            let used = named(&found.effective);
            (
                "AsWritten".to_owned(),
                format!("uses {used}; its closure has {} component versions", versions.len()),
            )
        }
    };
    let namespace = installation.namespace();
    let key = ObjectId::new(Kind::of::<Installation>(), namespace.as_deref(), installation.name_any());
    let about = About {
        kind: Installation::KIND.to_owned(),
        name: installation.name_any(),
        uid: installation.uid().unwrap_or_default(),
    };
    let mut scribe = journal.scribe(&key);
    scribe.set_job(job, parent_name(installation));
    let seen = installation.resource_version();
    scribe.note(What::Decision, Note { about, reason, text, seen, written: None });
}
