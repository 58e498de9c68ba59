//! Failure of an operation on a release (`helm.md` 9.5 and 9.6, step F).

use groundwork_apply::ApplyError;
use groundwork_helm::{Record, Status};
use jiff::{SignedDuration, Timestamp};

use super::history::Stored;
use super::release::ReleaseRun;

/// Result of handling a failed operation.
#[derive(Debug, Clone)]
pub(super) enum Failing {
    /// The operation has failed for good, with this message.
    Told(String),
    /// A rollback to the revision before has begun, with this reason to wait.
    RollsBack(String),
}

impl ReleaseRun<'_> {
    /// Marks the operation of the last record as failed. With `atomic`, an install is uninstalled
    /// and an upgrade is rolled back.
    pub(super) async fn fail(&mut self, error: &str) -> Result<Failing, ApplyError> {
        let told = |text: String| Ok(Failing::Told(text));
        let Some(mut record) = self.history.last().map(|stored| stored.record.clone()) else {
            return told(error.to_owned());
        };
        if !record.status().is_pending()
            || !self.history.last().is_some_and(|last| last.is_of(&self.author.job))
        {
            return told(error.to_owned());
        }
        let name = self.owner.name.clone();
        let status = record.status();
        let verb = match status {
            Status::PendingInstall => "Release",
            Status::PendingRollback => "Rollback",
            _ => "Upgrade",
        };
        record.set_status(Status::Failed, &format!("{verb} {name:?} failed: {error}"));
        let revision = record.revision();
        self.history.update(record, &self.author).await?;
        match status {
            Status::PendingRollback => {
                self.rollback_until = None;
                told(format!(
                    "an error occurred while rolling back the release. original upgrade error: {}: {error}",
                    self.upgrade_error()
                ))
            }
            Status::PendingInstall if self.options.atomic => told(match self.uninstall(false).await {
                Ok(_) => format!(
                    "release {name} failed, and has been uninstalled due to atomic being set: {error}"
                ),
                Err(second) => format!(
                    "an error occurred while uninstalling the release. original install error: {error}: {second}"
                ),
            }),
            Status::PendingUpgrade if self.options.atomic => self.roll_back(revision, error).await,
            _ => told(error.to_owned()),
        }
    }

    /// Returns the error of the upgrade that a rollback reverts.
    pub(super) fn upgrade_error(&self) -> String {
        let failed = self.history.revisions.iter().rev().find(|stored| {
            let record = &stored.record;
            record.status() == Status::Failed && !record.description().starts_with("Rollback ")
        });
        failed.map(|stored| stored.record.description().to_owned()).unwrap_or_default()
    }

    /// Begins a rollback to the last revision that was deployed successfully.
    async fn roll_back(&mut self, revision: i64, error: &str) -> Result<Failing, ApplyError> {
        let was_good =
            |stored: &&Stored| matches!(stored.record.status(), Status::Deployed | Status::Superseded);
        let Some(target) = self.history.revisions.iter().rev().find(was_good) else {
            return Ok(Failing::Told(format!(
                "unable to find a previously successful release when attempting to rollback. original upgrade error: {error}"
            )));
        };
        let now = Timestamp::now();
        let mut rollback = Record::rollback(&target.record, revision + 1);
        rollback.set_time("last_deployed", &now.to_string());
        self.history.create(rollback, &self.author).await?;
        self.rollback_until = self.rollback_time().and_then(|time| now.checked_add(time).ok());
        let name = &self.owner.name;
        Ok(Failing::RollsBack(format!(
            "release {name} failed, and is rolled back due to atomic being set: {error}"
        )))
    }

    /// Returns the time limit of a rollback: the time-out of the upgrade once more, as in Helm.
    /// `None` for an item without a limit.
    fn rollback_time(&self) -> Option<SignedDuration> {
        let time = self.options.timeout.or_else(|| self.round.timeout())?;
        SignedDuration::try_from(time).ok()
    }
}
