//! Stand-in for a Porch server, since tests cannot use Porch's own programs. It serves Porch's
//! aggregated API as `packagevariants.md` 6.13 describes it, with the quirks listed there. A test
//! against it proves no more about a real Porch server than that chapter states.
//!
//! The stand-in is registered at a real API server. Requests therefore come through aggregation,
//! with its authentication and authorization. Packages are kept in memory, commits are generated,
//! and package functions do not run, except one that always fails.

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

/// Image of the function that always fails.
pub const FAILING: &str = "example.org/always-fails:v1";

const GROUP: &str = "porch.kpt.dev";
const VERSION: &str = "v1alpha1";
/// Number of changes that a watch may fall behind.
const BACKLOG: usize = 1024;

/// Porch stand-in. It lives to the end of the process.
#[derive(Debug, Clone)]
pub struct PorchServer {
    state: Arc<State>,
    port: u16,
}

/// Requests that the server answers with an error.
#[derive(Debug, Clone, Default)]
pub struct Fault {
    pub namespace: String,
    pub method: &'static str,
    /// End of the request path.
    pub path: String,
    pub status: u16,
    pub message: String,
    /// Set if the server does the request all the same, and only its answer is lost.
    pub is_done: bool,
    /// Set if all such requests fail until [`PorchServer::mend`], and not only the next one.
    pub is_lasting: bool,
}

/// Namespace and name of a package revision.
type Place = (String, String);

#[derive(Debug)]
struct State {
    inner: Mutex<Inner>,
    /// Kind of each event, and its object.
    changes: broadcast::Sender<(&'static str, Value)>,
}

#[derive(Debug, Default)]
struct Inner {
    revisions: BTreeMap<Place, Stored>,
    /// Address of each repository and whether it is a deployment repository, by namespace and name.
    repositories: BTreeMap<Place, (String, bool)>,
    commits: u64,
    faults: Vec<Fault>,
    /// Method, path and body of each write.
    writes: Vec<(String, String, Value)>,
}

impl PorchServer {
    /// Starts the server on a thread of its own, because it serves several tests, each with its own
    /// runtime.
    ///
    /// # Errors
    /// Fails if there is no free port.
    pub fn start() -> Result<Self> {
        let state = Arc::new(State { inner: Mutex::default(), changes: broadcast::channel(BACKLOG).0 });
        let port = server::start(Arc::clone(&state))?;
        Ok(Self { state, port })
    }

    /// Registers this server at an API server for the kinds of the group, and waits until the API
    /// server serves them.
    ///
    /// # Errors
    /// Fails if the API server rejects the registration.
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

    /// Adds the data that a Porch server reads from a Repository: its address, and whether it is a
    /// deployment repository.
    pub fn add_repository(&self, namespace: &str, name: &str, deployment: bool) {
        let address = format!("https://git.example/{name}.git");
        self.inner().repositories.insert((namespace.to_owned(), name.to_owned()), (address, deployment));
    }

    /// Publishes the next revision of a package, as users do with git. Returns the name of the
    /// object.
    ///
    /// # Errors
    /// Fails if the repository does not exist.
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

    /// Returns the object of a revision, if it exists.
    pub fn revision(&self, namespace: &str, name: &str) -> Option<Value> {
        let inner = self.inner();
        inner.revisions.get(&(namespace.to_owned(), name.to_owned())).map(|stored| stored.object.clone())
    }

    /// Returns the names of the revisions of a namespace.
    pub fn names(&self, namespace: &str) -> Vec<String> {
        let inner = self.inner();
        inner.revisions.keys().filter(|(of, _)| of == namespace).map(|(_, name)| name.clone()).collect()
    }

    /// Returns a file of a revision.
    ///
    /// # Errors
    /// Fails if the file does not exist.
    pub fn file(&self, namespace: &str, name: &str, path: &str) -> Result<String> {
        let inner = self.inner();
        let stored = inner.revisions.get(&(namespace.to_owned(), name.to_owned()));
        let file = stored.and_then(|stored| stored.files.get(path));
        file.cloned().with_context(|| format!("there is no {path} in {name}"))
    }

    /// Makes requests fail.
    pub fn fail(&self, fault: Fault) {
        self.inner().faults.push(fault);
    }

    /// Removes the faults of a namespace. Returns the number of removed faults: those that no
    /// request has met, and the lasting ones.
    pub fn mend(&self, namespace: &str) -> usize {
        let mut inner = self.inner();
        let before = inner.faults.len();
        inner.faults.retain(|fault| fault.namespace != namespace);
        before - inner.faults.len()
    }

    /// Returns the writes in a namespace: method, path below the namespace, and body.
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

    /// Stores a revision and notifies the watches.
    fn put(&self, inner: &mut Inner, stored: Stored, event: &'static str) {
        let object = stored.object.clone();
        inner.revisions.insert(stored.place(), stored);
        // Sending fails if there is no watch, which is fine.
        drop(self.changes.send((event, object)));
    }
}
