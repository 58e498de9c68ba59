//! Resolvers: further repositories from an OCM configuration (`components.md` 1.6).

use groundwork_yaml as yaml;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::reference::RepositoryContext;

/// Entry of the ConfigMap with the configuration.
pub const OCM_CONFIG_KEY: &str = ".ocmconfig";

const GENERIC_TYPE: &str = "generic.config.ocm.software";
const RESOLVER_TYPE: &str = "ocm.config.ocm.software";
const USUAL_PRIORITY: i64 = 10;

/// Rule that components with this prefix may be found in `repository`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolverRule {
    /// Whole segments of component names; empty for all components.
    pub prefix: String,
    pub priority: i64,
    pub repository: RepositoryContext,
}

impl ResolverRule {
    fn applies_to(&self, component: &str) -> bool {
        match component.strip_prefix(self.prefix.as_str()) {
            Some(rest) => self.prefix.is_empty() || rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }
}

/// Repositories to try after the one of the reference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolverRules {
    /// Rules in the order in which they are tried.
    rules: Vec<ResolverRule>,
}

/// Error of an OCM configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OcmConfigError {
    #[error("not valid YAML: {0}")]
    Yaml(#[from] yaml::Error),
    #[error("{path}: {problem}")]
    Field { path: String, problem: &'static str },
}

impl ResolverRules {
    /// Parses a configuration. Parts other than resolvers give warnings. An empty text gives no
    /// rules.
    ///
    /// # Errors
    ///
    /// The text is not YAML, or a supported part is malformed.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), OcmConfigError> {
        let mut reader = Reader::default();
        match yaml::from_str(text)? {
            Value::Null => {}
            Value::Object(document) => reader.document(&document)?,
            _ => return Err(field("document", "a map is expected")),
        }
        // The sort is stable: rules of one priority keep their written order.
        reader.rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        Ok((Self { rules: reader.rules }, reader.warnings))
    }

    /// Returns the rules that apply to a component, in the order in which they are tried.
    pub fn of<'a>(&'a self, component: &'a str) -> impl Iterator<Item = &'a ResolverRule> {
        self.rules.iter().filter(move |rule| rule.applies_to(component))
    }
}

#[derive(Default)]
struct Reader {
    rules: Vec<ResolverRule>,
    warnings: Vec<String>,
}

impl Reader {
    fn document(&mut self, document: &Map<String, Value>) -> Result<(), OcmConfigError> {
        match type_name(document) {
            RESOLVER_TYPE => self.part(document, ""),
            GENERIC_TYPE => {
                for (index, part) in list(document, "configurations", "configurations")?.iter().enumerate() {
                    let path = format!("configurations[{index}]");
                    let part = part.as_object().ok_or_else(|| field(&path, "a map is expected"))?;
                    self.part(part, &format!("{path}."))?;
                }
                Ok(())
            }
            "" => Err(field("type", "must be set, usually to generic.config.ocm.software/v1")),
            other => {
                self.ignored(&format!("a configuration of type {other}"));
                Ok(())
            }
        }
    }

    fn part(&mut self, part: &Map<String, Value>, path: &str) -> Result<(), OcmConfigError> {
        match type_name(part) {
            RESOLVER_TYPE => {}
            GENERIC_TYPE => return self.document(part),
            other => {
                self.ignored(&format!("{path}type {other:?}"));
                return Ok(());
            }
        }
        for member in part.keys().filter(|member| !["type", "resolvers"].contains(&member.as_str())) {
            self.ignored(&format!("{path}{member}"));
        }
        let path = format!("{path}resolvers");
        for (index, rule) in list(part, "resolvers", &path)?.iter().enumerate() {
            self.rules.push(rule_of(rule, &format!("{path}[{index}]"))?);
        }
        Ok(())
    }

    fn ignored(&mut self, what: &str) {
        self.warnings
            .push(format!("{what} is ignored: only resolvers of type {RESOLVER_TYPE} are supported"));
    }
}

fn rule_of(rule: &Value, path: &str) -> Result<ResolverRule, OcmConfigError> {
    let rule = rule.as_object().ok_or_else(|| field(path, "a map is expected"))?;
    let prefix = match rule.get("prefix") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(prefix)) => prefix.clone(),
        Some(_) => return Err(field(&format!("{path}.prefix"), "a text is expected")),
    };
    let priority = match rule.get("priority") {
        None | Some(Value::Null) => USUAL_PRIORITY,
        Some(priority) => {
            priority.as_i64().ok_or_else(|| field(&format!("{path}.priority"), "an integer is expected"))?
        }
    };
    let repository = rule.get("repository").filter(|repository| repository.is_object()).cloned();
    let repository = repository
        .and_then(RepositoryContext::new)
        .ok_or_else(|| field(&format!("{path}.repository"), "a map with a type is expected"))?;
    Ok(ResolverRule { prefix, priority, repository })
}

/// Returns the type of a configuration without its version.
fn type_name(part: &Map<String, Value>) -> &str {
    let name = part.get("type").and_then(Value::as_str).unwrap_or_default();
    name.strip_suffix("/v1").unwrap_or(name)
}

fn list<'a>(part: &'a Map<String, Value>, member: &str, path: &str) -> Result<&'a [Value], OcmConfigError> {
    match part.get(member) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(field(path, "a list is expected")),
    }
}

fn field(path: &str, problem: &'static str) -> OcmConfigError {
    OcmConfigError::Field { path: path.to_owned(), problem }
}

#[cfg(test)]
mod tests;
