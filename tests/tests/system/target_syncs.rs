//! TargetSyncs (`installations.md` 1.5): Targets for the clusters that another API server lists.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use groundwork_api::{Target, TargetSync};
use groundwork_tests::{System, SystemOptions, wait_for};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::{Value, json};

use crate::case::Case;
use crate::rights::target_sync_rights;
use crate::shared;
use crate::support::PATIENCE;
use crate::target_sync_source::{CANARY, Garden, SILENT, errors, kubeconfig_of, next_round};

const LABEL: &str = "landscaper.gardener.cloud/targetsync=ok";
const LAST: &str = "landscaper.gardener.cloud/lasttargetsync";

/// Returns the names of the Targets that a TargetSync owns, with the name and the key of their
/// Secrets.
async fn targets(case: &Case<'_>) -> Result<BTreeMap<String, (String, String)>> {
    let own = case.list::<Target>(LABEL).await?.into_iter().map(|target| {
        let reference = target.spec.secret_ref.unwrap_or_default();
        (target.metadata.name.unwrap_or_default(), (reference.name, reference.key.unwrap_or_default()))
    });
    Ok(own.collect())
}

async fn target_names(case: &Case<'_>) -> Result<Vec<String>> {
    Ok(targets(case).await?.into_keys().collect())
}

/// Returns the kubeconfig in a Secret of the test.
async fn content(case: &Case<'_>, name: &str) -> Result<String> {
    let secret = case.get::<Secret>(name).await?;
    let bytes = secret.data.and_then(|mut data| data.remove("kubeconfig")).context("it has no kubeconfig")?;
    Ok(String::from_utf8(bytes.0)?)
}

/// Waits until a TargetSync has an error, and checks that the error quotes no credential.
async fn until_error(case: &Case<'_>, name: &str, text: &str) -> Result<TargetSync> {
    let what = format!("{name} says: {text}");
    let sync = case
        .until(&what, name, |sync: &TargetSync| errors(sync).iter().any(|error| error.contains(text)))
        .await?;
    ensure!(!errors(&sync).concat().contains(CANARY), "{:?}", errors(&sync));
    Ok(sync)
}

async fn until_well(case: &Case<'_>, name: &str) -> Result<TargetSync> {
    let is_well = |sync: &TargetSync| {
        let status = sync.status.clone().unwrap_or_default();
        Some(status.observed_generation) == sync.metadata.generation && status.last_errors.is_empty()
    };
    case.until("a round has ended well", name, is_well).await
}

/// Life of a TargetSync: Secrets of the source become Targets, change and disappear. An error is
/// reported, and blocks deletions. A second TargetSync stops both. With the last one, all Targets
/// are deleted. No right is missing, and none is unused.
#[tokio::test(flavor = "multi_thread")]
async fn targets_follow_the_secrets_of_a_source() -> Result<()> {
    let options = SystemOptions { target_syncs: true, ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    let (case, garden) = (Case::new(&system, "follow").await?, Garden::new("garden-follow").await?);
    for (name, text) in [("a.kubeconfig", "first"), ("b.kubeconfig", "second"), ("other", "third")] {
        garden.create_secret(name, text).await?;
    }
    garden.give_access(&case, "access").await?;
    let fields = json!({
        "secretNameExpression": r"\.kubeconfig$", "createTargetToSource": true, "targetToSourceName": "garden",
    });
    case.create::<TargetSync>("sync", &garden.sync(&fields)).await?;
    until_well(&case, "sync").await?;
    secrets_come_change_and_go(&case, &garden).await?;
    what_is_there_already_stays(&case, &garden).await?;
    a_source_that_does_not_answer(&case, &garden).await?;
    two_stop_both(&case, &garden).await?;
    all_goes_with_it(&case).await?;
    target_sync_rights(&system)
}

async fn secrets_come_change_and_go(case: &Case<'_>, garden: &Garden) -> Result<()> {
    let reference = |name: &str| (name.to_owned(), "kubeconfig".to_owned());
    let expected: BTreeMap<String, (String, String)> = [
        ("a.kubeconfig".to_owned(), reference("a.kubeconfig")),
        ("b.kubeconfig".to_owned(), reference("b.kubeconfig")),
        ("garden".to_owned(), reference("access")),
    ]
    .into();
    assert_eq!(targets(case).await?, expected);
    let target = case.get::<Target>("a.kubeconfig").await?;
    assert_eq!(target.spec.type_, "landscaper.gardener.cloud/kubernetes-cluster");
    ensure!(target.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(LAST)), "{target:?}");
    assert_eq!(
        (content(case, "a.kubeconfig").await?, content(case, "b.kubeconfig").await?),
        ("first".into(), "second".into())
    );
    let finalizers = case.get::<TargetSync>("sync").await?.metadata.finalizers;
    assert_eq!(finalizers, Some(vec!["finalizer.landscaper.gardener.cloud".to_owned()]));

    // An unchanged Target is not written.
    next_round(case, "sync").await?;
    assert_eq!(
        case.get::<Target>("a.kubeconfig").await?.metadata.resource_version,
        target.metadata.resource_version
    );

    garden.change_secret("a.kubeconfig", "changed").await?;
    garden.delete_secret("b.kubeconfig").await?;
    garden.create_secret("d.kubeconfig", "fourth").await?;
    next_round(case, "sync").await?;
    assert_eq!(content(case, "a.kubeconfig").await?, "changed");
    assert_eq!(target_names(case).await?, ["a.kubeconfig", "d.kubeconfig", "garden"]);
    case.gone::<Secret>("b.kubeconfig").await?;

    // Another expression selects other Secrets.
    case.change::<TargetSync>("sync", &json!({"spec": {"secretNameExpression": "^d"}})).await?;
    until_well(case, "sync").await?;
    assert_eq!(target_names(case).await?, ["d.kubeconfig", "garden"]);
    case.change::<TargetSync>("sync", &json!({"spec": {"secretNameExpression": "["}})).await?;
    until_error(case, "sync", "spec.secretNameExpression is not a valid regular expression").await?;
    case.change::<TargetSync>("sync", &json!({"spec": {"secretNameExpression": r"\.kubeconfig$"}})).await?;
    until_well(case, "sync").await?;
    assert_eq!(target_names(case).await?, ["a.kubeconfig", "d.kubeconfig", "garden"]);
    Ok(())
}

/// A user's Secret is not overwritten. As long as that error lasts, no Target is deleted.
async fn what_is_there_already_stays(case: &Case<'_>, garden: &Garden) -> Result<()> {
    case.create::<Secret>("e.kubeconfig", &json!({"stringData": {"kubeconfig": "of people"}})).await?;
    garden.create_secret("e.kubeconfig", "fifth").await?;
    garden.create_secret("f.kubeconfig", "sixth").await?;
    garden.delete_secret("d.kubeconfig").await?;
    let sync = next_round(case, "sync").await?;
    ensure!(
        errors(&sync)
            .concat()
            .contains("the secret e.kubeconfig of this namespace was not created by a TargetSync"),
        "{:?}",
        errors(&sync)
    );
    assert_eq!(content(case, "e.kubeconfig").await?, "of people");
    assert_eq!(target_names(case).await?, ["a.kubeconfig", "d.kubeconfig", "f.kubeconfig", "garden"]);
    case.delete::<Secret>("e.kubeconfig").await?;
    // The TargetSync is retried without a change of it.
    until_well(case, "sync").await?;
    assert_eq!(content(case, "e.kubeconfig").await?, "fifth");
    assert_eq!(target_names(case).await?, ["a.kubeconfig", "e.kubeconfig", "f.kubeconfig", "garden"]);
    Ok(())
}

/// If a source denies access, fails or hangs, the error contains no credential, no Target is
/// deleted, and the TargetSync recovers by itself.
async fn a_source_that_does_not_answer(case: &Case<'_>, garden: &Garden) -> Result<()> {
    garden.delete_secret("f.kubeconfig").await?;
    for (code, text) in [
        (401, "the user of spec.secretRef may not list secrets in the source cluster"),
        (403, ""),
        (429, "the source cluster: cannot list secrets"),
        (500, "the source cluster: cannot list secrets"),
        (SILENT, "no answer within"),
    ] {
        garden.answer(code);
        let sync = next_round(case, "sync").await?;
        ensure!(!errors(&sync).is_empty(), "{code}");
        until_error(case, "sync", text).await?;
        assert_eq!(target_names(case).await?.len(), 4, "{code}");
    }
    let warnings = case.warnings::<TargetSync>("sync").await?;
    ensure!(warnings.iter().any(|(reason, _)| reason == "TargetSyncFailed"), "{warnings:?}");
    ensure!(warnings.iter().all(|(_, message)| !message.contains(CANARY)), "{warnings:?}");
    garden.answer(0);
    until_well(case, "sync").await?;
    assert_eq!(target_names(case).await?, ["a.kubeconfig", "e.kubeconfig", "garden"]);
    Ok(())
}

async fn two_stop_both(case: &Case<'_>, garden: &Garden) -> Result<()> {
    case.create::<TargetSync>("another", &garden.sync(&json!({"secretNameExpression": "*"}))).await?;
    for name in ["another", "sync"] {
        until_error(case, name, "a namespace may have only one TargetSync").await?;
        case.warnings_with::<TargetSync>(name, "SeveralTargetSyncs").await?;
    }
    assert_eq!(target_names(case).await?, ["a.kubeconfig", "e.kubeconfig", "garden"]);
    case.delete::<TargetSync>("another").await?;
    case.gone::<TargetSync>("another").await?;
    // The deletion of the other TargetSync suffices for the recovery.
    until_well(case, "sync").await?;
    assert_eq!(target_names(case).await?, ["a.kubeconfig", "e.kubeconfig", "garden"]);
    Ok(())
}

/// The deletion does not need the source. The objects of users stay.
async fn all_goes_with_it(case: &Case<'_>) -> Result<()> {
    case.create::<Target>("own", &json!({"spec": {"type": "landscaper.gardener.cloud/mock", "config": {}}}))
        .await?;
    case.delete::<TargetSync>("sync").await?;
    case.gone::<TargetSync>("sync").await?;
    assert_eq!(target_names(case).await?, Vec::<String>::new());
    ensure!(case.list::<Secret>(LABEL).await?.is_empty(), "Secrets are left");
    case.get::<Secret>("access").await?;
    case.get::<Target>("own").await?;
    Ok(())
}

/// Shoots get kubeconfigs that are valid for 24 hours and renewed every twelve hours. Their Targets
/// are deleted with them.
#[tokio::test(flavor = "multi_thread")]
async fn kubeconfigs_of_shoots() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, garden) = (Case::new(system, "shoots").await?, Garden::with_shoots("garden-shoots").await?);
    for name in ["dev-1", "dev-2", "prod"] {
        garden.create_shoot(name).await?;
    }
    garden.give_access(&case, "access").await?;
    let fields = json!({"shootNameExpression": "^dev-", "targetToSourceName": "nobody"});
    case.create::<TargetSync>("sync", &garden.sync(&fields)).await?;
    until_well(&case, "sync").await?;
    let warnings = case.warnings::<TargetSync>("sync").await?;
    ensure!(warnings.iter().all(|(reason, _)| reason == "WithoutEffect"), "{warnings:?}");
    assert_eq!(target_names(&case).await?, ["dev-1", "dev-2"]);
    assert_eq!(content(&case, "dev-1").await?, kubeconfig_of("dev-1"));
    let request = json!({
        "apiVersion": "authentication.gardener.cloud/v1alpha1", "kind": "AdminKubeconfigRequest",
        "spec": {"expirationSeconds": 86400},
    });
    assert_eq!(garden.asked(), [("dev-1".to_owned(), request.clone()), ("dev-2".to_owned(), request)]);
    next_round(&case, "sync").await?;
    assert_eq!(garden.asked().len(), 2, "they are young");

    let then = json!({"metadata": {"annotations": {LAST: "2020-01-01T00:00:00Z"}}});
    case.change::<Target>("dev-2", &then).await?;
    next_round(&case, "sync").await?;
    let asked: Vec<String> = garden.asked().into_iter().skip(2).map(|(name, _)| name).collect();
    assert_eq!(asked, ["dev-2"]);

    garden.begin_to_delete_shoot("dev-1").await?;
    garden.end_shoot("dev-1").await?;
    next_round(&case, "sync").await?;
    assert_eq!(target_names(&case).await?, ["dev-2"]);
    case.gone::<Secret>("dev-1").await?;

    case.change::<TargetSync>("sync", &json!({"spec": {"secretNameExpression": "*"}})).await?;
    until_error(&case, "sync", "are both set").await?;
    assert_eq!(target_names(&case).await?, ["dev-2"]);
    Ok(())
}

/// A cluster without the kind Shoot leads to an error. Otherwise all Shoots would seem to be
/// deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_without_the_kind() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "no-garden").await?;
    let kubeconfig = std::fs::read_to_string(system.plane.kubeconfig())?;
    case.create::<Secret>("access", &json!({"stringData": {"kubeconfig": kubeconfig}})).await?;
    let spec =
        json!({"sourceNamespace": "default", "secretRef": {"name": "access"}, "shootNameExpression": "*"});
    case.create::<TargetSync>("sync", &json!({ "spec": spec })).await?;
    until_error(&case, "sync", "the source cluster does not serve the kind Shoot").await?;
    Ok(())
}

/// Unusable credentials are reported with the name of the Secret.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_cannot_be_used() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "no-access").await?;
    let spec = json!({"sourceNamespace": "x", "secretRef": {"name": "access"}, "secretNameExpression": "*"});
    case.create::<TargetSync>("sync", &json!({ "spec": spec })).await?;
    until_error(&case, "sync", "spec.secretRef: the secret access does not exist, or has no entry").await?;
    let exec = crate::target_sync_source::kubeconfig(
        "https://example.org",
        &json!({"exec": {"command": CANARY, "apiVersion": "v1"}}),
    );
    case.create::<Secret>("access", &json!({"stringData": {"kubeconfig": exec.to_string()}})).await?;
    until_error(&case, "sync", "spec.secretRef: its kubeconfig cannot be used: exec is refused").await?;
    Ok(())
}

/// The token of a service account of the source is renewed at once, and when a user requests it.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_renewed() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, garden) = (Case::new(system, "rotation").await?, Garden::new("garden-rotation").await?);
    let (namespace, cluster) = (&garden.namespace, &garden.cluster);
    garden.create_secret("a", "first").await?;
    let folder = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    cluster
        .create(
            &folder,
            &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "syncer"}}),
        )
        .await?;
    let rights = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "syncer"}, "rules": rules,
    });
    cluster.create(&format!("{rights}/roles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "syncer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "syncer"},
        "subjects": [{"kind": "ServiceAccount", "name": "syncer", "namespace": namespace}],
    });
    cluster.create(&format!("{rights}/rolebindings"), &binding).await?;
    let file = cluster.plane.service_account_kubeconfig(namespace, "syncer").await?;
    let before = std::fs::read_to_string(file)?;
    case.create::<Secret>("access", &json!({"stringData": {"kubeconfig": before, "note": "stays"}})).await?;
    let fields = json!({"secretNameExpression": "^a$", "tokenRotation": {"enabled": true}});
    case.create::<TargetSync>("sync", &garden.sync(&fields)).await?;

    // Without the right to renew the token, the Secrets are still mirrored.
    until_error(
        &case,
        "sync",
        "the token of spec.secretRef was not renewed: the user of spec.secretRef may not",
    )
    .await?;
    assert_eq!(
        (target_names(&case).await?, content(&case, "access").await?),
        (vec!["a".to_owned()], before.clone())
    );

    let more = json!([rules[0], {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["syncer"], "verbs": ["create"]}]);
    cluster.change(&format!("{rights}/roles/syncer"), &json!({"rules": more})).await?;
    let sync = until_well(&case, "sync").await?;
    let renewed = sync.status.unwrap_or_default().last_token_rotation_time;
    ensure!(renewed.is_some(), "it does not say when");
    let first = content(&case, "access").await?;
    ensure!(token(&first)? != token(&before)?, "the token is the same");
    assert_eq!(case.get::<Secret>("access").await?.data.unwrap_or_default()["note"].0, b"stays");

    // The new token works for the source, and is not renewed before its time.
    garden.create_secret("b", "second").await?;
    next_round(&case, "sync").await?;
    assert_eq!(content(&case, "access").await?, first);

    let rotate = "landscaper.gardener.cloud/rotate-token";
    case.change::<TargetSync>("sync", &json!({"metadata": {"annotations": {rotate: "yes"}}})).await?;
    wait_for("the token is another one, and nobody asks any more", PATIENCE, async || {
        let sync = case.get::<TargetSync>("sync").await.map_err(|error| error.to_string())?;
        let is_asked = sync.metadata.annotations.is_some_and(|all| all.contains_key(rotate));
        let now = content(&case, "access").await.map_err(|error| error.to_string())?;
        if is_asked || now == first { Err(format!("{is_asked}")) } else { Ok(()) }
    })
    .await?;
    ensure!(
        case.list::<ServiceAccount>("")
            .await?
            .iter()
            .all(|found| found.metadata.name.as_deref() != Some("syncer"))
    );
    Ok(())
}

fn token(kubeconfig: &str) -> Result<String> {
    let kubeconfig: Value = groundwork_yaml::from_str(kubeconfig)?;
    Ok(kubeconfig["users"][0]["user"]["token"].as_str().context("it has no token")?.to_owned())
}
