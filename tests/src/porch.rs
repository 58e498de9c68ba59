//! What stands in for a Porch server, whose own programs tests cannot have: its aggregated API, written from `packagevariants.md` 6.13 with the
//! quirks that are told there. It says nothing about a real Porch server that the chapter does not say.
//!
//! It is registered at a real API server, so requests come through aggregation, with its authentication and its rights. Packages are kept in
//! memory; commits are made up, and functions of packages are not run, but one that always fails.

mod rules;
mod server;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use rules::Stored;

/// The image of the function that fails.
pub const FAILING: &str = "example.org/always-fails:v1";

const GROUP: &str = "porch.kpt.dev";
const VERSION: &str = "v1alpha1";
/// Changes that a watch may be behind.
const BACKLOG: usize = 1024;

/// The server; it lives to the end of the process.
#[derive(Debug, Clone)]
pub struct PorchServer {
    state: Arc<State>,
    port: u16,
}

/// Requests that go wrong.
#[derive(Debug, Clone, Default)]
pub struct Fault {
    pub namespace: String,
    pub method: &'static str,
    /// End of the path.
    pub path: String,
    pub status: u16,
    pub message: String,
    /// It is done all the same, and only its answer is lost.
    pub is_done: bool,
    /// All such requests go wrong until [`PorchServer::mend`], and not only the next one.
    pub is_lasting: bool,
}

/// A package revision by its namespace and name.
type Place = (String, String);

#[derive(Debug)]
struct State {
    inner: Mutex<Inner>,
    /// Kind of the event, and the object.
    changes: broadcast::Sender<(&'static str, Value)>,
}

#[derive(Debug, Default)]
struct Inner {
    revisions: BTreeMap<Place, Stored>,
    /// Address, and whether it is for deployments, by namespace and name.
    repositories: BTreeMap<Place, (String, bool)>,
    commits: u64,
    faults: Vec<Fault>,
    /// Method, path and body of each write.
    writes: Vec<(String, String, Value)>,
}

impl PorchServer {
    /// Starts the server on a thread of its own: it serves several tests, each of which has a runtime.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start() -> Result<Self> {
        let state = Arc::new(State { inner: Mutex::default(), changes: broadcast::channel(BACKLOG).0 });
        let port = server::start(Arc::clone(&state))?;
        Ok(Self { state, port })
    }

    /// Lets an API server ask this one for the kinds of the group, and waits until it does.
    ///
    /// # Errors
    /// The API server does not accept it.
    #[expect(clippy::disallowed_methods, reason = "the API server is one that the test has started")]
    pub async fn register(&self, client: &Client) -> Result<()> {
        let parameters = PatchParams::apply("tests").force();
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "porch-stand-in", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let services = Api::<Service>::namespaced(client.clone(), "default");
        services.patch("porch-stand-in", &parameters, &Patch::Apply(&service)).await?;
        let name = format!("{VERSION}.{GROUP}");
        let registration = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
            "spec": {
                "group": GROUP, "version": VERSION, "groupPriorityMinimum": 1000, "versionPriority": 15,
                "insecureSkipTLSVerify": true,
                "service": {"namespace": "default", "name": "porch-stand-in", "port": self.port},
            },
        });
        let registrations = Api::<APIService>::all(client.clone());
        registrations.patch(&name, &parameters, &Patch::Apply(&registration)).await?;
        crate::wait_for("the stand-in is asked", std::time::Duration::from_secs(90), async || {
            let path = format!("/apis/{GROUP}/{VERSION}/packagerevisions");
            let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
            client.request::<Value>(request).await.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    /// What a Porch server reads from a Repository: its address, and whether it is for deployments.
    pub fn add_repository(&self, namespace: &str, name: &str, deployment: bool) {
        let address = format!("https://git.example/{name}.git");
        self.inner().repositories.insert((namespace.to_owned(), name.to_owned()), (address, deployment));
    }

    /// Publishes the next revision of a package, as people do it in git; its object's name.
    ///
    /// # Errors
    /// There is no such repository.
    pub fn publish(
        &self,
        namespace: &str,
        (repository, package): (&str, &str),
        workspace: &str,
        files: &[(&str, &str)],
    ) -> Result<String> {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let spec = json!({
            "repository": repository, "packageName": package, "workspaceName": workspace, "lifecycle": "Draft",
            "tasks": [{"type": "init", "init": {}}],
        });
        let body = json!({"metadata": {"namespace": namespace}, "spec": spec});
        let mut inner = self.inner();
        let mut stored =
            inner.new_revision(namespace, &body, files).map_err(|refusal| anyhow::anyhow!(refusal.text))?;
        inner.approve(&mut stored);
        let name = stored.name();
        self.state.put(&mut inner, stored, "ADDED");
        Ok(name)
    }

    /// The object of a revision, if it is there.
    pub fn revision(&self, namespace: &str, name: &str) -> Option<Value> {
        let inner = self.inner();
        inner.revisions.get(&(namespace.to_owned(), name.to_owned())).map(|stored| stored.object.clone())
    }

    /// Names of the revisions of a namespace.
    pub fn names(&self, namespace: &str) -> Vec<String> {
        let inner = self.inner();
        inner.revisions.keys().filter(|(of, _)| of == namespace).map(|(_, name)| name.clone()).collect()
    }

    /// A file of a revision.
    ///
    /// # Errors
    /// There is none.
    pub fn file(&self, namespace: &str, name: &str, path: &str) -> Result<String> {
        let inner = self.inner();
        let stored = inner.revisions.get(&(namespace.to_owned(), name.to_owned()));
        let file = stored.and_then(|stored| stored.files.get(path));
        file.cloned().with_context(|| format!("there is no {path} in {name}"))
    }

    /// Lets requests go wrong.
    pub fn fail(&self, fault: Fault) {
        self.inner().faults.push(fault);
    }

    /// Takes the faults of a namespace back; how many there were that nothing has met, or that last.
    pub fn mend(&self, namespace: &str) -> usize {
        let mut inner = self.inner();
        let before = inner.faults.len();
        inner.faults.retain(|fault| fault.namespace != namespace);
        before - inner.faults.len()
    }

    /// Writes in a namespace: method, path below it, body.
    pub fn writes(&self, namespace: &str) -> Vec<(String, String, Value)> {
        let inner = self.inner();
        let of_namespace = inner.writes.iter().filter_map(|(method, path, body)| {
            let path = path.strip_prefix(&format!("/apis/{GROUP}/{VERSION}/namespaces/{namespace}/"))?;
            Some((method.clone(), path.to_owned(), body.clone()))
        });
        of_namespace.collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.state.inner()
    }
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a revision, and tells those who watch.
    fn put(&self, inner: &mut Inner, stored: Stored, event: &'static str) {
        let object = stored.object.clone();
        inner.revisions.insert(stored.place(), stored);
        // Nobody may be watching.
        drop(self.changes.send((event, object)));
    }
}
