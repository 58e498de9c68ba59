//! Charts that are resources of components (`helm.md` 1): `chart.resourceRef` and
//! `chart.fromResource`.
//!
//! ```text
//! resourceRef (key of getResourceKey) ─┐  lifecycle::resolve
//! fromResource, with overwrites ───────┴──> component version
//!                                              ├─ access helm ──> chart repository
//!                                              └─ content ──> chart, or chart layer of an artifact
//! ```

use std::collections::BTreeMap;

use data_encoding::BASE64;
use groundwork_api::{ComponentVersionOverwrites, Context, Installation};
use groundwork_blueprint::Capabilities;
use groundwork_component::{
    Access, AccessError, Chart, ComponentVersion, ContentError, Outside, RepositoryError, Resource,
};
use groundwork_lifecycle::{
    ImportedObjects as _, Inputs, ObjectSet, OperationError, ROOT_SCOPE, Reason, resolve,
};
use groundwork_registry::sources::ContextRepositories;
use groundwork_registry::{ChartError, chart_of_content, is_packed_artifact};
use serde::Deserialize;
use serde_json::{Value, json};

use super::chart_source::{LARGEST, broken, unreachable};
use super::configuration::ChartRepository;

/// A resource of a component, as an item names it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ComponentChart {
    /// Member of the configuration, for error messages.
    member: &'static str,
    /// The component, in the form of `spec.componentDescriptor` of an Installation.
    component: Value,
    resource: BTreeMap<String, String>,
    /// False for a key: the component version in it is already the result of overwrites.
    has_overwrites: bool,
}

/// Objects of the item's namespace that decide where the chart is.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) namespace: String,
    pub(super) context: Option<Context>,
    pub(super) overwrites: Option<ComponentVersionOverwrites>,
    /// OCM configuration of the Context.
    pub(super) objects: ObjectSet,
    pub(super) repositories: ContextRepositories,
}

/// Result of the look-up of a chart.
#[derive(Debug)]
pub(super) enum Found {
    Archive(Vec<u8>),
    InRepository(ChartRepository),
}

#[derive(Deserialize)]
struct Key {
    component: KeyComponent,
    resource: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct KeyComponent {
    name: String,
    version: String,
}

impl ComponentChart {
    /// Parses a key in the form that `getResourceKey` returns (`blueprints.md` 5.5).
    pub(super) fn of_key(text: &str) -> Result<Self, OperationError> {
        let wrong = |problem: &str| {
            broken(format!(
                "chart.resourceRef: {problem}; the template function getResourceKey gives such keys"
            ))
        };
        let letters: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let bytes = BASE64.decode(&letters).map_err(|_| wrong("it is not valid base64"))?;
        let document = groundwork_yaml::from_str(&String::from_utf8_lossy(&bytes));
        let document = document.map_err(|_| wrong("it is not valid YAML"))?;
        let Key { component, resource } = serde_json::from_value(document)
            .map_err(|_| wrong("it does not name a component and a resource"))?;
        let KeyComponent { name, version } = component;
        let component = json!({"ref": {"componentName": name, "version": version}});
        Ok(Self { member: "resourceRef", component, resource, has_overwrites: false })
    }

    /// Parses `chart.fromResource`, which names a resource as a blueprint does (`helm.md` 1, R31).
    pub(super) fn of_resource(value: &Value) -> Result<Self, OperationError> {
        let wrong = |problem: &str| broken(format!("chart.fromResource: {problem}"));
        let name = value["resourceName"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| wrong("resourceName must be given"))?;
        let is_given = |member: &str| value.get(member).is_some_and(|value| !value.is_null());
        let component = match (is_given("ref"), is_given("inline")) {
            (true, false) => json!({"ref": value["ref"]}),
            (false, true) => json!({"inline": value["inline"]}),
            _ => return Err(wrong("exactly one of ref and inline must be set")),
        };
        let resource = BTreeMap::from([("name".to_owned(), name.to_owned())]);
        Ok(Self { member: "fromResource", component, resource, has_overwrites: true })
    }

    /// Returns all that the chart depends on, apart from credentials, as a key for the cache.
    pub(super) fn identity(&self, around: &Surroundings) -> Value {
        let context = around.context.as_ref();
        let config = context.and_then(Context::ocm_config_map);
        json!([
            self.member,
            self.component,
            self.resource,
            around.namespace,
            context.map(|context| &context.repository_context),
            config.and_then(|name| around.objects.config_map(name)),
            around.overwrites.as_ref().filter(|_| self.has_overwrites),
        ])
    }

    /// Resolves the component and fetches the resource. Blocks on stores and the network.
    pub(super) fn fetch(&self, around: &Surroundings) -> Result<Found, OperationError> {
        let version = self.version(around)?;
        let resource = version.descriptor.resource_with_identity(&self.resource);
        let resource = resource.map_err(|error| broken(format!("chart.{}: {error}", self.member)))?;
        match in_repository(&resource) {
            Some(repository) => repository.map(Found::InRepository),
            None => self.content(around, &version, &resource).map(Found::Archive),
        }
    }

    fn version(&self, around: &Surroundings) -> Result<ComponentVersion, OperationError> {
        let context = around.context.clone().map(|context| Context {
            component_version_overwrites: context
                .component_version_overwrites
                .filter(|_| self.has_overwrites),
            ..context
        });
        let name = context.as_ref().and_then(|context| context.metadata.name.clone()).unwrap_or_default();
        // The resolution works on Installations, so one is built: the component is then found by
        // the same rules as for a job.
        let installation: Installation = serde_json::from_value(json!({
            "metadata": {"name": "chart", "namespace": around.namespace},
            "spec": {
                "context": name, "componentDescriptor": self.component,
                "blueprint": {"ref": {"resourceName": "chart"}},
            },
        }))
        .map_err(|_| broken(format!("chart.{}: the component is not valid", self.member)))?;
        let resolution = resolve(&Inputs {
            installation: &installation,
            context: context.as_ref(),
            overwrites: around.overwrites.as_ref().filter(|_| self.has_overwrites),
            objects: &around.objects,
            repositories: &around.repositories,
            blueprint: None,
            capabilities: &Capabilities::default(),
            scope: ROOT_SCOPE,
            states: None,
            cache: None,
            offline: None,
            signatures: None,
        });
        let is_known = resolution.error.is_some();
        let told = |message: String| format!("chart.{}: {message}", self.member);
        match resolution.root(&around.repositories) {
            Ok(Some(version)) => Ok(version),
            Ok(None) => Err(broken(told("it does not name a component".to_owned()))),
            // An error of objects in the namespace is final until a user changes them. A component
            // that cannot be fetched may appear later, so that error is retried.
            Err(error) if is_known => Err(broken(told(error.message))),
            Err(error) => {
                Err(OperationError::transient("TemplateChart", Reason::GetHelmChart, told(error.message)))
            }
        }
    }

    fn content(
        &self,
        around: &Surroundings,
        version: &ComponentVersion,
        resource: &Resource,
    ) -> Result<Vec<u8>, OperationError> {
        let told = |message: String| format!("chart.{}: {message}", self.member);
        let (access, blob) = version.open(resource).map_err(|error| {
            let message = told(error.to_string());
            match error {
                ContentError::Repository { source: RepositoryError::NotPermitted { .. }, .. } => {
                    broken(message)
                }
                ContentError::Repository { .. } => {
                    OperationError::transient("TemplateChart", Reason::GetHelmChart, message)
                }
                ContentError::Unsupported { .. }
                | ContentError::Incomplete { .. }
                | ContentError::Unusable { .. } => broken(message),
            }
        })?;
        let is_artifact = is_packed_artifact(&access, &blob.media_type);
        let address = format!("resource {:?}, {access}", resource.name);
        // An artifact may contain other layers beside its chart.
        let limit = if is_artifact { 2 * LARGEST } else { LARGEST };
        let content = around.repositories.allowance.read_all(blob, &address, limit).map_err(ChartError::from);
        let chart = content.and_then(|content| chart_of_content(content, is_artifact, &address, LARGEST));
        chart.map_err(|error| match &error {
            ChartError::NoLayer | ChartError::ManyLayers | ChartError::NoImage(_) => {
                broken(told(format!("{address}: {error}")))
            }
            ChartError::Fetch(RepositoryError::TooLarge { .. } | RepositoryError::Malformed { .. }) => {
                broken(told(error.to_string()))
            }
            _ => unreachable(told(error.to_string()), &error),
        })
    }
}

/// Returns the chart repository that an access of type helm names (`components.md` 6.10).
fn in_repository(resource: &Resource) -> Option<Result<ChartRepository, OperationError>> {
    match Access::parse(resource.access()) {
        Ok(Access::Outside(Outside::Chart(Chart { repository, name, version, .. }))) => {
            Some(Ok(ChartRepository {
                helm_chart_repo_url: repository,
                helm_chart_name: name,
                helm_chart_version: version,
            }))
        }
        Err(AccessError::Unusable { problem }) => {
            Some(Err(broken(format!("access of resource {:?} cannot be used: {problem}", resource.name))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<ComponentChart, OperationError> {
        ComponentChart::of_key(&BASE64.encode(text.as_bytes()))
    }

    #[test]
    fn keys_of_resources() {
        let text =
            "component:\n  name: example.org/shop\n  version: 1.0.0\nresource:\n  name: chart\n  os: linux\n";
        let chart = key(text).unwrap();
        assert_eq!(
            chart.component,
            json!({"ref": {"componentName": "example.org/shop", "version": "1.0.0"}})
        );
        assert_eq!(chart.resource["os"], "linux");
        for (result, part) in [
            (ComponentChart::of_key("%"), "not valid base64"),
            (key("{"), "not valid YAML"),
            (key("component: {name: canary}"), "does not name a component and a resource"),
        ] {
            let message = result.unwrap_err().message;
            assert!(message.contains(part) && !message.contains("canary"), "{message}");
        }
    }

    /// Rule R31 of `helm.md` 1: `fromResource` takes `ref` or `inline`, and not both.
    #[test]
    fn references_to_resources() {
        let reference = json!({"componentName": "example.org/shop", "version": "1.0.0"});
        let chart = ComponentChart::of_resource(&json!({"ref": reference, "resourceName": "chart"})).unwrap();
        assert_eq!((chart.component, chart.has_overwrites), (json!({"ref": reference}), true));
        for (value, part) in [
            (json!({"ref": reference}), "resourceName must be given"),
            (json!({"resourceName": "chart"}), "exactly one of ref and inline"),
            (
                json!({"resourceName": "chart", "ref": reference, "inline": {}}),
                "exactly one of ref and inline",
            ),
        ] {
            let message = ComponentChart::of_resource(&value).unwrap_err().message;
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn accesses_of_chart_repositories() {
        let resource = |access: Value| Resource {
            name: "chart".to_owned(),
            type_name: "helmChart".to_owned(),
            element: json!({"access": access}),
        };
        let found = in_repository(&resource(
            json!({"type": "helm", "helmRepository": "https://example.org/charts", "helmChart": "web:1.2.0"}),
        ));
        let found = found.unwrap().unwrap();
        assert_eq!((found.helm_chart_name.as_str(), found.helm_chart_version.as_str()), ("web", "1.2.0"));
        let incomplete = in_repository(&resource(json!({"type": "helm/v1", "helmChart": "web"})));
        assert!(incomplete.unwrap().unwrap_err().message.contains("needs helmRepository"));
        let registry = json!({"type": "Helm/v1", "helmRepository": "oci://example.org/charts", "helmChart": "web",
            "version": "1.2.0"});
        let found = in_repository(&resource(registry)).unwrap().unwrap();
        assert_eq!(found.helm_chart_repo_url, "oci://example.org/charts");
        assert!(in_repository(&resource(json!({"type": "localBlob"}))).is_none());
    }
}
