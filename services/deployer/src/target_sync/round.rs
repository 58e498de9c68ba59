//! One round of a TargetSync. What goes wrong with one cluster keeps no other from its Target; but
//! as long as something is wrong nothing is deleted, since what cannot be seen may be there
//! (`installations.md` 1.5).

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

/// How a round has ended.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) errors: Vec<String>,
    /// When the token was renewed, if it was.
    pub(super) rotated: Option<Time>,
    /// There are several TargetSyncs, so there was no round.
    pub(super) is_stopped: bool,
}

impl Outcome {
    pub(super) fn stopped(error: String) -> Self {
        Self { errors: vec![error], is_stopped: true, ..Self::default() }
    }

    /// The reason of the Event about the errors.
    pub(super) fn reason(&self) -> &'static str {
        if self.is_stopped { "SeveralTargetSyncs" } else { "TargetSyncFailed" }
    }
}

pub(super) async fn run(sync: &TargetSync, targets: &Targets, objects: &Objects) -> Outcome {
    let mut round = Round { sync, targets, objects, outcome: Outcome::default() };
    if let Err(error) = round.run().await {
        round.outcome.errors.push(error.to_string());
    }
    round.outcome
}

/// What ends a round.
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
    outcome: Outcome,
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
        if self.outcome.errors.is_empty() {
            delete(self.sync, obsolete(self.sync, home, &mirrored), self.objects).await?;
        }
        Ok(())
    }

    async fn source(&self) -> Result<Source, SourceError> {
        Source::of(self.sync, self.targets, self.objects).await
    }

    /// Mirrors the Secrets that are meant, and says which.
    async fn secrets(&mut self, names: &Names, home: &Home) -> Result<BTreeSet<String>, End> {
        let mut found = self.source().await?.secrets().await?;
        found.retain(|name, _| names.has(name));
        let mirrored = found.keys().cloned().collect();
        for (name, data) in found {
            self.mirror(Mirror { name, data }, home).await;
        }
        Ok(mirrored)
    }

    /// Gets kubeconfigs of the Shoots that are meant, where they are due, and says which Shoots.
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
                Err(error) => self.outcome.errors.push(format!("no kubeconfig of the Shoot {name}: {error}")),
            }
        }
        Ok(mirrored)
    }

    /// The Target of the source cluster, whose name must not be that of a mirrored one.
    async fn source_itself(&mut self, home: &Home, mirrored: &BTreeSet<String>) {
        let Some(name) = self.sync.spec.target_to_source() else { return };
        if mirrored.contains(name) {
            self.outcome.errors.push(format!(
                "the source cluster has no Target: its name {name} is that of a mirrored one; set spec.targetToSourceName to another name"
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

    /// Writes a Secret and its Target, or one of them; the second is not tried without the first.
    async fn write(&mut self, name: &str, writes: Vec<Write>) {
        for write in writes {
            let (kind, answer) = match write {
                Write::Secret(secret) => ("secret", put(&*secret, self.objects).await),
                Write::Target(target) => ("target", put(&*target, self.objects).await),
            };
            let problem = match answer {
                Ok(()) => continue,
                Err(ApiError::AlreadyExists(_)) => format!(
                    "the {kind} {name} of this namespace was not made by a TargetSync, so it is not overwritten: delete it, or choose other names"
                ),
                Err(error) => error.to_string(),
            };
            self.outcome.errors.push(problem);
            return;
        }
    }

    /// Puts another token of the same account into the Secret. The one before lives on until its
    /// time is over, so whoever still uses it can.
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

/// What the namespace of a TargetSync holds for it.
pub(super) async fn home(sync: &TargetSync, objects: &Objects) -> Result<Home, ApiError> {
    let (namespace, own) =
        (sync.namespace().unwrap_or_default(), format!("{}={}", label::TARGET_SYNC, label::TARGET_SYNC_OK));
    Ok(Home::new(objects.list(&namespace, &own).await?, objects.list(&namespace, &own).await?))
}

/// Targets go first: nobody is to find one without its Secret. What goes by itself meanwhile is no
/// error.
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

/// Creates an object, or replaces it in the version that it was decided on.
async fn put<K: groundwork_controller::Stored>(object: &K, objects: &Objects) -> Result<(), ApiError> {
    match object.meta().resource_version {
        Some(_) => objects.replace(object).await.map(drop),
        None => objects.create(object).await.map(drop),
    }
}
