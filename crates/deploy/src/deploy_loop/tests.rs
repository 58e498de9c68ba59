use serde_json::json;

use super::*;

/// One whose job began so many seconds ago.
pub(crate) fn item(started_ago: i64) -> DeployItem {
    let start = Timestamp::now() - SignedDuration::from_secs(started_ago);
    serde_json::from_value(json!({
        "metadata": {"name": "a"}, "spec": {"type": "t"},
        "status": {"phase": "Progressing", "jobID": "1", "transitionTimes": {"initTime": start.to_string()}},
    }))
    .unwrap()
}

/// Does nothing.
struct Idle;

#[async_trait]
impl Deployer for Idle {
    fn type_name(&self) -> &'static str {
        "t"
    }

    async fn reconcile(&self, _: &Round<'_>) -> Result<Step, Failure> {
        Ok(Step::waiting("nothing".to_owned(), None, Vec::new()))
    }

    async fn delete(&self, _: &Round<'_>) -> Result<Removal, Failure> {
        Ok(Removal::Done)
    }
}

/// Another process is left alone for as long as it says now and then that it works; the same one goes on at once.
#[test]
fn items_of_other_processes() {
    let deploy_loop = DeployLoop {
        deployer: Arc::new(Idle),
        information: identity("own".to_owned(), "deployer", "1"),
        selectors: TargetSelectors::default(),
        targets: Targets::new(None, "test"),
        watches: Watches::new(0, &groundwork_telemetry::Metrics::default()),
        journal: Journal::default(),
    };
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
    let failure = || Failure::from(OperationError::transient("Reconcile", "Apply", "it is away"));
    let early = failed(&item(10), failure(), Deadline(Some(Timestamp::now() + SignedDuration::from_secs(9))));
    assert_eq!(early.phase, "Progressing");
    let late = failed(&item(10), failure(), Deadline(Some(Timestamp::now())));
    assert_eq!(late.phase, "Failed");
    let error = late.error.unwrap();
    assert_eq!((error.reason.as_ref(), &error.codes[..]), ("ProgressingTimeout", &[ErrorCode::Timeout][..]));
    assert!(error.message.ends_with("it is away"), "{}", error.message);
    assert_eq!(failed(&item(10), failure(), Deadline(None)).phase, "Progressing");
}
