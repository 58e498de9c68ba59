//! Prepares a new cluster: applies CRDs, accounts and permissions of `k8s/`, and writes the tokens
//! of the services.

use std::time::Duration;

use groundwork_api::crds;
use groundwork_telemetry::innermost_cause;
use groundwork_yaml::{Node, Options};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Client, Config, ResourceExt as _};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::files::{self, Owner};
use crate::state::{self, ADMIN, State};
use crate::{BootstrapError, ClusterArguments, NAMESPACE, SERVICES};

/// Field manager of `kubectl apply --server-side`, so that a user who applies other versions of the
/// same files by hand gets no conflict.
const MANAGER: &str = "kubectl";
const PAUSE: Duration = Duration::from_millis(200);
/// Time until the API server serves a new kind.
const SERVED: Duration = Duration::from_secs(30);
/// Seconds that a token is valid. Tokens are renewed at each start of the trial cluster, and a
/// cluster runs for less than a year.
const TOKEN: i64 = 365 * 24 * 3600;

/// Pairs of services: the caller, and the service that it calls.
const CALLS: [(&str, &str); 6] = [
    ("renderer", "resolver"),
    ("renderer", "deployer"),
    ("variant", "watcher"),
    ("console", "resolver"),
    ("console", "renderer"),
    ("console", "variant"),
];

/// Accounts, permissions and policies; the test of this module compares the list with the folder.
const MANIFESTS: [(&str, &str); 17] = [
    ("base/namespace.yaml", include_str!("../../../k8s/base/namespace.yaml")),
    ("base/service-accounts.yaml", include_str!("../../../k8s/base/service-accounts.yaml")),
    ("base/watcher.yaml", include_str!("../../../k8s/base/watcher.yaml")),
    ("base/resolver.yaml", include_str!("../../../k8s/base/resolver.yaml")),
    ("base/renderer.yaml", include_str!("../../../k8s/base/renderer.yaml")),
    ("base/variant.yaml", include_str!("../../../k8s/base/variant.yaml")),
    ("admission/deployitem-type.yaml", include_str!("../../../k8s/admission/deployitem-type.yaml")),
    ("admission/installation-spec.yaml", include_str!("../../../k8s/admission/installation-spec.yaml")),
    ("admission/service-accounts.yaml", include_str!("../../../k8s/admission/service-accounts.yaml")),
    (
        "components/mock-deployer/account.yaml",
        include_str!("../../../k8s/components/mock-deployer/account.yaml"),
    ),
    (
        "components/mock-deployer/rights.yaml",
        include_str!("../../../k8s/components/mock-deployer/rights.yaml"),
    ),
    ("components/console/account.yaml", include_str!("../../../k8s/components/console/account.yaml")),
    ("components/console/rights.yaml", include_str!("../../../k8s/components/console/rights.yaml")),
    (
        "components/helm-deployer/contexts.yaml",
        include_str!("../../../k8s/components/helm-deployer/contexts.yaml"),
    ),
    ("components/target-sync/account.yaml", include_str!("../../../k8s/components/target-sync/account.yaml")),
    ("components/target-sync/rights.yaml", include_str!("../../../k8s/components/target-sync/rights.yaml")),
    (
        "components/target-sync-with-deployer/binding.yaml",
        include_str!("../../../k8s/components/target-sync-with-deployer/binding.yaml"),
    ),
];

/// Additional manifests of a package store.
const PACKAGE_STORE: [(&str, &str); 3] = [
    (
        "components/package-store/rights.yaml",
        include_str!("../../../k8s/components/package-store/rights.yaml"),
    ),
    (
        "components/package-store/admission.yaml",
        include_str!("../../../k8s/components/package-store/admission.yaml"),
    ),
    (
        "components/package-store-outside/rights.yaml",
        include_str!("../../../k8s/components/package-store-outside/rights.yaml"),
    ),
];

/// Waits for the API server, applies the manifests, and writes the tokens.
pub(crate) fn run(arguments: &ClusterArguments) -> Result<(), BootstrapError> {
    let state = State::load(&arguments.folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BootstrapError::Runtime)?;
    runtime.block_on(async {
        let client = client(&state, arguments)?;
        until_up(&client, arguments).await?;
        apply_all(&client, arguments.package_store).await?;
        let owner = Owner { user: arguments.user, group: arguments.user };
        for service in SERVICES {
            let token = token(&client, service, None).await?;
            files::write(&arguments.folder.join(service).join("token"), &token, owner)?;
        }
        for (service, called) in CALLS {
            let token = token(&client, service, Some(called)).await?;
            files::write(&arguments.folder.join(service).join(format!("{called}-token")), &token, owner)?;
        }
        println!("CRDs, accounts, rights and tokens are in place");
        Ok(())
    })
}

fn client(state: &State, arguments: &ClusterArguments) -> Result<Client, BootstrapError> {
    let unusable = |reason: String| BootstrapError::Manifest { what: "--api-server", reason };
    let url = arguments.api_server.parse().map_err(|error| unusable(format!("{error}")))?;
    let mut config = Config::new(url);
    let blocks = certificates(&state.authority);
    config.root_cert = Some(blocks);
    config.auth_info.token = Some(state.token(ADMIN).to_owned().into());
    config.read_timeout = Some(Duration::from_secs(15));
    groundwork_client::connect(config).map_err(|error| unusable(error.to_string()))
}

/// Returns the certificates of a PEM text, in DER.
fn certificates(pem: &str) -> Vec<Vec<u8>> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    data_encoding::BASE64.decode(body.as_bytes()).into_iter().collect()
}

#[expect(clippy::disallowed_methods, reason = "the API server of the trial cluster is our own")]
async fn until_up(client: &Client, arguments: &ClusterArguments) -> Result<(), BootstrapError> {
    let (url, start) = (&arguments.api_server, Instant::now());
    loop {
        let request = http::Request::get("/readyz").body(Vec::new());
        let reason = match request {
            Ok(request) => match client.request_text(request).await {
                Ok(_) => return Ok(()),
                // Waiting cannot help: the server is up, but has other credentials.
                Err(kube::Error::Api(status)) if status.code == 401 => {
                    let path = state::path(&arguments.folder);
                    return Err(BootstrapError::NotAccepted { url: url.clone(), path });
                }
                Err(error) => innermost_cause(&error),
            },
            Err(error) => error.to_string(),
        };
        if start.elapsed() >= Duration::from_secs(arguments.limit) {
            return Err(BootstrapError::NotUp { url: url.clone(), seconds: arguments.limit, reason });
        }
        sleep(PAUSE).await;
    }
}

async fn apply_all(client: &Client, has_package_store: bool) -> Result<(), BootstrapError> {
    let kinds = crds();
    for kind in &kinds {
        let value = serde_json::to_value(kind)
            .map_err(|error| BootstrapError::Manifest { what: "a CRD", reason: error.to_string() })?;
        apply(client, value).await?;
    }
    let of_store = PACKAGE_STORE.into_iter().filter(|_| has_package_store);
    for (what, text) in MANIFESTS.into_iter().chain(of_store) {
        for document in documents(what, text)? {
            apply(client, document).await?;
        }
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in &kinds {
        until_served(&api, &kind.name_any()).await?;
    }
    Ok(())
}

fn documents(what: &'static str, text: &str) -> Result<Vec<Value>, BootstrapError> {
    let nodes = groundwork_yaml::parse_all(text, Options::default());
    let nodes = nodes.map_err(|error| BootstrapError::Manifest { what, reason: error.to_string() })?;
    Ok(nodes.iter().map(Node::to_value).filter(|document| !document.is_null()).collect())
}

async fn apply(client: &Client, document: Value) -> Result<(), BootstrapError> {
    let text =
        |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, name, namespace) = (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
    let (group, version) = match text("/apiVersion").split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text("/apiVersion")),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind { group, version, kind: kind.clone() });
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), &namespace, &resource)
    };
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch(&name, &parameters, &Patch::Apply(document)).await.map(drop).map_err(|source| {
        BootstrapError::Refused { what: format!("{kind} {name}"), source: Box::new(source) }
    })
}

async fn until_served(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), BootstrapError> {
    let start = Instant::now();
    loop {
        let kind = api.get(name).await;
        let kind = kind
            .map_err(|source| BootstrapError::Refused { what: name.to_owned(), source: Box::new(source) })?;
        let conditions = kind.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Ok(());
        }
        if start.elapsed() >= SERVED {
            return Err(BootstrapError::NotServed { what: name.to_owned(), seconds: SERVED.as_secs() });
        }
        sleep(PAUSE).await;
    }
}

/// Returns a token for the API server, or one that only another service accepts.
async fn token(client: &Client, service: &str, called: Option<&str>) -> Result<String, BootstrapError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let audiences = called.map(|called| vec![groundwork_grpc::audience(called)]);
    let spec = TokenRequestSpec { audiences, expiration_seconds: Some(TOKEN), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let name = format!("groundwork-{service}");
    let answer = accounts.create_token_request(&name, &PostParams::default(), &request).await;
    let answer = answer.map_err(|source| BootstrapError::Refused {
        what: format!("a token for {name}"),
        source: Box::new(source),
    })?;
    let token = answer.status.and_then(|status| status.token);
    token.ok_or(BootstrapError::Manifest {
        what: "the answer to a token request",
        reason: "it contains no token".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_the_folders_is_applied() {
        let k8s = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s");
        let mut found = Vec::new();
        let components = [
            "components/console",
            "components/mock-deployer",
            "components/helm-deployer",
            "components/target-sync",
            "components/target-sync-with-deployer",
            "components/package-store",
            "components/package-store-outside",
        ];
        for folder in ["base", "admission"].into_iter().chain(components) {
            for entry in std::fs::read_dir(k8s.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                // compose.yaml starts the programs and has its own networks, so these files are not
                // applied.
                let others = ["kustomization.yaml", "workload.yaml", "network.yaml", "service.yaml"];
                if name.ends_with(".yaml") && !others.contains(&name.as_str()) {
                    found.push(format!("{folder}/{name}"));
                }
            }
        }
        found.sort();
        let all = || MANIFESTS.into_iter().chain(PACKAGE_STORE);
        let mut applied: Vec<String> = all().map(|(name, _)| name.to_owned()).collect();
        applied.sort();
        assert_eq!(applied, found);
        for (name, text) in all() {
            assert!(!documents(name, text).unwrap().is_empty(), "{name}");
        }
    }
}
