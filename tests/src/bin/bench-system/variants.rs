//! Benchmark of one set that creates many PackageVariants.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use groundwork_api::{PackageRevision, PackageVariant, PackageVariantSet};
use groundwork_tests::wait_for;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Map, Value, json};

use crate::requests::AuditLog;
use crate::scenario::{Bench, rounded};

const NAMESPACE: &str = "bench-variants";
const PATIENCE: Duration = Duration::from_secs(600);

impl Bench {
    /// Measures the time until all variants exist and until each has its status, and the requests
    /// for both.
    pub(crate) async fn variants(&mut self, count: usize) -> Result<Map<String, Value>> {
        self.system.plane.create_namespace(NAMESPACE).await?;
        let client = self.system.client().await?;
        let parameters = PostParams::default();
        let upstream = json!({"metadata": {"name": "catalog.dns.w1"}, "spec": {"repository": "catalog", "packageName": "dns",
            "revision": 1, "workspaceName": "w1", "lifecycle": "Published"}});
        let revisions: Api<PackageRevision> = Api::namespaced(client.clone(), NAMESPACE);
        revisions.create(&parameters, &serde_json::from_value(upstream)?).await?;
        let repositories: Vec<Value> =
            (0..count).map(|index| json!({"name": format!("cluster-{index:04}")})).collect();
        let set = json!({"metadata": {"name": "fleet"}, "spec": {
            "upstream": {"repo": "catalog", "package": "dns", "revision": "v1"}, "targets": [{"repositories": repositories}]}});
        let sets: Api<PackageVariantSet> = Api::namespaced(client.clone(), NAMESPACE);
        let variants: Api<PackageVariant> = Api::namespaced(client, NAMESPACE);

        let mut log = AuditLog::open(&self.system.plane.audit_log().context("there is an audit log")?)?;
        let start = Instant::now();
        sets.create(&parameters, &serde_json::from_value(set)?).await?;
        wait_for("the set is ready", PATIENCE, async || {
            let set = sets.get_status("fleet").await.map_err(|error| error.to_string())?;
            let status = set.status.unwrap_or_default();
            let is_ready =
                status.conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True");
            if is_ready { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await?;
        let made = start.elapsed();
        wait_for("all variants have a status", PATIENCE, async || {
            let found = variants.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let told = found.iter().filter(|variant| variant.status.is_some()).count();
            if told == count { Ok(()) } else { Err(format!("{told} of {}", found.len())) }
        })
        .await?;
        let mut figures = Map::new();
        figures.insert("variants.count".into(), json!(count));
        figures.insert("variants.made_seconds".into(), rounded(made.as_secs_f64()));
        figures.insert("variants.all_told_seconds".into(), rounded(start.elapsed().as_secs_f64()));
        for (request, times) in log.counts()? {
            figures.insert(format!("variants.requests.{request}"), json!(times));
        }
        Ok(figures)
    }
}
