//! References that could lead into another namespace (`installations.md` 10.8). Each is tried from
//! a namespace without the right, with a name that would be a path on an API server, and with a
//! field for a namespace if there is one. The reference fails with a clear message, no service
//! requests the foreign object, and none of its content appears.

use anyhow::{Result, ensure};
use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Installation, PackageVariant,
    PackageVariantSet, Repository, Target, TargetSync,
};
use groundwork_tests::System;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use serde_json::{Value, json};

use crate::case::{Case, Namespaced};
use crate::packages;
use crate::shared;
use crate::support::stages;
use crate::target_cluster::run_job;

const CANARY: &str = "canary-of-the-victim";

/// Victim's namespace with an object of every referenced kind, all of one name, and the attacker's
/// namespace.
struct Scene<'a> {
    thief: Case<'a>,
    victim: String,
}

impl<'a> Scene<'a> {
    async fn new(system: &'a System, thief: &str) -> Result<Self> {
        let victim = Case::new(system, &format!("{thief}-victim")).await?;
        let config = json!({".dockerconfigjson": json!({"auths": {"a.example.org": {"auth": CANARY}}}).to_string(), "kubeconfig": CANARY,
            "authHeader": CANARY, "key": CANARY, "username": CANARY, "password": CANARY});
        victim.create::<Secret>("prize", &json!({"stringData": config})).await?;
        victim.create::<ConfigMap>("prize", &json!({"data": {"a": CANARY, ".ocmconfig": ""}})).await?;
        victim.create::<DataObject>("prize", &json!({"data": CANARY})).await?;
        let target = json!({"spec": {"type": "landscaper.gardener.cloud/mock", "config": {"a": CANARY}}});
        victim.create::<Target>("prize", &target).await?;
        victim.create::<Context>("prize", &json!({})).await?;
        victim.create::<ComponentVersionOverwrites>("prize", &json!({})).await?;
        victim.create::<ServiceAccount>("prize", &json!({})).await?;
        let git = json!({"spec": {"type": "git", "git": {"repo": "https://git.example.org/prize.git"}}});
        victim.create::<Repository>("prize", &git).await?;
        Ok(Self { thief: Case::new(system, thief).await?, victim: victim.namespace })
    }

    /// Returns a name that leads to the victim's object if a service uses it as a path.
    fn way(&self, plural: &str) -> String {
        format!("../../{}/{plural}/prize", self.victim)
    }

    /// Checks that the API server or the object's status rejects the reference.
    async fn refused<K: Namespaced>(
        &self,
        name: &str,
        object: &Value,
        words: &str,
        told: impl Fn(&K) -> String,
    ) -> Result<()> {
        match self.thief.create::<K>(name, object).await {
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(text.contains(words), "{name}: {text}");
            }
            Ok(_) => {
                let says = |object: &K| told(object).contains(words);
                self.thief.until(&format!("{name} says: {words}"), name, says).await?;
            }
        }
        Ok(())
    }

    /// Checks that no service has requested the victim's objects, and that none of their content is
    /// in the attacker's namespace.
    async fn nothing_came(&self, system: &System) -> Result<()> {
        for request in stages(system, "get")? {
            let object = &request["objectRef"];
            let is_theirs = object["namespace"] == json!(self.victim) && object["name"] == "prize";
            // The variant service reads every Repository on its own behalf.
            ensure!(!is_theirs || object["resource"] == "repositories", "{request}");
        }
        let kinds = "installations,executions,deployitems,dataobjects,targets,targetsyncs,contexts,secrets,configmaps,events,\
             packagevariants,packagevariantsets,repositories";
        let all = system.kubectl(&["get", kinds, "-n", &self.thief.namespace, "-o", "json"]).await?;
        let encoded = data_encoding::BASE64.encode(CANARY.as_bytes());
        ensure!(!all.contains(CANARY) && !all.contains(&encoded), "something came over: {all}");
        Ok(())
    }
}

fn words_of<T: serde::Serialize>(status: Option<&T>) -> String {
    serde_json::to_string(&status).unwrap_or_default().replace("\\\"", "\"")
}

fn of_installation(installation: &Installation) -> String {
    words_of(installation.status.as_ref())
}

fn importing(kind: &str) -> String {
    let (type_name, extra) = match kind {
        "data" => ("data", ", schema: {}"),
        "targets" => ("targetList", ", targetType: landscaper.gardener.cloud/mock"),
        "map" => ("targetMap", ", targetType: landscaper.gardener.cloud/mock"),
        _ => ("target", ", targetType: landscaper.gardener.cloud/mock"),
    };
    format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\nimports:\n- {{name: a, type: {type_name}{extra}}}\n"
    )
}

fn installation_with(blueprint: &str, spec: &Value) -> Value {
    let annotations = json!({"landscaper.gardener.cloud/reconcile-if-changed": "true"});
    let mut object = json!({
        "metadata": {"annotations": annotations},
        "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

/// Imports of Installations, and their Contexts.
#[tokio::test(flavor = "multi_thread")]
async fn installations_reach_no_other_namespace() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let scene = Scene::new(system, "reaching").await?;
    let way = |plural: &str| scene.way(plural);
    let data = |entry: Value| json!({"imports": {"data": [entry]}});
    let targets = |entry: Value| json!({"imports": {"targets": [entry]}});
    for (name, kind, spec) in [
        ("by-name", "data", data(json!({"name": "a", "dataRef": "prize"}))),
        ("by-way", "data", data(json!({"name": "a", "dataRef": way("dataobjects")}))),
        ("of-all", "data", data(json!({"name": "a", "dataRef": format!("#{}", way("dataobjects"))}))),
        ("secret-name", "data", data(json!({"name": "a", "secretRef": {"name": "prize"}}))),
        (
            "secret-way",
            "data",
            data(json!({"name": "a", "secretRef": {"name": way("secrets"), "key": "key"}})),
        ),
        ("map-name", "data", data(json!({"name": "a", "configMapRef": {"name": "prize"}}))),
        ("map-way", "data", data(json!({"name": "a", "configMapRef": {"name": way("configmaps")}}))),
        ("target-name", "target", targets(json!({"name": "a", "target": "prize"}))),
        ("target-way", "target", targets(json!({"name": "a", "target": way("targets")}))),
        ("target-list", "targets", targets(json!({"name": "a", "targets": [way("targets")]}))),
        ("target-map", "map", targets(json!({"name": "a", "targetMap": {"b": way("targets")}}))),
    ] {
        let object = installation_with(&importing(kind), &spec);
        scene.refused(name, &object, "not found", of_installation).await?;
    }
    let component = json!({"ref": {"repositoryContext": {"type": "ociRegistry", "baseUrl": "a.example.org/c"},
        "componentName": "example.org/a", "version": "1.0.0"}});
    for (name, context, words) in [
        ("context-name", json!("prize"), "context \"reaching/prize\" not found"),
        ("context-way", json!(way("contexts")), "not found"),
    ] {
        let spec = json!({"context": context, "componentDescriptor": component, "blueprint": {"ref": {"resourceName": "b"}}});
        scene.refused(name, &installation_with("", &spec), words, of_installation).await?;
    }
    let target = json!({"exports": {"targets": [{"name": "a", "target": way("targets")}]}});
    let object = installation_with(&importing("data"), &target);
    scene.refused("export", &object, "should match", of_installation).await?;
    scene.nothing_came(system).await
}

/// Secrets, ConfigMaps and overwrites that Contexts name.
#[tokio::test(flavor = "multi_thread")]
async fn contexts_reach_no_other_namespace() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let scene = Scene::new(system, "reaching-by-context").await?;
    let component = json!({"ref": {"repositoryContext": {"type": "ociRegistry", "baseUrl": "a.example.org/c"},
        "componentName": "example.org/a", "version": "1.0.0"}});
    let foreign = json!({"name": "prize", "namespace": scene.victim, "key": "key"});
    for (name, context, words) in [
        ("pull", json!({"registryPullSecrets": [{"name": "prize"}]}), "registry pull secret"),
        (
            "pull-way",
            json!({"registryPullSecrets": [{"name": scene.way("secrets")}]}),
            "registry pull secret",
        ),
        ("config", json!({"ocmConfig": {"name": "prize"}}), "prize"),
        ("config-way", json!({"ocmConfig": {"name": scene.way("configmaps")}}), "not found"),
        ("overwrites", json!({"componentVersionOverwrites": "prize"}), "cannot be found"),
        (
            "overwrites-way",
            json!({"componentVersionOverwrites": scene.way("componentversionoverwrites")}),
            "cannot be found",
        ),
        (
            "signature",
            json!({"verificationSignatures": {"s": {"publicKeySecretReference": foreign}}}),
            "is in another namespace than the context",
        ),
        (
            "authority",
            json!({"verificationSignatures": {"s": {"caCertificateSecretReference": foreign}}}),
            "is in another namespace than the context",
        ),
    ] {
        scene.thief.create::<Context>(name, &context).await?;
        let mut spec = json!({"context": name, "componentDescriptor": component, "blueprint": {"ref": {"resourceName": "b"}}});
        if words.starts_with("is in another") {
            // The trusted keys are looked up only for a component, so the Installation needs one.
            let base = "eu.gcr.io/gardener-project/landscaper/tutorials/components";
            spec["componentDescriptor"] = json!({"ref": {
                "repositoryContext": {"type": "ociRegistry", "baseUrl": base},
                "componentName": "github.com/gardener/landscaper/echo-server", "version": "v0.2.0",
            }});
            spec["verification"] = json!({"signatureName": "s"});
        }
        scene.refused(name, &installation_with("", &spec), words, of_installation).await?;
    }
    scene.nothing_came(system).await
}

/// DeployItems, and the Targets that they name.
#[tokio::test(flavor = "multi_thread")]
async fn items_and_targets_reach_no_other_namespace() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let scene = Scene::new(system, "reaching-by-item").await?;
    let case = &scene.thief;
    let mock = json!({"apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration"});
    let item = |target: Value| json!({"spec": {"type": "landscaper.gardener.cloud/mock", "config": mock, "target": target}});
    for (name, target, words) in [
        (
            "other",
            json!({"name": "prize", "namespace": scene.victim}),
            "spec.target names prize of namespace",
        ),
        ("name", json!({"name": "prize", "namespace": case.namespace}), "the target prize does not exist"),
        ("way", json!({"name": scene.way("targets"), "namespace": case.namespace}), "does not exist"),
    ] {
        case.create::<DeployItem>(name, &item(target)).await?;
        let ended = run_job(case, name, "1").await?;
        ensure!(words_of(ended.status.as_ref()).contains(words), "{name}: {:?}", ended.status);
    }
    // The reference also fails if the deployer has the right to request tokens.
    let namespace = ["-n", case.namespace.as_str()];
    let role = ["create", "role", "tokens", "--verb=create", "--resource=serviceaccounts/token"];
    system.kubectl(&[&role[..], &namespace].concat()).await?;
    let account = "--serviceaccount=groundwork-system:groundwork-deployer";
    let binding = ["create", "rolebinding", "tokens", "--role=tokens", account];
    system.kubectl(&[&binding[..], &namespace].concat()).await?;
    let cluster = "landscaper.gardener.cloud/kubernetes-cluster";
    for (name, content, words) in [
        (
            "secret",
            json!({"secretRef": {"name": "prize", "key": "kubeconfig"}}),
            "the secret prize that the target names",
        ),
        (
            "secret-way",
            json!({"secretRef": {"name": scene.way("secrets")}}),
            "that the target names does not exist",
        ),
        (
            "account",
            json!({"config": {"selfConfig": {"serviceAccount": {"name": "prize"}}}}),
            "reaching-by-item/prize",
        ),
        (
            "account-way",
            json!({"config": {"selfConfig": {"serviceAccount": {"name": scene.way("serviceaccounts")}}}}),
            "serviceAccount.name is not a valid object name",
        ),
    ] {
        let mut spec = content.clone();
        spec["type"] = json!(cluster);
        case.create::<Target>(name, &json!({"spec": spec})).await?;
        crate::target_cluster::create_item(case, &format!("by-{name}"), name, &json!({"manifests": []}))
            .await?;
        crate::target_cluster::give_job(case, &format!("by-{name}"), "1").await?;
        let says = |item: &DeployItem| words_of(item.status.as_ref()).contains(words);
        case.until(&format!("by-{name} says: {words}"), &format!("by-{name}"), says).await?;
    }
    let sync = json!({"spec": {"sourceNamespace": "a", "secretNameExpression": "*", "secretRef": {"name": scene.way("secrets")}}});
    let errors = |sync: &TargetSync| words_of(sync.status.as_ref());
    scene.refused("sync", &sync, "does not exist", errors).await?;
    scene.nothing_came(system).await
}

/// Packages: Repositories, variants and sets.
#[tokio::test(flavor = "multi_thread")]
async fn packages_reach_no_other_namespace() -> Result<()> {
    let Some(system) = packages::system().await? else { return Ok(()) };
    let scene = Scene::new(system, "reaching-by-package").await?;
    let of_repository = |repository: &Repository| words_of(repository.status.as_ref());
    for (name, secret) in [("secret", "prize".to_owned()), ("secret-way", scene.way("secrets"))] {
        let git =
            json!({"repo": format!("https://git.example.org/{name}.git"), "secretRef": {"name": secret}});
        let object = json!({"spec": {"type": "git", "git": git}});
        scene.refused(name, &object, "not found", of_repository).await?;
    }
    let remotes = packages::Remotes::new()?;
    remotes.create("own")?;
    remotes.publish("own", &[("a/Kptfile", packages::KPTFILE)], Some("a/v1"))?;
    packages::register(&scene.thief, &remotes, "own", false).await?;
    let of_variant = |variant: &PackageVariant| words_of(variant.status.as_ref());
    for (name, upstream, downstream, words) in [
        ("upstream", "prize".to_owned(), "own", "could not find"),
        ("upstream-way", scene.way("repositories"), "own", "could not find"),
        ("downstream", "own".to_owned(), "prize", "repository \"prize\" not found"),
    ] {
        let object = json!({"spec": {
            "upstream": {"repo": upstream, "package": "a", "revision": "v1"},
            "downstream": {"repo": downstream, "package": "b"},
        }});
        scene.refused(name, &object, words, of_variant).await?;
    }
    let of_set = |set: &PackageVariantSet| words_of(set.status.as_ref());
    let upstream = json!({"repo": "prize", "package": "a", "revision": "v1"});
    for (name, spec, words) in [
        (
            "set",
            json!({"upstream": upstream, "targets": [{"repositories": [{"name": "prize"}]}]}),
            "could not find",
        ),
        (
            "revision-set",
            json!({"upstream": {"packageRevisionSet": scene.way("packagerevisionsets")}, "targets": [{"repositories": [{"name": "own"}]}]}),
            "not found",
        ),
    ] {
        scene.refused(name, &json!({"spec": spec}), words, of_set).await?;
    }
    scene.nothing_came(system).await
}
