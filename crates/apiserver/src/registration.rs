//! Registration at the API server of the cluster: an APIService, and the Service that it leads to.

use groundwork_telemetry::innermost_cause;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceSpec, ServiceReference,
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _};
use serde_json::json;

use crate::storage::Group;

/// Certificates of replicas, and of their former processes, that stay trusted. A replica whose
/// certificate was dropped adds it again within seconds.
const MAX_CERTIFICATES: usize = 16;
const END: &str = "-----END CERTIFICATE-----";
/// Priority of the group and of its version in discovery, as Porch registers them.
const PRIORITIES: (i32, i32) = (1000, 15);

/// Place under which the API server of the cluster finds this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    pub group: Group,
    /// Name and namespace of the Service.
    pub service: String,
    pub namespace: String,
    pub port: u16,
    /// DNS name of this server, for a Service that is made here. `None` if the Service belongs to
    /// pods and exists already.
    pub external_name: Option<String>,
    /// ClusterRole that comes and goes with the installation. The APIService goes with it, or it
    /// would lead nowhere and block the deletion of every namespace.
    pub role: Option<String>,
}

/// Server that serves the kinds of a group in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Registered {
    Nobody,
    /// CustomResourceDefinitions.
    Definitions,
    This,
    /// Another server, at this Service.
    Other(String),
}

/// Reason why a registration failed.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    #[error("cannot {verb} {what}: {problem}")]
    Request { verb: &'static str, what: String, problem: String },
    #[error(
        "the APIService {name} leads to the Service {service}, which serves these kinds: delete it if nothing needs that server any \
         more"
    )]
    Other { name: String, service: String },
    #[error("{0}")]
    Unreachable(String),
    #[error("CustomResourceDefinitions still serve the kinds of {0}")]
    Definitions(String),
}

impl Registration {
    /// Returns the DNS name that the API server expects in the certificate.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }

    fn name(&self) -> String {
        format!("{}.{}", self.group.version, self.group.name)
    }

    fn registered(&self, found: Option<&APIService>) -> Registered {
        let Some(found) = found else { return Registered::Nobody };
        let Some(service) = found.spec.as_ref().and_then(|spec| spec.service.as_ref()) else {
            return Registered::Definitions;
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (name, namespace) = (text(&service.name), text(&service.namespace));
        match (name == self.service) && (namespace == self.namespace) {
            true => Registered::This,
            false => Registered::Other(format!("{namespace}/{name}")),
        }
    }

    /// Registers this server, and has its certificate trusted if it is given.
    ///
    /// # Errors
    ///
    /// Another server serves the kinds, or the API server refuses the registration.
    pub async fn ensure(&self, client: &Client, certificate: Option<&str>) -> Result<(), RegistrationError> {
        if let Some(host) = &self.external_name {
            self.ensure_service(client, host).await?;
        }
        let found = self.read(client).await?;
        match self.registered(found.as_ref()) {
            Registered::Other(service) => {
                return Err(RegistrationError::Other { name: self.name(), service });
            }
            Registered::Definitions => {
                return Err(RegistrationError::Definitions(self.group.name.to_owned()));
            }
            Registered::Nobody | Registered::This => {}
        }
        let api = Api::<APIService>::all(client.clone());
        let what = format!("the APIService {}", self.name());
        let failed = |verb: &'static str| {
            let what = what.clone();
            move |error: kube::Error| RegistrationError::Request {
                verb,
                what,
                problem: innermost_cause(&error),
            }
        };
        let Some(mut present) = found else {
            let mut new = APIService { spec: Some(self.spec()), ..APIService::default() };
            new.metadata.name = Some(self.name());
            new.metadata.owner_references = self.owner(client).await.map(|owner| vec![owner]);
            trust(&mut new, certificate);
            return match api.create(&PostParams::default(), &new).await {
                Ok(_) => Ok(()),
                // Another replica was faster; the next look adds the certificate.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                Err(error) => Err(failed("create")(error)),
            };
        };
        let mut has_changed = trust(&mut present, certificate);
        let spec = present.spec.get_or_insert_default();
        if self.external_name.is_some() && spec.service != self.spec().service {
            spec.service = self.spec().service;
            has_changed = true;
        }
        if !has_changed {
            return self.obstacle(&present).map_or(Ok(()), |why| Err(RegistrationError::Unreachable(why)));
        }
        // The resourceVersion that was read keeps replicas from overwriting each other.
        match api.replace(&self.name(), &PostParams::default(), &present).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
            Err(error) => Err(failed("update")(error)),
        }
    }

    fn spec(&self) -> APIServiceSpec {
        APIServiceSpec {
            group: Some(self.group.name.to_owned()),
            version: Some(self.group.version.to_owned()),
            group_priority_minimum: PRIORITIES.0,
            version_priority: PRIORITIES.1,
            service: Some(ServiceReference {
                name: Some(self.service.clone()),
                namespace: Some(self.namespace.clone()),
                port: Some(self.port.into()),
            }),
            ..APIServiceSpec::default()
        }
    }

    async fn read(&self, client: &Client) -> Result<Option<APIService>, RegistrationError> {
        let found = Api::<APIService>::all(client.clone()).get_opt(&self.name()).await;
        found.map_err(|error| {
            let what = format!("the APIService {}", self.name());
            RegistrationError::Request { verb: "get", what, problem: innermost_cause(&error) }
        })
    }

    /// Returns the owner of the APIService, if the role exists.
    async fn owner(&self, client: &Client) -> Option<OwnerReference> {
        let role = Api::<ClusterRole>::all(client.clone()).get_opt(self.role.as_deref()?).await.ok()??;
        role.owner_ref(&())
    }

    /// Removes the registration of a server outside of pods, which nobody starts again in its
    /// place. A failure is logged: the process ends.
    pub async fn withdraw(&self, client: &Client) {
        let Ok(Some(found)) = self.read(client).await else { return };
        // Another process may have registered itself in the meantime.
        let is_own =
            found.spec.as_ref().and_then(|spec| spec.service.as_ref()) == self.spec().service.as_ref();
        if self.external_name.is_none() || !is_own {
            return;
        }
        let api = Api::<APIService>::all(client.clone());
        if let Err(error) = api.delete(&self.name(), &DeleteParams::default()).await {
            tracing::warn!(name = self.name(), error = innermost_cause(&error), "the APIService stays");
        }
    }

    /// Returns the reason why the API server cannot reach this server, if it says so.
    fn obstacle(&self, found: &APIService) -> Option<String> {
        let host = self.external_name.as_ref()?;
        let conditions = found.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let away =
            conditions.find(|condition| condition.type_ == "Available" && condition.status != "True")?;
        let why = away.message.clone().unwrap_or_default();
        Some(format!(
            "the API server of the cluster does not reach this process at {host}:{} ({why})",
            self.port
        ))
    }

    /// Makes the Service that leads to a name outside of the cluster.
    async fn ensure_service(&self, client: &Client, host: &str) -> Result<(), RegistrationError> {
        let api = Api::<Service>::namespaced(client.clone(), &self.namespace);
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": self.service, "namespace": self.namespace},
            "spec": {"type": "ExternalName", "externalName": host},
        });
        let parameters = PatchParams::apply("groundwork").force();
        let applied = api.patch(&self.service, &parameters, &Patch::Apply(&service)).await;
        applied.map(drop).map_err(|error| {
            let what = format!("the Service {}/{}", self.namespace, self.service);
            RegistrationError::Request { verb: "apply", what, problem: innermost_cause(&error) }
        })
    }
}

/// Adds a certificate to those that the API server trusts, and reports whether it was missing.
fn trust(service: &mut APIService, certificate: Option<&str>) -> bool {
    let Some(certificate) = certificate.map(str::trim) else { return false };
    let spec = service.spec.get_or_insert_default();
    let present = spec.ca_bundle.take().map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned());
    let present = present.unwrap_or_default();
    let mut trusted: Vec<String> = present
        .split_inclusive(END)
        .map(|one| one.trim().to_owned())
        .filter(|one| one.ends_with(END))
        .collect();
    let is_missing = trusted.iter().all(|one| one != certificate);
    if is_missing {
        trusted.push(certificate.to_owned());
    }
    let kept = trusted.len().saturating_sub(MAX_CERTIFICATES);
    let bundle = trusted.split_off(kept).join("\n") + "\n";
    spec.ca_bundle = Some(ByteString(bundle.into_bytes()));
    is_missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration() -> Registration {
        Registration {
            group: Group { name: "example.org", version: "v1" },
            service: "api".to_owned(),
            namespace: "system".to_owned(),
            port: 443,
            external_name: None,
            role: None,
        }
    }

    #[test]
    fn servers() {
        let of = |service: serde_json::Value| -> APIService {
            serde_json::from_value(json!({"metadata": {"name": "v1.example.org"}, "spec": {
                "groupPriorityMinimum": 1, "versionPriority": 1, "service": service}}))
            .unwrap()
        };
        let own = registration();
        assert_eq!(own.registered(None), Registered::Nobody);
        assert_eq!(own.registered(Some(&of(json!(null)))), Registered::Definitions);
        assert_eq!(
            own.registered(Some(&of(json!({"name": "api", "namespace": "system"})))),
            Registered::This
        );
        let other = own.registered(Some(&of(json!({"name": "api", "namespace": "porch-system"}))));
        assert_eq!(other, Registered::Other("porch-system/api".to_owned()));
        assert_eq!((own.host(), own.name()), ("api.system.svc".to_owned(), "v1.example.org".to_owned()));
    }

    #[test]
    fn certificates_are_added() {
        let mut service = APIService::default();
        let certificate = |number: usize| format!("-----BEGIN CERTIFICATE-----\n{number}\n{END}\n");
        assert!(!trust(&mut service, None));
        for number in 0..MAX_CERTIFICATES + 2 {
            assert!(trust(&mut service, Some(&certificate(number))));
            assert!(!trust(&mut service, Some(&certificate(number))), "it is there already");
        }
        let bundle =
            String::from_utf8(service.spec.as_ref().unwrap().ca_bundle.as_ref().unwrap().0.clone()).unwrap();
        assert_eq!(bundle.matches(END).count(), MAX_CERTIFICATES);
        assert!(!bundle.contains("\n1\n") && bundle.contains("\n2\n"));
        assert!(trust(&mut service, Some(&certificate(0))), "a dropped one is added again");
    }
}
