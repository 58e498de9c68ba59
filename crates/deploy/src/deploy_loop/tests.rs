use serde_json::json;

use super::*;
use crate::tokens::TokenRules;
use crate::watches::tests::{key, open, server};

/// Returns an item whose job began this number of seconds ago.
pub(crate) fn item(started_ago: i64) -> DeployItem {
    let start = Timestamp::now() - SignedDuration::from_secs(started_ago);
    serde_json::from_value(json!({
        "metadata": {"name": "a"}, "spec": {"type": "t"},
        "status": {"phase": "Progressing", "jobID": "1", "transitionTimes": {"initTime": start.to_string()}},
    }))
    .unwrap()
}

/// A deployer without effect, for items of one type.
struct Idle(&'static str);

#[async_trait]
impl Deployer for Idle {
    fn type_name(&self) -> &'static str {
        self.0
    }

    async fn reconcile(&self, _: &Round<'_>) -> Result<Step, Failure> {
        Ok(Step::waiting("nothing".to_owned(), None, Vec::new()))
    }

    async fn delete(&self, _: &Round<'_>) -> Result<Removal, Failure> {
        Ok(Removal::Done)
    }
}

fn deploy_loop(item_type: &'static str, watches: Watches) -> DeployLoop {
    DeployLoop {
        deployer: Arc::new(Idle(item_type)),
        information: identity("own".to_owned(), "deployer", "1"),
        selectors: TargetSelectors::default(),
        targets: Targets::new(None, "test", groundwork_apply::Answers::default(), TokenRules::default()),
        watches,
        journal: Journal::default(),
    }
}

/// Every deployer of a process sees every item. A watch that one deployer has opened for its item
/// must survive when others see the item.
#[tokio::test]
async fn items_of_other_deployers() {
    let (cluster, _asked) = server();
    let watches = Watches::new(8, &groundwork_telemetry::Metrics::default());
    let (own, other) = (deploy_loop("t", watches.of_another()), deploy_loop("other", watches.of_another()));
    let content = serde_json::to_value(item(1)).unwrap();
    let shown = Snapshot::new(item(1).metadata, &["spec.type", "status.jobID"], &content);
    own.watches.keep(&key(), open(&own.watches, &cluster).await);
    for deploy_loop in [&other, &own] {
        deploy_loop.observe(&key(), &Change::Applied(shown.clone()));
    }
    assert!(own.watches.take(&key()).is_some(), "it still waits");
    own.watches.keep(&key(), open(&own.watches, &cluster).await);
    let shown = Snapshot::new(item(1).metadata, &["spec.type"], &content);
    own.observe(&key(), &Change::Applied(shown));
    assert!(own.watches.take(&key()).is_none(), "its job has ended");
}

/// Another process keeps an item as long as it renews its claim now and then; the same process
/// continues at once after a restart.
#[test]
fn items_of_other_processes() {
    let deploy_loop = deploy_loop("t", Watches::new(0, &groundwork_telemetry::Metrics::default()));
    for (owner, said_ago, is_left_alone) in
        [("own", 0, false), ("other", 0, true), ("other", 50, true), ("other", 61, false)]
    {
        let mut item = item(100);
        let status = item.status.get_or_insert_default();
        status.deployer = Some(identity(owner.to_owned(), "deployer", "1"));
        status.last_reconcile_time = Some(Time(Timestamp::now() - SignedDuration::from_secs(said_ago)));
        let left = deploy_loop.owned_for(&item);
        assert_eq!(left.is_some(), is_left_alone, "{owner} {said_ago}: {left:?}");
        let before = item.clone();
        renew(&mut item);
        assert_eq!(item == before, said_ago == 0, "{said_ago}");
    }
}

#[test]
fn what_fails_for_too_long_has_failed() {
    let failure =
        || Failure::from(OperationError::transient("Reconcile", Reason::TargetCluster, "it is away"));
    let early = failed(&item(10), failure(), Deadline(Some(Timestamp::now() + SignedDuration::from_secs(9))));
    assert_eq!(early.phase, "Progressing");
    let late = failed(&item(10), failure(), Deadline(Some(Timestamp::now())));
    assert_eq!(late.phase, "Failed");
    let error = late.error.unwrap();
    assert_eq!((error.reason.as_str(), &error.codes[..]), ("ProgressingTimeout", &[ErrorCode::Timeout][..]));
    assert!(error.message.ends_with("it is away"), "{}", error.message);
    assert_eq!(failed(&item(10), failure(), Deadline(None)).phase, "Progressing");
}
