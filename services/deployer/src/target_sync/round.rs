//! One round of a TargetSync. An error of one cluster does not keep other clusters from their
//! Targets. But while there is any error no object is deleted, because a cluster that was not seen
//! may still exist (`installations.md` 1.5).

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::label;
use groundwork_api::{ByteString, ResourceExt, Target, TargetSync, Time};
use groundwork_controller::{ApiError, Objects};
use groundwork_deploy::{Source, SourceError, Targets};
use groundwork_lifecycle::target_sync::{
    Home, KUBECONFIG, Mirror, Names, Obsolete, Selection, Write, account, is_due, obsolete, selection,
    target_to_source, token_is_due, with_token, write,
};
use k8s_openapi::api::core::v1::Secret;

use super::now;

/// Result of a round.
#[derive(Debug, Default)]
pub(super) struct RoundResult {
    pub(super) errors: Vec<String>,
    /// Time at which the token was renewed, if it was.
    pub(super) rotated: Option<Time>,
    /// True if the namespace has several TargetSyncs, so that no round took place.
    pub(super) is_stopped: bool,
}

impl RoundResult {
    pub(super) fn stopped(error: String) -> Self {
        Self { errors: vec![error], is_stopped: true, ..Self::default() }
    }

    /// Returns the reason of the Event about the errors.
    pub(super) fn reason(&self) -> &'static str {
        if self.is_stopped { "SeveralTargetSyncs" } else { "TargetSyncFailed" }
    }
}

pub(super) async fn run(sync: &TargetSync, targets: &Targets, objects: &Objects) -> RoundResult {
    let mut round = Round { sync, targets, objects, outcome: RoundResult::default() };
    if let Err(error) = round.run().await {
        round.outcome.errors.push(error.to_string());
    }
    round.outcome
}

/// Errors that end a round.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("{0}")]
    Spec(#[from] groundwork_lifecycle::target_sync::SpecError),
    #[error("{0}")]
    Source(#[from] SourceError),
    #[error("{0}")]
    Home(#[from] ApiError),
}

struct Round<'a> {
    sync: &'a TargetSync,
    targets: &'a Targets,
    objects: &'a Objects,
    outcome: RoundResult,
}

impl Round<'_> {
    async fn run(&mut self) -> Result<(), End> {
        let selection = selection(&self.sync.spec)?;
        if token_is_due(self.sync, &now())
            && let Err(error) = self.rotate().await
        {
            self.outcome.errors.push(format!("the token of spec.secretRef was not renewed: {error}"));
        }
        let home = home(self.sync, self.objects).await?;
        let mirrored = match selection {
            Selection::Nothing => BTreeSet::new(),
            Selection::Secrets(names) => self.secrets(&names, &home).await?,
            Selection::Shoots(names) => self.shoots(&names, &home).await?,
        };
        self.source_itself(&home, &mirrored).await;
        // With errors, a missing cluster may only have been unreadable.
        if self.outcome.errors.is_empty() {
            delete(self.sync, obsolete(self.sync, home, &mirrored), self.objects).await?;
        }
        Ok(())
    }

    async fn source(&self) -> Result<Source, SourceError> {
        Source::of(self.sync, self.targets, self.objects).await
    }

    /// Mirrors the selected Secrets, and returns their names.
    async fn secrets(&mut self, names: &Names, home: &Home) -> Result<BTreeSet<String>, End> {
        let mut found = self.source().await?.secrets().await?;
        found.retain(|name, _| names.has(name));
        let mirrored = found.keys().cloned().collect();
        for (name, data) in found {
            self.mirror(Mirror { name, data }, home).await;
        }
        Ok(mirrored)
    }

    /// Fetches kubeconfigs for the selected Shoots where a new one is due, and returns the names of
    /// all selected Shoots.
    async fn shoots(&mut self, names: &Names, home: &Home) -> Result<BTreeSet<String>, End> {
        let source = self.source().await?;
        let found = source.shoots().await?;
        let mirrored: BTreeSet<String> = found.into_iter().filter(|name| names.has(name)).collect();
        for name in mirrored.iter().filter(|name| is_due(home, name, &now())) {
            match source.shoot_kubeconfig(name).await {
                Ok(kubeconfig) => {
                    let data: BTreeMap<String, ByteString> = [(KUBECONFIG.to_owned(), kubeconfig)].into();
                    self.mirror(Mirror { name: name.clone(), data }, home).await;
                }
                Err(error) => {
                    self.outcome.errors.push(format!("cannot get a kubeconfig of the Shoot {name}: {error}"));
                }
            }
        }
        Ok(mirrored)
    }

    /// Writes the Target of the source cluster. A mirrored Target with the same name is an error.
    async fn source_itself(&mut self, home: &Home, mirrored: &BTreeSet<String>) {
        let Some(name) = self.sync.spec.target_to_source() else { return };
        if mirrored.contains(name) {
            self.outcome.errors.push(format!(
                "the Target of the source cluster was not created: a mirrored Target has the same name {name}; set \
                 spec.targetToSourceName to another name"
            ));
        } else if let Some(write) = target_to_source(self.sync, home, name, &now()) {
            self.write(name, vec![write]).await;
        }
    }

    async fn mirror(&mut self, mirror: Mirror, home: &Home) {
        let name = mirror.name.clone();
        match write(self.sync, home, mirror, &now()) {
            Ok(writes) => self.write(&name, writes).await,
            Err(problem) => self.outcome.errors.push(problem),
        }
    }

    /// Writes a Secret, its Target, or both in this order. If the Secret fails, the Target is not
    /// written.
    async fn write(&mut self, name: &str, writes: Vec<Write>) {
        for write in writes {
            let (kind, answer) = match write {
                Write::Secret(secret) => ("secret", put(&*secret, self.objects).await),
                Write::Target(target) => ("target", put(&*target, self.objects).await),
            };
            let problem = match answer {
                Ok(()) => continue,
                Err(ApiError::AlreadyExists(_)) => format!(
                    "the {kind} {name} of this namespace was not created by a TargetSync, so it is not overwritten: \
                     delete it, or choose other names"
                ),
                Err(error) => error.to_string(),
            };
            self.outcome.errors.push(problem);
            return;
        }
    }

    /// Writes a new token of the same account into the Secret. The old token stays valid until it
    /// expires, so that its users are not interrupted.
    async fn rotate(&mut self) -> Result<(), String> {
        let (spec, namespace) = (&self.sync.spec, self.sync.namespace().unwrap_or_default());
        let (name, key) = (&spec.secret_ref.name, spec.secret_key());
        let secret = self.objects.get::<Secret>(&namespace, name).await.map_err(|error| error.to_string())?;
        let missing = || format!("the secret {name} does not exist, or has no entry {key:?}");
        let mut secret = secret.ok_or_else(missing)?;
        let entry = secret.data.as_mut().and_then(|data| data.get_mut(key)).ok_or_else(missing)?;
        let unusable = |problem: groundwork_lifecycle::target_sync::TokenError| {
            format!("the kubeconfig in the entry {key:?} of the secret {name} cannot be used: {problem}")
        };
        let kubeconfig = String::from_utf8_lossy(&entry.0).into_owned();
        let account = account(&kubeconfig).map_err(unusable)?;
        let source = self.source().await.map_err(|error| error.to_string())?;
        let token = source.token(&account).await.map_err(|error| error.to_string())?;
        *entry = ByteString(with_token(&kubeconfig, &token).map_err(unusable)?.into_bytes());
        self.objects.replace(&secret).await.map_err(|error| error.to_string())?;
        self.outcome.rotated = Some(now());
        Ok(())
    }
}

/// Returns the objects in the namespace that a TargetSync has made.
pub(super) async fn home(sync: &TargetSync, objects: &Objects) -> Result<Home, ApiError> {
    let (namespace, own) =
        (sync.namespace().unwrap_or_default(), format!("{}={}", label::TARGET_SYNC, label::TARGET_SYNC_OK));
    Ok(Home::new(objects.list(&namespace, &own).await?, objects.list(&namespace, &own).await?))
}

/// Deletes obsolete objects, Targets first, so that no service finds a Target without its Secret.
/// An object that is already gone is not an error.
pub(super) async fn delete(sync: &TargetSync, obsolete: Obsolete, objects: &Objects) -> Result<(), ApiError> {
    let namespace = sync.namespace().unwrap_or_default();
    for target in obsolete.targets {
        objects.delete::<Target>(&namespace, &target.name_any(), target.uid().as_deref(), None).await?;
    }
    for secret in obsolete.secrets {
        objects.delete::<Secret>(&namespace, &secret.name_any(), secret.uid().as_deref(), None).await?;
    }
    Ok(())
}

/// Creates an object, or replaces exactly the version that was read. If another writer has changed
/// the object, this fails.
async fn put<K: groundwork_controller::Stored>(object: &K, objects: &Objects) -> Result<(), ApiError> {
    match object.meta().resource_version {
        Some(_) => objects.replace(object).await.map(drop),
        None => objects.create(object).await.map(drop),
    }
}
