//! Inputs for the expansion of a set, read from the API server.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::{
    Kind as _, ObjectSelector, PackageRevision, PackageRevisionSet, PackageVariantSet, Repository,
};
use groundwork_controller::{ApiError, Objects, ReconcileError, Workers};
use groundwork_fleet::{
    Attributes, ExpandError, Expansion, Inputs, Objects as Selectable, Unavailable, expand,
    revision_set_names, upstream_packages,
};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, oneshot};
use kube::{Client, Error};
use serde::{Deserialize, Serialize};

/// Objects per page of a list request.
const PAGE: u32 = 500;
/// Up to this number of packages, the revisions are listed package by package; beyond it, all
/// revisions of the namespace are listed once.
const FEW_PACKAGES: usize = 8;

/// Kind that a set selects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selected {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
}

impl Selected {
    /// Returns the entry for a kind of Groundwork.
    pub(crate) fn of<K: groundwork_api::Kind>() -> Self {
        Self {
            group: K::GROUP.to_owned(),
            version: K::VERSION.to_owned(),
            kind: K::KIND.to_owned(),
            plural: K::PLURAL.to_owned(),
        }
    }
}

/// Everything that the expansion of a set depends on. This is sent to worker processes and must not
/// contain a credential.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetInputs {
    pub(crate) revisions: Option<Vec<PackageRevision>>,
    pub(crate) revision_sets: Vec<PackageRevisionSet>,
    pub(crate) repositories: Vec<Attributes>,
    #[serde(with = "pairs")]
    pub(crate) others: BTreeMap<(String, String), Result<Vec<Attributes>, Unavailable>>,
    /// Kinds to watch, so that the set is reconciled when their objects change. They include
    /// package revisions if a server in the cluster serves them.
    #[serde(skip)]
    pub(crate) kinds: Vec<Selected>,
}

/// Serialization of a map as a list of pairs, because JSON only has text keys.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Reason why objects of a kind cannot be read.
pub(crate) enum ReadError {
    /// A lasting problem: the kind does not exist, or this service may not list it. The status of
    /// the set reports it.
    Unavailable(Unavailable),
    /// A problem that another attempt may not meet.
    Retry(ReconcileError),
}

impl SetInputs {
    /// Computes the children of a set. This takes long for a large set.
    pub(crate) fn expand(&self, set: &PackageVariantSet) -> Result<Expansion, ExpandError> {
        expand(&Inputs {
            set,
            revisions: self.revisions.as_deref(),
            objects: Selectable {
                revision_sets: &self.revision_sets,
                repositories: &self.repositories,
                others: &self.others,
            },
        })
    }
}

/// Returns the outcome for a set whose work has no result. Work that exceeds a limit would do so
/// again, so the status reports the limit and the next attempt comes minutes later.
pub(crate) fn given_up(is_limit: bool, why: &str) -> Result<ExpandError, ReconcileError> {
    if is_limit {
        return Ok(ExpandError::Unexpected(format!(
            "expanding the set: {why}; select less, or split the set"
        )));
    }
    Err(ReconcileError::new(format!("expanding the set: {why}")))
}

/// Reads the objects that a set names and selects. An invalid set needs none.
pub(crate) async fn read_inputs(
    set: &PackageVariantSet,
    objects: &Objects,
    workers: &Workers,
) -> Result<SetInputs, ReconcileError> {
    let mut inputs = SetInputs::default();
    let checked = set.clone();
    let violations = workers.run(move || groundwork_fleet::validate_set(&checked));
    if !violations.await.map_err(|error| ReconcileError::new(error.to_string()))?.is_empty() {
        return Ok(inputs);
    }
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let client = objects.client();
    for name in revision_set_names(set) {
        inputs.revision_sets.extend(objects.get::<PackageRevisionSet>(namespace, &name).await?);
    }
    inputs.revisions = revisions(&upstream_packages(set, &inputs.revision_sets), namespace, objects).await?;
    if inputs.revisions.is_some() {
        inputs.kinds.push(Selected::of::<PackageRevision>());
    }
    if needs_repositories(set) {
        let repositories = objects.list::<Repository>(namespace, "").await?;
        inputs.repositories = repositories.iter().map(|found| Attributes::from(&found.metadata)).collect();
    }
    for (api_version, kind) in selected_kinds(set) {
        let found = match discover(&api_version, &kind, client).await {
            Ok((selected, resource)) => {
                inputs.kinds.push(selected);
                list(&resource, namespace, client).await
            }
            Err(error) => Err(error),
        };
        let found = match found {
            Ok(found) => Ok(found),
            Err(ReadError::Unavailable(unavailable)) => Err(unavailable),
            Err(ReadError::Retry(error)) => return Err(error),
        };
        inputs.others.insert((api_version, kind), found);
    }
    Ok(inputs)
}

/// Returns `apiVersion` and `kind` of all objects that a set selects, without Repositories.
pub(crate) fn selected_kinds(set: &PackageVariantSet) -> BTreeSet<(String, String)> {
    let selectors = set.spec.targets.iter().filter_map(|target| target.object_selector.as_ref());
    let named = selectors.map(kind_of).filter(|kind| !is_repository(kind));
    named.collect()
}

pub(crate) fn needs_repositories(set: &PackageVariantSet) -> bool {
    set.spec.targets.iter().any(|target| {
        target.repository_selector.is_some()
            || target.template.is_some()
            || target.object_selector.as_ref().is_some_and(|selector| is_repository(&kind_of(selector)))
    })
}

fn kind_of(selector: &ObjectSelector) -> (String, String) {
    (selector.api_version.clone().unwrap_or_default(), selector.kind.clone().unwrap_or_default())
}

fn is_repository((api_version, kind): &(String, String)) -> bool {
    api_version == Repository::API_VERSION && kind == Repository::KIND
}

/// Returns the revisions of some packages; `None` if no server serves package revisions, or there
/// are no packages.
async fn revisions(
    packages: &BTreeSet<(String, String)>,
    namespace: &str,
    objects: &Objects,
) -> Result<Option<Vec<PackageRevision>>, ReconcileError> {
    if packages.len() > FEW_PACKAGES {
        let all = known_revisions("", namespace, objects).await?;
        let is_of = |revision: &PackageRevision| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            packages.contains(&(text(&revision.spec.repository), text(&revision.spec.package_name)))
        };
        return Ok(all.map(|all| all.into_iter().filter(is_of).collect()));
    }
    let mut revisions = None;
    for (repo, package) in packages {
        let Some(found) = package_revisions(repo, package, namespace, objects).await? else {
            return Ok(None);
        };
        revisions.get_or_insert_with(Vec::new).extend(found);
    }
    Ok(revisions)
}

/// Returns the revisions of a package; `None` if no server serves package revisions.
pub(crate) async fn package_revisions(
    repo: &str,
    package: &str,
    namespace: &str,
    objects: &Objects,
) -> Result<Option<Vec<PackageRevision>>, ReconcileError> {
    let fields = format!("spec.repository={},spec.packageName={}", escaped(repo), escaped(package));
    known_revisions(&fields, namespace, objects).await
}

async fn known_revisions(
    fields: &str,
    namespace: &str,
    objects: &Objects,
) -> Result<Option<Vec<PackageRevision>>, ReconcileError> {
    match objects.select::<PackageRevision>(namespace, fields).await {
        Ok(revisions) => Ok(Some(revisions)),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Escapes a value for a field selector.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

/// Asks the API server for the plural and the scope of a kind.
pub(crate) async fn discover(
    api_version: &str,
    kind: &str,
    client: &Client,
) -> Result<(Selected, ApiResource), ReadError> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let unknown = || {
        ReadError::Unavailable(Unavailable(format!(
            "no matches for kind {kind:?} in version {api_version:?}"
        )))
    };
    // Group and version become path segments of a request, so text with a slash must not pass.
    let is_plain = |text: &str| text.is_empty() || is_dns_subdomain(text);
    if !is_plain(group) || !is_dns_subdomain(version) {
        return Err(unknown());
    }
    match oneshot::pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await {
        Ok((resource, capabilities)) if capabilities.scope == Scope::Namespaced => {
            let selected = Selected {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                plural: resource.plural.clone(),
            };
            Ok((selected, resource))
        }
        Ok(_) => Err(ReadError::Unavailable(Unavailable(format!(
            "objects of kind {kind:?} in version {api_version:?} do not live in namespaces, and only those of the set's own \
             namespace can be selected"
        )))),
        Err(Error::Discovery(_)) => Err(unknown()),
        Err(Error::Api(status)) if status.code == 404 => Err(unknown()),
        Err(error) => {
            Err(ReadError::Retry(ReconcileError::new(problem(&error, &format!("kinds of {api_version}")))))
        }
    }
}

/// Lists the metadata of all objects of a kind in a namespace.
async fn list(
    resource: &ApiResource,
    namespace: &str,
    client: &Client,
) -> Result<Vec<Attributes>, ReadError> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, resource);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = match api.list_metadata(&parameters).await {
            Ok(page) => page,
            Err(error) => {
                let group =
                    if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
                let text = problem(&error, &format!("{}{group} in namespace {namespace}", resource.plural));
                let is_lasting =
                    matches!(&error, Error::Api(status) if matches!(status.code, 401 | 403 | 404 | 405));
                return Err(match is_lasting {
                    true => ReadError::Unavailable(Unavailable(text)),
                    false => ReadError::Retry(ReconcileError::new(text)),
                });
            }
        };
        found.extend(page.items.iter().map(|object| Attributes::from(&object.metadata)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if parameters.continue_token.as_ref() == Some(&token) => {
                let text = "repeats the continue token of an earlier page";
                let text = format!("the list of {} in namespace {namespace} {text}", resource.plural);
                return Err(ReadError::Retry(ReconcileError::new(text)));
            }
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// Returns the reason why a list failed, without the API server's own words, which name accounts.
fn problem(error: &Error, what: &str) -> String {
    match error {
        Error::Api(status) if matches!(status.code, 401 | 403) => {
            ApiError::Forbidden { verb: "list", resource: what.to_owned() }.to_string()
        }
        Error::Api(status) => {
            format!("cannot list {what}: {} {}", status.code, status.reason).trim_end().to_owned()
        }
        _ => format!("cannot list {what}: the API server does not answer"),
    }
}
