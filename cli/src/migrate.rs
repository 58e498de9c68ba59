//! `groundwork migrate`: finds leftovers of the systems that Groundwork takes over from, and uses
//! of their features that Groundwork lacks.

mod findings;

use clap::{Args, Subcommand};
use futures::future::BoxFuture;
use groundwork_api::{Context, DeployItem, Installation, PackageVariant, PackageVariantSet, Repository};
use groundwork_controller::originals_at_work;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, Cluster, next_page};
use crate::namespace::namespace;
use crate::stdout;
use crate::terminal::shown;
use findings::{Finding, Webhooks};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Label selector of the Secrets of Helm releases whose last step has not ended.
const PENDING: &str = "owner=helm,status in (pending-install,pending-upgrade,pending-rollback)";

#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find obstacles to a migration, with the commands that remove them.
    ///
    /// Reads the cluster of the current kube context and changes nothing. Exit code 0: nothing was
    /// found. 1: something was found. 2: a part of the cluster cannot be read.
    Check(CheckArguments),
}

#[derive(Debug, Args)]
struct CheckArguments {
    /// Look at the Installations and packages of one namespace only [default: all].
    #[arg(short, long, value_parser = namespace)]
    namespace: Option<String>,
}

pub(crate) fn run(arguments: &MigrateArguments) -> Ending {
    let Command::Check(arguments) = &arguments.command;
    live::run(async || {
        let cluster = Cluster::connect("migrate check").await?;
        let look = Look { client: cluster.client, namespace: arguments.namespace.clone() };
        let looks: [(&str, Looking<'_>); 7] = [
            ("leader leases", Box::pin(look.originals())),
            ("webhooks", Box::pin(look.webhooks())),
            ("API services", Box::pin(look.api_services())),
            ("kinds", Box::pin(look.kinds())),
            ("Installations", Box::pin(look.landscape())),
            ("Helm releases", Box::pin(look.releases())),
            ("package variants", Box::pin(look.packages())),
        ];
        let (mut findings, mut is_whole) = (Vec::new(), true);
        for (what, looked) in looks {
            match looked.await {
                Ok(found) => findings.extend(found),
                // A cluster that never had one of the systems does not serve its kinds.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    is_whole = false;
                    let problem = groundwork_telemetry::innermost_cause(&error);
                    diagnostic::print(&[Diagnostic::error(format!("cannot look at {what}: {problem}"))]);
                }
            }
        }
        let written = stdout::write(&text(&findings, is_whole));
        Ok(match written {
            Ending::Rendered if !is_whole => Ending::Unusable,
            Ending::Rendered if !findings.is_empty() => Ending::Failed,
            written => written,
        })
    })
}

fn text(findings: &[Finding], is_whole: bool) -> String {
    if findings.is_empty() {
        return if is_whole { "nothing stands in the way\n".to_owned() } else { String::new() };
    }
    let mut text = String::new();
    for (index, Finding { problem, steps }) in findings.iter().enumerate() {
        text.push_str(&format!("{}. {}\n", index + 1, shown(problem)));
        for step in steps {
            text.push_str(&format!("       {}\n", shown(step)));
        }
    }
    text
}

/// Look at a part of the cluster.
type Looking<'a> = BoxFuture<'a, Result<Vec<Finding>, kube::Error>>;

/// Looks at the cluster.
struct Look {
    client: Client,
    namespace: Option<String>,
}

impl Look {
    async fn originals(&self) -> Result<Vec<Finding>, kube::Error> {
        Ok(originals_at_work(&self.client).await?.iter().map(findings::original).collect())
    }

    async fn webhooks(&self) -> Result<Vec<Finding>, kube::Error> {
        let validating = all(Api::<ValidatingWebhookConfiguration>::all(self.client.clone()), "").await?;
        let mutating = all(Api::<MutatingWebhookConfiguration>::all(self.client.clone()), "").await?;
        let mut found = Vec::new();
        for webhooks in validating.iter().map(Webhooks::from).chain(mutating.iter().map(Webhooks::from)) {
            if let Some((namespace, name)) = webhooks.service() {
                let services = Api::<Service>::namespaced(self.client.clone(), namespace);
                let is_there = services.get_metadata_opt(name).await?.is_some();
                found.extend(webhooks.finding(is_there));
            }
        }
        Ok(found)
    }

    async fn api_services(&self) -> Result<Vec<Finding>, kube::Error> {
        let found = Api::<APIService>::all(self.client.clone()).get_opt(findings::API_SERVICE).await?;
        Ok(found.as_ref().and_then(findings::api_service).into_iter().collect())
    }

    /// Looks for objects of Landscaper's kinds that Groundwork does not have.
    async fn kinds(&self) -> Result<Vec<Finding>, kube::Error> {
        let definitions = all(Api::<CustomResourceDefinition>::all(self.client.clone()), "").await?;
        let mut found = Vec::new();
        for definition in definitions.iter().filter(|definition| findings::is_foreign(definition)) {
            let spec = &definition.spec;
            let version = spec.versions.iter().find(|version| version.served);
            let Some(version) = version else { continue };
            let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
            let objects = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
            let objects = objects.list_metadata(&ListParams::default().limit(PAGE)).await?;
            found.extend(findings::foreign(definition, objects.items.len()));
        }
        Ok(found)
    }

    async fn landscape(&self) -> Result<Vec<Finding>, kube::Error> {
        let installations: Vec<Installation> = all(self.api(), "").await?;
        let items: Vec<DeployItem> = all(self.api(), "").await?;
        let mut found: Vec<Finding> = findings::jobs(&installations).into_iter().collect();
        found.extend(findings::items(&items));
        let contexts: Vec<Context> = all(self.api(), "").await?;
        found.extend(findings::component_repositories(&contexts, &installations));
        let repositories: Vec<Repository> = match all(self.api(), "").await {
            // A cluster without Porch and packages does not serve the kind.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            read => read?,
        };
        found.extend(findings::fields(&installations, &items, &repositories));
        Ok(found)
    }

    async fn releases(&self) -> Result<Vec<Finding>, kube::Error> {
        // Only the labels are needed; the records of releases are large, and secret.
        let secrets: Api<Secret> = match &self.namespace {
            None => Api::all(self.client.clone()),
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
        };
        let mut parameters = ListParams::default().labels(PENDING).limit(PAGE);
        let mut found: Vec<PartialObjectMeta<Secret>> = Vec::new();
        loop {
            let page = secrets.list_metadata(&parameters).await?;
            found.extend(page.items);
            match next_page(&parameters, page.metadata.continue_) {
                Ok(Some(next)) => parameters = next,
                Ok(None) | Err(_) => break,
            }
        }
        let releases = found.iter().map(|secret| {
            let label = |name: &str| secret.labels().get(name).cloned().unwrap_or_default();
            (secret.namespace().unwrap_or_default(), label("name"), label("status"))
        });
        Ok(findings::releases(releases))
    }

    async fn packages(&self) -> Result<Vec<Finding>, kube::Error> {
        let variants: Vec<PackageVariant> = all(self.api(), "").await?;
        let sets: Vec<PackageVariantSet> = all(self.api(), "").await?;
        Ok(findings::policies(&variants, &sets).into_iter().collect())
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        match &self.namespace {
            None => Api::all(self.client.clone()),
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
        }
    }
}

/// Lists all objects, page by page.
async fn all<K>(api: Api<K>, labels: &str) -> Result<Vec<K>, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut parameters = ListParams::default().labels(labels).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&parameters).await?;
        found.extend(page.items);
        match next_page(&parameters, page.metadata.continue_) {
            Ok(Some(next)) => parameters = next,
            Ok(None) | Err(_) => return Ok(found),
        }
    }
}
