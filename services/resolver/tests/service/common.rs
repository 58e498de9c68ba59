//! A resolver in this process, with a real API server that all tests of the binary share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use groundwork_api::{Installation, Kind as Typed, Time, WATCHED, crds};
use groundwork_bus::{Bus, Change, Event, Kind, ObjectId, Record, Snapshot, SyncMarker};
use groundwork_controller::{Casualties, ProcessContext};
use groundwork_grpc::{Channel, TokenSource, connect, with_limits};
use groundwork_proto::component::v1::{Json, ObjectName, Reference};
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::{ResolveRequest, ResolveResponse};
use groundwork_resolver::{Arguments, Resolver, Settings};
use groundwork_sandbox::WorkerArguments;
use groundwork_telemetry::Telemetry;
use groundwork_testkit::{ControlPlane, ControlPlaneOptions, Server, servers_or_skip};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, NamespaceResourceScope};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tonic::Status;

static CONTROL_PLANE: OnceCell<ControlPlane> = OnceCell::const_new();

const WAIT: Duration = Duration::from_secs(30);

/// A resolver and a namespace for one test.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) bus: Bus,
    pub(crate) url: String,
    pub(crate) telemetry: Telemetry,
    /// Token for calls of [`World::resolver`].
    pub(crate) token: TokenSource,
}

async fn control_plane() -> ControlPlane {
    let plane = ControlPlane::start(ControlPlaneOptions::default()).await.unwrap();
    let api = Api::<CustomResourceDefinition>::all(plane.client().await.unwrap());
    for crd in crds() {
        api.create(&PostParams::default(), &crd).await.unwrap();
    }
    for crd in crds() {
        until(async || {
            let status = api.get(&crd.name_any()).await.unwrap().status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            conditions
                .iter()
                .any(|found| found.type_ == "Established" && found.status == "True")
                .then_some(())
        })
        .await;
    }
    plane
}

/// Waits until `look` returns a value.
pub(crate) async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WAIT, wait).await.expect("in time")
}

pub(crate) fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/echo-server")
}

pub(crate) fn with_repositories(path: PathBuf) -> Arguments {
    let settings = Settings { repositories: Some(path), ..Settings::default() };
    Arguments { settings, ..Arguments::default() }
}

/// Sets the program of the workers: the binary of a test cannot be one.
fn workers(given: WorkerArguments) -> WorkerArguments {
    WorkerArguments { worker_program: Some(env!("CARGO_BIN_EXE_groundwork-resolver")), ..given }
}

/// Returns the objects in a YAML text.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n").map(|text| groundwork_yaml::from_str(text).unwrap());
    documents.filter(|value| !value.is_null()).collect()
}

impl World {
    /// Starts a resolver; `None` with a printed note if the servers are missing.
    pub(crate) async fn start(namespace: &str, arguments: Arguments) -> Option<Self> {
        if !servers_or_skip(&[Server::Etcd, Server::KubeApiserver]) {
            return None;
        }
        let plane = CONTROL_PLANE.get_or_init(control_plane).await;
        plane.create_namespace(namespace).await.unwrap();
        let client = plane.client().await.unwrap();
        let (bus, telemetry) = (Bus::in_process(), Telemetry::silent("resolver"));
        bus.ensure_stream().await.unwrap();
        let arguments = Arguments { workers: workers(arguments.workers), ..arguments };
        let context = ProcessContext {
            bus: bus.clone(),
            client: client.clone(),
            telemetry: telemetry.clone(),
            casualties: Casualties::default(),
        };
        let resolver = Resolver::start(arguments, context).await.unwrap();
        let (url, token) = (resolver.url(), resolver.token_of_this_process());
        tokio::spawn(resolver.run());
        Some(Self { client, namespace: namespace.to_owned(), bus, url, telemetry, token })
    }

    pub(crate) fn caller(&self, token: TokenSource) -> ResolverClient<Channel> {
        with_limits!(ResolverClient::new(connect(&self.url, None, token).unwrap()))
    }

    pub(crate) fn resolver(&self) -> ResolverClient<Channel> {
        self.caller(self.token.clone())
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies an object in the namespace of the test.
    pub(crate) async fn apply(&self, mut object: Value) -> DynamicObject {
        object["metadata"]["namespace"] = json!(self.namespace);
        let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), object["apiVersion"].as_str().unwrap().to_owned()),
        };
        let gvk = GroupVersionKind::gvk(&group, &version, object["kind"].as_str().unwrap());
        let plural = WATCHED.iter().find(|kind| kind.kind == gvk.kind).map(|kind| kind.plural);
        let plural = plural.map_or_else(|| format!("{}s", gvk.kind.to_lowercase()), str::to_owned);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        api.patch(&name, &PatchParams::apply("user").force(), &Patch::Apply(object)).await.unwrap()
    }

    /// Applies Landscaper objects; `kind`, `name` and the other fields as YAML.
    pub(crate) async fn apply_text(&self, text: &str) {
        for mut object in documents(text) {
            object["apiVersion"] = json!("landscaper.gardener.cloud/v1alpha1");
            self.apply(object).await;
        }
    }

    pub(crate) async fn installation(&self, name: &str) -> Installation {
        self.api().get(name).await.unwrap()
    }

    /// Starts or ends a job of an Installation, as the renderer does.
    pub(crate) async fn set_jobs(&self, name: &str, job: &str, finished: Option<&str>) -> Installation {
        let mut installation = self.installation(name).await;
        let generation = installation.metadata.generation.unwrap();
        let status = installation.status.get_or_insert_default();
        status.job_id = Some(job.to_owned());
        if let Some(finished) = finished {
            status.job_id_finished = Some(finished.to_owned());
            status.observed_generation = generation;
        }
        let parameters =
            PostParams { field_manager: Some("groundwork-renderer".into()), ..PostParams::default() };
        self.api().replace_status(name, &parameters, &installation).await.unwrap()
    }

    pub(crate) fn object(&self, name: &str) -> Option<ObjectName> {
        Some(ObjectName { namespace: self.namespace.clone(), name: name.to_owned() })
    }

    pub(crate) async fn resolve(&self, name: &str, job: &str) -> Result<ResolveResponse, Status> {
        let request = ResolveRequest { installation: self.object(name), job_id: job.to_owned() };
        self.resolver().resolve(request).await.map(tonic::Response::into_inner)
    }

    /// Starts a job and resolves it.
    pub(crate) async fn run_job(&self, name: &str, job: &str) -> ResolveResponse {
        self.set_jobs(name, job, None).await;
        self.resolve(name, job).await.unwrap()
    }

    /// Returns a token of a new account with the given rules.
    pub(crate) async fn account(&self, name: &str, rules: &Value) -> TokenSource {
        let rules = rules.clone();
        self.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})).await;
        let group = "rbac.authorization.k8s.io";
        let metadata = json!({"name": name});
        self.apply(json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": rules})).await;
        self.apply(json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}],
        }))
        .await;
        let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let accounts = self.api::<ServiceAccount>();
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        TokenSource::fixed(answer.status.unwrap().token.unwrap())
    }

    // === the part of the watcher: what the API server has, on the bus ===

    pub(crate) async fn publish_markers(&self) {
        for watched in &WATCHED {
            let marker = SyncMarker {
                kind: Kind::new(watched.group, watched.plural),
                namespace: None,
                resource_version: "1".into(),
                count: 0,
            };
            self.bus.publish(&Record::Synced(marker), None).await.unwrap();
        }
    }

    pub(crate) async fn publish<K>(&self, name: &str)
    where
        K: Typed + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
    {
        let object: K = self.api().get(name).await.unwrap();
        self.publish_value(&serde_json::to_value(&object).unwrap(), K::KIND).await;
    }

    pub(crate) async fn publish_value(&self, object: &Value, kind: &str) {
        let watched = WATCHED.iter().find(|watched| watched.kind == kind).unwrap();
        let metadata = &object["metadata"];
        let event = Event {
            object: ObjectId::new(
                Kind::new(watched.group, watched.plural),
                metadata["namespace"].as_str(),
                metadata["name"].as_str().unwrap_or_default(),
            ),
            change: Change::Applied(Snapshot::new(
                serde_json::from_value(metadata.clone()).unwrap(),
                watched.fields,
                object,
            )),
            trace: None,
            replay: None,
            time: jiff::Timestamp::now(),
        };
        self.bus.publish(&Record::Object(event), None).await.unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.telemetry.shutdown.request();
    }
}

/// Returns status, reason and message of a condition.
pub(crate) fn condition(installation: &Installation, type_name: &str) -> Option<(String, String, String)> {
    let conditions = &installation.status.as_ref()?.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == type_name)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

pub(crate) fn reference(context: &Value, name: &str, version: &str) -> Option<Reference> {
    let repository_context = Some(Json { text: context.to_string() });
    Some(Reference { repository_context, name: name.to_owned(), version: version.to_owned() })
}

/// Returns the field managers that own a condition.
pub(crate) fn owners(installation: &Installation, type_name: &str) -> Vec<String> {
    let key = format!("k:{{\"type\":\"{type_name}\"}}");
    let fields = installation.managed_fields().iter();
    let owning = fields.filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields["f:status"]["f:conditions"].get(&key).is_some())
    });
    owning.map(|entry| entry.manager.clone().unwrap_or_default()).collect()
}

pub(crate) fn some_time() -> Time {
    serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap()
}
