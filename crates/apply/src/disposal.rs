//! Disposal of objects that an item gives up: deleted if they belong to the item and no other item
//! lists them, otherwise left or handed over (`installations.md` 7.9, ownership).
//!
//! ```text
//! read ──> gone, kept, or another's ──> left, reported
//!   └─ own ──fates──> heir: handed over
//!                     in use: left
//!                     no heir: patched as wanted, then deleted in the version that was read
//! ```

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use groundwork_controller::ApiError;
use serde_json::{Value, json};

use crate::awaited::DELETION;
use crate::cluster::{Cluster, PatchKind, ResourceKind};
use crate::configuration::Policy;
use crate::context::Deadline;
use crate::error::ApplyError;
use crate::object::{Reference, is_being_deleted, merge_over, resource_version};
use crate::ownership::Giver;
use crate::ownership::{Heir, Marked, Owner, Whose, left_to};
use crate::prepare::annotate;
use crate::record::ManagedResource;
use crate::succession::{Fate, GivenUp, Succession};

/// Maximum attempts to read and delete an object that changes between the two, as an object with a
/// busy status does.
const TRIES: usize = 5;

/// Maximum objects that are read concurrently.
const READ_SIDE_BY_SIDE: usize = 16;

/// Settings for giving up objects, which an item applied and no longer lists.
#[derive(Debug)]
pub struct Disposal<'a> {
    pub cluster: &'a Cluster,
    pub owner: &'a Owner,
    pub succession: &'a dyn Succession,
    pub deadline: Deadline,
    /// Maximum objects that are written concurrently; 1 keeps their order.
    pub side_by_side: usize,
}

/// An object that is given up, with its settings.
#[derive(Debug, Clone)]
pub struct Surplus<'a> {
    pub kind: ResourceKind,
    pub reference: Reference,
    /// Record of the object in the item's status.
    pub settings: Option<&'a ManagedResource>,
    /// The object is deleted regardless of its owner.
    pub is_everybodys: bool,
    /// True if the object's finalizers are removed.
    pub is_forced: bool,
    /// Returns true for a live object whose annotations forbid its deletion.
    pub is_kept: fn(&Value) -> bool,
    /// True if the item waits until the object is gone.
    pub is_awaited: bool,
}

/// Result of giving objects up.
#[derive(Debug, Default)]
pub struct Disposed {
    /// Objects that still exist and have to go, in their last seen state.
    pub left: Vec<(Reference, Value)>,
    /// An object that another item has announced to hand over to this item, and does not carry this
    /// item's mark yet.
    pub in_transit: Option<Reference>,
    /// Messages for users.
    pub told: Vec<Told>,
}

/// A message for users about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Reason of the Event.
    pub reason: &'static str,
    pub message: String,
    /// True if users may have to act.
    pub is_warning: bool,
}

impl Told {
    pub(crate) fn warning(reason: &'static str, message: String) -> Self {
        Self { reason, message, is_warning: true }
    }

    fn left(message: String) -> Self {
        Self::warning("ObjectLeft", message)
    }
}

impl Disposal<'_> {
    /// Gives objects up, and returns those that still exist.
    ///
    /// # Errors
    ///
    /// The cluster does not answer or refuses, or the item's time is over.
    pub async fn dispose(&self, surplus: &[Surplus<'_>]) -> Result<Disposed, ApplyError> {
        let reads = surplus.iter().map(|one| self.cluster.get_of(&one.kind, &one.reference));
        let reads: Vec<_> = reads.collect();
        let found: Vec<_> = stream::iter(reads).buffered(READ_SIDE_BY_SIDE).collect().await;
        let mut disposed = Disposed::default();
        let (mut own, mut ready) = (Vec::new(), Vec::new());
        for (one, live) in surplus.iter().zip(found) {
            let Some(live) = live? else { continue };
            match self.standing(one, &live) {
                Standing::Stays => {}
                Standing::Anothers(other) => {
                    disposed.told.push(Told::left(left_to(&one.reference, &other)));
                }
                Standing::Givers(giver) if self.succession.is_handing_over(giver).await? => {
                    disposed.in_transit = Some(one.reference.clone());
                }
                Standing::Givers(_) => own.push((one, live)),
                // These objects need no decision: they are deleted regardless of their owner, or
                // their deletion has already been requested.
                Standing::Goes if one.is_everybodys || is_being_deleted(&live) => ready.push((one, live)),
                Standing::Goes => own.push((one, live)),
            }
        }
        let (condemned, told) = self.settle(own).await?;
        disposed.told.extend(told);
        ready.extend(condemned);
        let position = |one: &Surplus<'_>| surplus.iter().position(|other| std::ptr::eq(one, other));
        ready.sort_by_key(|(one, _)| position(one));
        let work: Vec<_> = ready
            .into_iter()
            .map(|(one, live)| self.delete(one, live).map(|answer| (one.reference.clone(), answer)))
            .collect();
        let answers: Vec<_> = stream::iter(work).buffered(self.side_by_side).collect().await;
        let mut errors = Vec::new();
        for (reference, answer) in answers {
            match answer {
                Ok(Deleted::Gone) => {}
                Ok(Deleted::Left(told)) => disposed.told.push(told),
                Ok(Deleted::There(live)) => disposed.left.push((reference, live)),
                Err(error) => errors.push(error),
            }
        }
        ApplyError::of_all(errors).map_or(Ok(disposed), Err)
    }

    fn standing<'s>(&self, one: &Surplus<'s>, live: &Value) -> Standing<'s> {
        let policy = one.settings.map_or(Policy::Manage, |settings| settings.policy);
        if matches!(policy, Policy::Keep | Policy::Ignore) || (one.is_kept)(live) {
            return Standing::Stays;
        }
        if one.is_everybodys {
            return Standing::Goes;
        }
        let giver = one.settings.and_then(|settings| settings.inherited_from.as_ref());
        match self.owner.whose(live) {
            Whose::Another(other) => match giver.filter(|giver| giver.has(&other)) {
                Some(giver) => Standing::Givers(giver),
                None => Standing::Anothers(other),
            },
            Whose::Nobodys if policy == Policy::Fallback => Standing::Stays,
            Whose::Nobodys | Whose::Own => Standing::Goes,
        }
    }

    /// Hands over objects that other items list, and returns the rest, which has to be deleted.
    async fn settle<'s>(&self, own: Vec<Live<'s>>) -> Result<(Vec<Live<'s>>, Vec<Told>), ApplyError> {
        if own.is_empty() {
            return Ok(Default::default());
        }
        let given_up: Vec<GivenUp<'_>> = own
            .iter()
            .map(|(one, live)| GivenUp {
                reference: &one.reference,
                live,
                taken_from: one.settings.and_then(|settings| settings.taken_from.as_deref()),
            })
            .collect();
        let fates = self.succession.fates(&given_up).await?;
        let (mut condemned, mut told) = (Vec::new(), Vec::new());
        for ((one, live), fate) in own.into_iter().zip(fates) {
            match fate {
                Fate::Goes => condemned.push((one, live)),
                Fate::HandedOver(heir) => told.extend(self.hand_over(one, live, &heir).await?),
                Fate::InUse { by } => told.push(Told::left(format!(
                    "{} was not deleted: objects of the item {by} would be deleted with it; delete it yourself when \
                     they are gone",
                    one.reference
                ))),
            }
        }
        Ok((condemned, told))
    }

    /// Writes the mark of the heir if the object still has the version that was read; otherwise
    /// reads it again and decides anew.
    async fn hand_over(
        &self,
        one: &Surplus<'_>,
        live: Value,
        heir: &Heir,
    ) -> Result<Option<Told>, ApplyError> {
        let mut live = live;
        for _ in 0..TRIES {
            let mut patch = self.owner.hand_over_patch(heir);
            patch["metadata"]["resourceVersion"] = json!(resource_version(&live));
            match self.cluster.patch(&one.kind, &one.reference, PatchKind::Merge, &patch).await {
                Ok(_) => {
                    let message = format!("{} was handed over to the item {}", one.reference, heir.item);
                    return Ok(Some(Told { reason: "ObjectHandedOver", message, is_warning: false }));
                }
                Err(ApiError::NotFound(_)) => return Ok(None),
                Err(ApiError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
            let Some(now) = self.cluster.get_of(&one.kind, &one.reference).await? else { return Ok(None) };
            match self.standing(one, &now) {
                Standing::Goes | Standing::Givers(_) => live = now,
                Standing::Stays => return Ok(None),
                Standing::Anothers(other) => {
                    return Ok(Some(Told::left(left_to(&one.reference, &other))));
                }
            }
        }
        Err(busy(&one.reference))
    }

    /// Deletes an object if it still has the version that was read; otherwise reads it again and
    /// decides anew.
    async fn delete(&self, one: &Surplus<'_>, live: Value) -> Result<Deleted, ApplyError> {
        let mut live = live;
        let mut tries = 0;
        while !is_being_deleted(&live) {
            tries += 1;
            if tries > TRIES {
                return Err(busy(&one.reference));
            }
            self.deadline.check(&format!("{DELETION}resource {}", one.reference))?;
            if let Some(settings) = one.settings {
                live = changed_before(self.cluster, &one.kind, settings, live).await?;
            }
            match self.cluster.delete(&one.kind, &live).await {
                Ok(()) => break,
                Err(ApiError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
            let Some(now) = self.cluster.get_of(&one.kind, &one.reference).await? else {
                return Ok(Deleted::Gone);
            };
            match self.standing(one, &now) {
                Standing::Goes | Standing::Givers(_) => live = now,
                Standing::Stays => return Ok(Deleted::Gone),
                Standing::Anothers(other) => {
                    return Ok(Deleted::Left(Told::left(left_to(&one.reference, &other))));
                }
            }
        }
        if !one.is_awaited {
            return Ok(Deleted::Gone);
        }
        // Most objects are gone at once, so this read saves a further round.
        let Some(live) = self.cluster.get_of(&one.kind, &one.reference).await? else {
            return Ok(Deleted::Gone);
        };
        let is_held = live["metadata"]["finalizers"].as_array().is_some_and(|names| !names.is_empty());
        if !(one.is_forced && is_held && is_being_deleted(&live)) {
            return Ok(Deleted::There(live));
        }
        self.cluster.strip_finalizers(&one.kind, &live).await?;
        let live = self.cluster.get_of(&one.kind, &one.reference).await?;
        Ok(live.map_or(Deleted::Gone, Deleted::There))
    }
}

/// An object that is given up, in the state that was read.
type Live<'s> = (&'s Surplus<'s>, Value);

/// Relation of an item to a live object that it gives up.
enum Standing<'s> {
    Goes,
    Stays,
    Anothers(Marked),
    /// The object still carries the mark of the item that has announced to hand it over.
    Givers(&'s Giver),
}

fn busy(reference: &Reference) -> ApplyError {
    ApplyError::Retry(format!(
        "{reference}: other clients changed it between each read and the write that followed"
    ))
}

enum Deleted {
    Gone,
    Left(Told),
    There(Value),
}

/// Writes the annotations and the patch that the item configures to be applied before the deletion.
async fn changed_before(
    cluster: &Cluster,
    kind: &ResourceKind,
    settings: &ManagedResource,
    live: Value,
) -> Result<Value, ApplyError> {
    let mut patch = Value::Null;
    annotate(&mut patch, &settings.annotate_before_delete);
    if let Some(change) = &settings.patch_before_delete {
        merge_over(&mut patch, change);
    }
    let mut wanted = live.clone();
    merge_over(&mut wanted, &patch);
    if patch.is_null() || wanted == live {
        return Ok(live);
    }
    Ok(cluster.patch(kind, &settings.resource, PatchKind::Merge, &patch).await?)
}
