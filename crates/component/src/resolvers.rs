//! Resolvers: further repositories from an OCM configuration (`components.md` 1.6).

use globset::{GlobBuilder, GlobMatcher};
use groundwork_go::semver::{Constraint, Version};
use groundwork_yaml as yaml;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::reference::RepositoryContext;

/// Entry of the ConfigMap with the configuration.
pub const OCM_CONFIG_KEY: &str = ".ocmconfig";

const GENERIC_TYPE: &str = "generic.config.ocm.software";
const RESOLVER_TYPE: &str = "ocm.config.ocm.software";
/// Type of the resolvers with patterns, which OCM recommends since 2025.
const PATTERN_TYPE: &str = "resolvers.config.ocm.software";
const USUAL_PRIORITY: i64 = 10;

/// Rule that some components may be found in `repository`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResolverRule {
    scope: Scope,
    priority: i64,
    pub(crate) repository: RepositoryContext,
}

/// Components that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Scope {
    /// Whole segments of component names; empty for all components.
    Prefix(String),
    /// Pattern of names, and the constraint that versions satisfy.
    Pattern { name: Pattern, versions: Option<String> },
}

impl ResolverRule {
    fn applies_to(&self, component: &str, version: &str) -> bool {
        match &self.scope {
            Scope::Prefix(prefix) => match component.strip_prefix(prefix.as_str()) {
                Some(rest) => prefix.is_empty() || rest.is_empty() || rest.starts_with('/'),
                None => false,
            },
            Scope::Pattern { name, versions } => {
                name.matcher.is_match(component)
                    && versions.as_ref().is_none_or(|constraint| satisfies(version, constraint))
            }
        }
    }

    /// Returns the prefix or pattern of the rule, as messages name it.
    pub(crate) fn name(&self) -> &str {
        match &self.scope {
            Scope::Prefix(prefix) => prefix,
            Scope::Pattern { name, .. } => &name.text,
        }
    }
}

/// Reports whether a version satisfies a constraint. A version that is not semantic satisfies none.
fn satisfies(version: &str, constraint: &str) -> bool {
    match (Version::parse(version), Constraint::parse(constraint)) {
        (Ok(version), Ok(constraint)) => constraint.accepts(&version),
        _ => false,
    }
}

/// Pattern of component names. `*` stands for any text, with slashes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct Pattern {
    text: String,
    matcher: GlobMatcher,
}

impl TryFrom<String> for Pattern {
    type Error = globset::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // A rule without a pattern applies to all components.
        let glob = if text.is_empty() { "*" } else { &text };
        let matcher = GlobBuilder::new(glob).literal_separator(false).build()?.compile_matcher();
        Ok(Self { text, matcher })
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

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

    /// Returns the rules that apply to a component version, in the order in which they are tried.
    pub(crate) fn of<'a>(
        &'a self,
        component: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a ResolverRule> {
        self.rules.iter().filter(move |rule| rule.applies_to(component, version))
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
            RESOLVER_TYPE | PATTERN_TYPE => self.part(document, ""),
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
        let rule_of = match type_name(part) {
            RESOLVER_TYPE => prefix_rule,
            PATTERN_TYPE => pattern_rule,
            GENERIC_TYPE => return self.document(part),
            other => {
                self.ignored(&format!("{path}type {other:?}"));
                return Ok(());
            }
        };
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
        self.warnings.push(format!(
            "{what} is ignored: only resolvers of the types {RESOLVER_TYPE} and {PATTERN_TYPE} are supported"
        ));
    }
}

fn prefix_rule(rule: &Value, path: &str) -> Result<ResolverRule, OcmConfigError> {
    let rule = rule.as_object().ok_or_else(|| field(path, "a map is expected"))?;
    let prefix = optional_text(rule, "prefix", path)?.unwrap_or_default();
    let priority = match rule.get("priority") {
        None | Some(Value::Null) => USUAL_PRIORITY,
        Some(priority) => {
            priority.as_i64().ok_or_else(|| field(&format!("{path}.priority"), "an integer is expected"))?
        }
    };
    Ok(ResolverRule { scope: Scope::Prefix(prefix), priority, repository: repository(rule, path)? })
}

/// Returns a rule with a pattern. All of them have the same priority, so they keep their order.
fn pattern_rule(rule: &Value, path: &str) -> Result<ResolverRule, OcmConfigError> {
    let rule = rule.as_object().ok_or_else(|| field(path, "a map is expected"))?;
    let name = optional_text(rule, "componentNamePattern", path)?.unwrap_or_default();
    let name = Pattern::try_from(name).map_err(|_| {
        field(&format!("{path}.componentNamePattern"), "a pattern such as example.org/* is expected")
    })?;
    let versions = optional_text(rule, "versionConstraint", path)?.filter(|versions| !versions.is_empty());
    if versions.as_ref().is_some_and(|versions| Constraint::parse(versions).is_err()) {
        let problem = "a constraint such as \">=1.0.0 <2.0.0\" is expected";
        return Err(field(&format!("{path}.versionConstraint"), problem));
    }
    let scope = Scope::Pattern { name, versions };
    Ok(ResolverRule { scope, priority: USUAL_PRIORITY, repository: repository(rule, path)? })
}

fn optional_text(
    rule: &Map<String, Value>,
    member: &str,
    path: &str,
) -> Result<Option<String>, OcmConfigError> {
    match rule.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(field(&format!("{path}.{member}"), "a text is expected")),
    }
}

fn repository(rule: &Map<String, Value>, path: &str) -> Result<RepositoryContext, OcmConfigError> {
    let repository = rule.get("repository").filter(|repository| repository.is_object()).cloned();
    repository
        .and_then(RepositoryContext::new)
        .ok_or_else(|| field(&format!("{path}.repository"), "a map with a type is expected"))
}

/// Returns the type of a configuration without its version.
fn type_name(part: &Map<String, Value>) -> &str {
    let name = part.get("type").and_then(Value::as_str).unwrap_or_default();
    name.strip_suffix("/v1").or_else(|| name.strip_suffix("/v1alpha1")).unwrap_or(name)
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
