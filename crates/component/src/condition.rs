//! Texts of the conditions about overwrites (`components.md` 3).

use crate::overwrite::Substitution;
use crate::reference::{Reference, RepositoryContext};

/// Type of the condition that shows the reference used by the last job.
pub const OVERWRITE_CONDITION: &str = "ComponentReferenceOverwrite";

/// Condition for one substitution, without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverwriteCondition {
    /// Status `True`: a rule matched, even if it changed no attribute.
    pub status: bool,
    /// `FoundOverwrite` or `No overwrite defined`. The spaces are part of the contract.
    pub reason: &'static str,
    pub message: String,
}

impl From<&Substitution> for OverwriteCondition {
    fn from(substitution: &Substitution) -> Self {
        if substitution.matched {
            Self { status: true, reason: "FoundOverwrite", message: found_message(substitution) }
        } else {
            Self {
                status: false,
                reason: "No overwrite defined",
                message: "component reference has not been overwritten".to_owned(),
            }
        }
    }
}

/// Returns a message of four lines, or a single line that differs from the `False` message in case
/// and full stop.
fn found_message(substitution: &Substitution) -> String {
    let (old, new) = (&substitution.original, &substitution.effective);
    if old == new {
        return "Component reference has not been overwritten.".to_owned();
    }
    let name = if old.name == new.name {
        "ComponentName has not been overwritten".to_owned()
    } else {
        format!("{} -> {}", old.name, new.name)
    };
    let version = if old.version == new.version {
        "Version has not been overwritten".to_owned()
    } else {
        format!("{} -> {}", old.version, new.version)
    };
    let repository = repository_line(old.repository.as_ref(), new.repository.as_ref());
    format!("Component reference has been overwritten:\n{repository}\n{name}\n{version}")
}

fn repository_line(old: Option<&RepositoryContext>, new: Option<&RepositoryContext>) -> String {
    match (old, new) {
        (None, Some(new)) => format!("-> {}", new.to_json()),
        (Some(old), Some(new)) if old != new => {
            let short = registry_text(old).zip(registry_text(new));
            let (old, new) = short.unwrap_or_else(|| (old.to_json(), new.to_json()));
            format!("{old} -> {new}")
        }
        // Equal contexts, or none. A removed context needs no arm: a substitution cannot remove
        // one.
        _ => "RepositoryContext has not been overwritten".to_owned(),
    }
}

/// Returns `<baseUrl> (<componentNameMapping>)` for a valid context of type exactly `ociRegistry`.
fn registry_text(context: &RepositoryContext) -> Option<String> {
    if context.type_name() != "ociRegistry" {
        return None;
    }
    let base_url = context.text("baseUrl").ok()?.unwrap_or_default();
    let mapping = context.text("componentNameMapping").ok()?.unwrap_or_default();
    Some(format!("{base_url} ({mapping})"))
}

/// Returns the message of the condition `ComponentReferenceOutdated`, after the rules have changed
/// since the last job.
pub fn outdated_message(next: &Reference, last: &Reference) -> String {
    let place = |reference: &Reference| {
        reference
            .repository
            .as_ref()
            .map_or_else(|| "the configured resolvers".to_owned(), ToString::to_string)
    };
    format!("the next reconcile will use {next} from {} instead of {last} from {}", place(next), place(last))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reference(repository: Value, name: &str, version: &str) -> Reference {
        Reference {
            repository: RepositoryContext::new(repository),
            name: name.into(),
            version: version.into(),
        }
    }

    fn check(
        old: (Value, &str, &str),
        new: (Value, &str, &str),
        matched: bool,
        status: bool,
        reason: &str,
        message: &str,
    ) {
        let substitution = Substitution {
            original: reference(old.0, old.1, old.2),
            effective: reference(new.0, new.1, new.2),
            matched,
        };
        let condition = OverwriteCondition::from(&substitution);
        assert_eq!(
            (condition.status, condition.reason, condition.message.as_str()),
            (status, reason, message)
        );
    }

    /// Cases O-38 to O-40, items 2 and 3 of `components.md` 11: every variant of `components.md`
    /// 3.1.
    #[test]
    fn message_variants() {
        let prod = json!({"type": "ociRegistry", "baseUrl": "reg.example.org/prod"});
        let dev = json!({"type": "ociRegistry", "baseUrl": "localhost:5000/dev"});
        let mapped = json!({"type": "ociRegistry", "baseUrl": "reg.example.org/prod", "componentNameMapping": "urlPath", "subPath": "x"});
        let archive = json!({"type": "CommonTransportFormat", "filePath": "ctf"});
        let broken = json!({"type": "ociRegistry", "baseUrl": 5});
        let (shop, cart) = ("example.org/shop", "example.org/cart");
        let kept = "RepositoryContext has not been overwritten";

        let found = |repository: &str, name: &str, version: &str| {
            format!("Component reference has been overwritten:\n{repository}\n{name}\n{version}")
        };
        let (same_name, same_version) =
            ("ComponentName has not been overwritten", "Version has not been overwritten");
        for (old, new, message) in [
            (
                (prod.clone(), shop, "v1"),
                (dev.clone(), cart, "v1"),
                found(
                    "reg.example.org/prod () -> localhost:5000/dev ()",
                    "example.org/shop -> example.org/cart",
                    same_version,
                ),
            ),
            ((prod.clone(), shop, "v1"), (prod.clone(), shop, "v2"), found(kept, same_name, "v1 -> v2")),
            (
                (prod.clone(), shop, "v1"),
                (mapped, shop, "v1"),
                found("reg.example.org/prod () -> reg.example.org/prod (urlPath)", same_name, same_version),
            ),
            (
                (prod.clone(), shop, "v1"),
                (archive, shop, "v1"),
                found(
                    r#"{"baseUrl":"reg.example.org/prod","type":"ociRegistry"} -> {"filePath":"ctf","type":"CommonTransportFormat"}"#,
                    same_name,
                    same_version,
                ),
            ),
            (
                (prod.clone(), shop, "v1"),
                (broken, shop, "v1"),
                found(
                    r#"{"baseUrl":"reg.example.org/prod","type":"ociRegistry"} -> {"baseUrl":5,"type":"ociRegistry"}"#,
                    same_name,
                    same_version,
                ),
            ),
            (
                (Value::Null, shop, "v1"),
                (dev.clone(), shop, "v1"),
                found(r#"-> {"baseUrl":"localhost:5000/dev","type":"ociRegistry"}"#, same_name, same_version),
            ),
            ((Value::Null, shop, "v1"), (Value::Null, shop, "v2"), found(kept, same_name, "v1 -> v2")),
        ] {
            check(old, new, true, true, "FoundOverwrite", &message);
        }
        let same = || (prod.clone(), shop, "v1");
        check(same(), same(), true, true, "FoundOverwrite", "Component reference has not been overwritten.");
        check(
            same(),
            same(),
            false,
            false,
            "No overwrite defined",
            "component reference has not been overwritten",
        );
    }

    #[test]
    fn outdated_names_both_places() {
        let dev = json!({"type": "ociRegistry", "baseUrl": "localhost:5000/dev"});
        assert_eq!(
            outdated_message(&reference(dev, "a.b/c", "2"), &reference(Value::Null, "a.b/c", "1")),
            "the next reconcile will use a.b/c:2 from localhost:5000/dev instead of a.b/c:1 from the configured resolvers"
        );
    }
}
