//! Admission policies behind the rights of the service accounts
//! (`k8s/admission/service-accounts.yaml`). They reject writes that no account of ours may do, even
//! if a user has made the account a cluster administrator, and they allow the writes that each
//! account needs.

use anyhow::{Context, Result, ensure};
use groundwork_tests::{System, SystemOptions, wait_for};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::{Value, json};

use crate::support::PATIENCE;

pub(crate) const OWN: &str = "groundwork-system";
pub(crate) const OTHER: &str = "somebody";
const ACCOUNTS: [&str; 9] = [
    "watcher",
    "resolver",
    "renderer",
    "variant",
    "deployer",
    "deployer-manifest",
    "deployer-helm",
    "target-sync",
    "console",
];

const TOKENS: &str = "writes no Secret that gives a token for this cluster";
const OPAQUE: &str = "creates Secrets of the type Opaque only";
const LABELS: &str = "writes only Secrets with its label";
const FOREIGN: &str = "changes and deletes only Secrets that such a service has made";
const RIGHTS: &str = "changes neither rights nor what admits objects";
const KUBE_SYSTEM: &str = "writes nothing in kube-system";

/// API of some kind in a namespace, or of the cluster.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) api: Api<DynamicObject>,
}

impl Place {
    pub(crate) fn of(client: &Client, api_version: &str, kind: &str, plural: &str, namespace: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let api = match namespace {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        Self { api }
    }

    pub(crate) fn secrets(client: &Client, namespace: &str) -> Self {
        Self::of(client, "v1", "Secret", "secrets", namespace)
    }

    pub(crate) async fn create(&self, object: &Value) -> Result<Result<DynamicObject, Error>> {
        Ok(self.api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await)
    }

    async fn change(&self, name: &str, change: &Value) -> Result<DynamicObject, Error> {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), Error> {
        self.api.delete(name, &DeleteParams::default()).await.map(drop)
    }
}

pub(crate) fn secret(name: &str, more: &Value) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"k": "dg=="}});
    for (field, value) in more.as_object().into_iter().flatten() {
        match value {
            Value::Object(members) if field == "metadata" => {
                for (name, value) in members {
                    object["metadata"][name] = value.clone();
                }
            }
            value => object[field] = value.clone(),
        }
    }
    object
}

fn labelled(name: &str) -> Value {
    secret(name, &json!({"metadata": {"labels": {"groundwork.dev/holds": "state"}}}))
}

/// Checks that the policy with this message rejected the request.
fn refused<T>(answer: Result<T, Error>, message: &str, what: &str) -> Result<()> {
    match answer {
        Ok(_) => anyhow::bail!("{what} is allowed"),
        Err(Error::Api(status)) => {
            ensure!(
                status.code == 403 && status.message.contains(message),
                "{what}: {} {}",
                status.code,
                status.message
            );
            Ok(())
        }
        Err(error) => Err(error).context(what.to_owned()),
    }
}

fn allowed<T>(answer: Result<T, Error>, what: &str) -> Result<T> {
    answer.with_context(|| format!("{what} is refused"))
}

/// The policies apply to every account of ours, even if it is a cluster administrator.
#[tokio::test(flavor = "multi_thread")]
async fn no_account_of_ours_gets_rights_of_others() -> Result<()> {
    let Some(system) = with_accounts().await? else { return Ok(()) };
    let admin = system.client().await?;
    let made = Place::secrets(&admin, OTHER);
    made.create(&secret("theirs", &json!({}))).await??;
    made.create(&secret("helm", &json!({"type": "helm.sh/release.v1"}))).await??;
    for account in ACCOUNTS {
        let subject = format!("--serviceaccount={OWN}:groundwork-{account}");
        let binding = format!("too-much-for-{account}");
        system
            .kubectl(&["create", "clusterrolebinding", &binding, "--clusterrole=cluster-admin", &subject])
            .await?;
        let client = system.plane.service_account_client(OWN, &format!("groundwork-{account}")).await?;
        until_an_administrator(&client, account).await?;
        secrets(&client, &admin, account).await.with_context(|| account.to_owned())?;
        rights(&client, account).await.with_context(|| account.to_owned())?;
        kube_system(&client, &admin, account).await.with_context(|| account.to_owned())?;
    }
    // The policies do not apply to any other user.
    for (name, more) in [
        (
            "token",
            json!({"type": "kubernetes.io/service-account-token", "metadata": {"annotations": {"kubernetes.io/service-account.name": "default"}}}),
        ),
        ("plain", json!({})),
    ] {
        allowed(made.create(&secret(name, &more)).await?, name)?;
    }
    Ok(())
}

pub(crate) async fn with_accounts() -> Result<Option<System>> {
    let options = SystemOptions { target_syncs: true, ..SystemOptions::default() };
    let Some(system) = System::servers(options).await? else { return Ok(None) };
    for component in ["manifest-deployer", "helm-deployer", "console"] {
        system.kubectl(&["apply", "-k", &format!("k8s/components/{component}")]).await?;
    }
    system.plane.create_namespace(OTHER).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    let admin = system.client().await?;
    Place::of(&admin, "v1", "ServiceAccount", "serviceaccounts", OTHER).create(&account).await??;
    let version = "landscaper.gardener.cloud/v1alpha1";
    let item = json!({
        "apiVersion": version, "kind": "DeployItem", "metadata": {"name": "owner"}, "spec": {"type": "example.org/a"},
    });
    Place::of(&admin, version, "DeployItem", "deployitems", OTHER).create(&item).await??;
    Ok(Some(system))
}

/// Waits until the account is an administrator and the policies reject its requests, because
/// bindings and policies take effect only a moment after their creation.
async fn until_an_administrator(client: &Client, account: &str) -> Result<()> {
    let roles = Place::of(client, "rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": format!("probe-{account}")}});
    wait_for(&format!("policies refuse what {account} may"), PATIENCE, async || {
        let answer = roles.create(&role).await.map_err(|error| error.to_string())?;
        // Delete the role, so that the next attempt can create it again.
        drop(roles.delete(&format!("probe-{account}")).await);
        refused(answer, RIGHTS, "a role").map_err(|error| error.to_string())
    })
    .await
}

async fn secrets(client: &Client, admin: &Client, account: &str) -> Result<()> {
    let (ours, theirs) = (Place::secrets(client, OTHER), Place::secrets(admin, OTHER));
    let label = json!({"groundwork.dev/holds": "exports"});
    let token = json!({
        "type": "kubernetes.io/service-account-token",
        "metadata": {"labels": label, "annotations": {"kubernetes.io/service-account.name": "default"}},
    });
    let bootstrap = json!({"type": "bootstrap.kubernetes.io/token", "metadata": {"labels": label}});
    let release = json!({"type": "helm.sh/release.v1", "metadata": {"labels": label}});
    for (more, message) in [
        (token, TOKENS),
        (bootstrap, TOKENS),
        (release, OPAQUE),
        (json!({}), LABELS),
        (json!({"metadata": {"labels": {"app": "x"}}}), LABELS),
    ] {
        refused(ours.create(&secret("wrong", &more)).await?, message, &format!("creation with {more}"))?;
    }
    for (name, change) in [
        ("theirs", json!({"metadata": {"labels": label}})),
        ("theirs", json!({"metadata": {"annotations": {"a": "b"}}})),
        ("theirs", json!({"metadata": {"finalizers": ["example.org/a"]}})),
        ("theirs", json!({"data": {"k": "dw==", "more": "dw=="}})),
        ("theirs", json!({"data": {"k": null}})),
        ("theirs", json!({"immutable": true})),
        ("helm", json!({"data": {"k": "dw=="}})),
    ] {
        let answer = ours.change(name, &change).await;
        let message = if change["metadata"]["labels"].is_null() { LABELS } else { FOREIGN };
        refused(answer, message, &format!("{name} with {change}"))?;
    }
    refused(ours.delete("theirs").await, FOREIGN, "the deletion of somebody's Secret")?;
    let all = ours.api.delete_collection(&DeleteParams::default(), &kube::api::ListParams::default()).await;
    refused(all, FOREIGN, "the deletion of all Secrets")?;

    // The services write, change and delete their own Secrets, including those from before the
    // label existed.
    allowed(ours.create(&labelled("state")).await?, "the state of an execution")?;
    allowed(ours.change("state", &json!({"data": {"k": "dw==", "more": "dw=="}})).await, "another state")?;
    refused(ours.change("state", &json!({"metadata": {"labels": null}})).await, LABELS, "a label taken off")?;
    allowed(ours.delete("state").await, "the end of a state")?;
    // The owner must exist, or the garbage collector deletes the Secret by itself.
    let items = Place::of(admin, "landscaper.gardener.cloud/v1alpha1", "DeployItem", "deployitems", OTHER);
    let owner = items.api.get("owner").await?;
    let owner = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DeployItem", "name": "owner",
        "uid": owner.metadata.uid,
    });
    let former = format!("former-{account}");
    theirs.create(&secret(&former, &json!({"metadata": {"ownerReferences": [owner]}}))).await??;
    let change = json!({"metadata": {"labels": {"groundwork.dev/holds": "exports"}}, "data": {"k": "dw=="}});
    allowed(ours.change(&former, &change).await, "exports from before the label")?;
    allowed(ours.delete(&former).await, "the end of exports")?;
    let mirror = json!({"metadata": {"labels": {"landscaper.gardener.cloud/targetsync": "ok"}}});
    allowed(ours.create(&secret("mirror", &mirror)).await?, "a mirror")?;
    allowed(ours.delete("mirror").await, "the end of a mirror")
}

async fn rights(client: &Client, account: &str) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let reference = json!({"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"});
    for (kind, plural, namespace) in [
        ("ClusterRole", "clusterroles", ""),
        ("ClusterRoleBinding", "clusterrolebindings", ""),
        ("Role", "roles", OTHER),
        ("RoleBinding", "rolebindings", OTHER),
    ] {
        let place = Place::of(client, &version, kind, plural, namespace);
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "mine"}, "roleRef": reference});
        refused(place.create(&object).await?, RIGHTS, kind)?;
    }
    let binding = format!("too-much-for-{account}");
    let bindings = Place::of(client, &version, "ClusterRoleBinding", "clusterrolebindings", "");
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    refused(bindings.change(&binding, &change).await, RIGHTS, "another binding")?;
    refused(bindings.delete(&binding).await, RIGHTS, "the end of a binding")
}

/// An account may write status and Events for an object in `kube-system`, and nothing else there.
async fn kube_system(client: &Client, admin: &Client, account: &str) -> Result<()> {
    let place =
        |version: &str, kind: &str, plural: &str| Place::of(client, version, kind, plural, "kube-system");
    let ours = "landscaper.gardener.cloud/v1alpha1";
    for (version, kind, plural, more) in [
        ("v1", "Secret", "secrets", json!({"metadata": {"labels": {"groundwork.dev/holds": "state"}}})),
        ("v1", "ConfigMap", "configmaps", json!({})),
        ("v1", "ServiceAccount", "serviceaccounts", json!({})),
        (ours, "Context", "contexts", json!({})),
        (ours, "DataObject", "dataobjects", json!({"data": 1})),
    ] {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "mine"}});
        for (field, value) in more.as_object().into_iter().flatten() {
            if field == "metadata" {
                object["metadata"]["labels"] = value["labels"].clone();
            } else {
                object[field] = value.clone();
            }
        }
        refused(place(version, kind, plural).create(&object).await?, KUBE_SYSTEM, kind)?;
    }
    let name = format!("item-{account}");
    let item = json!({
        "apiVersion": ours, "kind": "DeployItem", "metadata": {"name": name}, "spec": {"type": "example.org/a"},
    });
    Place::of(admin, ours, "DeployItem", "deployitems", "kube-system").create(&item).await??;
    let items = place(ours, "DeployItem", "deployitems");
    refused(items.change(&name, &json!({"metadata": {"labels": {"a": "b"}}})).await, KUBE_SYSTEM, "an item")?;
    refused(items.delete(&name).await, KUBE_SYSTEM, "the end of an item")?;
    let status = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    allowed(items.api.patch_status(&name, &PatchParams::default(), &status).await, "a status")?;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "told-"}, "reason": "Told", "message": "why",
        "involvedObject": {"namespace": "kube-system", "kind": "DeployItem", "name": name},
    });
    allowed(place("v1", "Event", "events").create(&event).await?, "an Event")?;
    Ok(())
}

/// The account for TargetSyncs renews the token in a Secret that a user created. Other accounts may
/// not do so, and this account may not change anything else in the Secret.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_renewed_by_who_works_on_target_syncs() -> Result<()> {
    let Some(system) = with_accounts().await? else { return Ok(()) };
    let admin = Place::secrets(&system.client().await?, OTHER);
    let two = json!({"data": {"kubeconfig": "dg==", "other": "dg=="}});
    admin.create(&secret("access", &two)).await??;
    admin.create(&secret("helm", &json!({"type": "helm.sh/release.v1"}))).await??;
    let of = async |account: &str| -> Result<Place> {
        let client = system.plane.service_account_client(OWN, &format!("groundwork-{account}")).await?;
        Ok(Place::secrets(&client, OTHER))
    };
    let replaced =
        async |place: &Place, name: &str, change: &Value| -> Result<Result<DynamicObject, Error>> {
            let mut object = serde_json::to_value(admin.api.get(name).await?)?;
            for (key, value) in change.as_object().into_iter().flatten() {
                object["data"][key] = value.clone();
            }
            Ok(place.api.replace(name, &PostParams::default(), &serde_json::from_value(object)?).await)
        };
    let (syncs, renderer) = (of("target-sync").await?, of("renderer").await?);
    let renewed = json!({"kubeconfig": "dw=="});
    wait_for("the policies are there", PATIENCE, async || {
        let answer = replaced(&renderer, "access", &renewed).await.map_err(|error| error.to_string())?;
        refused(answer, LABELS, "another's renewal").map_err(|error| format!("{error:#}"))
    })
    .await?;
    refused(replaced(&of("deployer").await?, "access", &renewed).await?, LABELS, "a deployer's renewal")?;
    allowed(replaced(&syncs, "access", &renewed).await?, "a renewal")?;
    let both = json!({"kubeconfig": "eA==", "other": "eA=="});
    refused(replaced(&syncs, "access", &both).await?, LABELS, "two entries")?;
    refused(replaced(&syncs, "access", &json!({"new": "eA=="})).await?, LABELS, "a new entry")?;
    refused(replaced(&syncs, "helm", &json!({"k": "eA=="})).await?, LABELS, "a release")?;
    // In trial setups, one deployer account does both.
    system.kubectl(&["apply", "-k", "k8s/components/target-sync-with-deployer"]).await?;
    let both = of("deployer").await?;
    wait_for("a deployer with both rights renews it", PATIENCE, async || {
        let change = json!({"kubeconfig": "eQ=="});
        let answer = replaced(&both, "access", &change).await.map_err(|error| error.to_string())?;
        answer.map(drop).map_err(|error| error.to_string())
    })
    .await
}

/// Policies reject webhooks. The API server never applies policies to policies and their bindings:
/// there the accounts' rights are the only protection, which `account_rights` tests. This test
/// fails if that changes.
#[tokio::test(flavor = "multi_thread")]
async fn no_account_of_ours_makes_a_webhook() -> Result<()> {
    let Some(system) = with_accounts().await? else { return Ok(()) };
    let subject = format!("--serviceaccount={OWN}:groundwork-renderer");
    let client = system.plane.service_account_client(OWN, "groundwork-renderer").await?;
    let version = "admissionregistration.k8s.io/v1";
    let create = async |kind: &str, plural: &str| {
        let spec = json!({"policyName": "a", "validationActions": ["Deny"]});
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "mine"}, "spec": spec});
        Place::of(&client, version, kind, plural, "").create(&object).await
    };
    let webhooks = [
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ];
    let binding = ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings");
    for (kind, plural) in webhooks.into_iter().chain([binding]) {
        refused(create(kind, plural).await?, " cannot create resource ", kind)?;
    }
    system.kubectl(&["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", &subject]).await?;
    until_an_administrator(&client, "renderer").await?;
    for (kind, plural) in webhooks {
        refused(create(kind, plural).await?, RIGHTS, kind)?;
    }
    allowed(create(binding.0, binding.1).await?, binding.0)?;
    Ok(())
}
