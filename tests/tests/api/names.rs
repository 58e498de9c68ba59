//! `crates/api/src/kubernetes` accepts the same names, labels and annotations as an API server.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use groundwork_api::kubernetes::{
    is_annotation_key, is_dns_label, is_dns_subdomain, is_label_key, is_label_value,
};
use groundwork_tests::{Cluster, cluster};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};

/// Returns texts that are valid as names, keys or values in some places, and some that are valid in
/// none.
fn texts() -> Vec<String> {
    let plain = [
        "a", "7", "a-b", "a.b", "a..b", "-a", "a-", ".a", "a.", "a.-b", "a_b", "_a", "A", "aB", "a b", "a:b",
        "ä", "", "a/b", "A.org/b", "a.org/B", "a/b/c", "/a", "a/", "a..b/c", "-a/b", "a_b/c", "a/-b", "a\nb",
        "a%b",
    ];
    let mut texts: Vec<String> = plain.into_iter().map(str::to_owned).collect();
    for length in [63, 64, 253, 254] {
        texts.push("x".repeat(length));
        texts.push(format!("{}/y", "x".repeat(length)));
        texts.push(format!("y/{}", "x".repeat(length)));
    }
    texts
}

/// Returns the API server's objection to an object in a dry run, empty if it has none.
async fn answer<K>(api: &Api<K>, object: &K) -> Result<String>
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    match api.create(&parameters, object).await {
        Ok(_) => Ok(String::new()),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(status.message.clone()),
        Err(error) => bail!(error),
    }
}

async fn answer_about(cluster: &Cluster, metadata: ObjectMeta) -> Result<String> {
    answer(&cluster.api::<ConfigMap>(), &ConfigMap { metadata, ..ConfigMap::default() }).await
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn one(key: &str, value: &str) -> Option<BTreeMap<String, String>> {
    Some(BTreeMap::from([(key.to_owned(), value.to_owned())]))
}

#[tokio::test]
async fn names_are_taken_as_the_api_server_takes_them() -> Result<()> {
    let Some(cluster) = cluster("names").await? else {
        return Ok(());
    };
    let namespaces = Api::<Namespace>::all(cluster.client());
    for text in texts() {
        let said = answer_about(&cluster, named(&text)).await?;
        ensure!(said.is_empty() == is_dns_subdomain(&text), "the name {text:?}: {said:?}");
        let namespace = Namespace { metadata: named(&text), ..Namespace::default() };
        let said = answer(&namespaces, &namespace).await?;
        ensure!(said.is_empty() == is_dns_label(&text), "the namespace {text:?}: {said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn keys_and_values_are_taken_as_the_api_server_takes_them() -> Result<()> {
    let Some(cluster) = cluster("labels").await? else {
        return Ok(());
    };
    for text in texts() {
        let said = answer_about(&cluster, ObjectMeta { labels: one(&text, "v"), ..named("a") }).await?;
        ensure!(said.is_empty() == is_label_key(&text), "the key {text:?}: {said:?}");

        let said = answer_about(&cluster, ObjectMeta { labels: one("k", &text), ..named("a") }).await?;
        ensure!(said.is_empty() == is_label_value(&text), "the value {text:?}: {said:?}");

        let said = answer_about(&cluster, ObjectMeta { annotations: one(&text, "v"), ..named("a") }).await?;
        ensure!(said.is_empty() == is_annotation_key(&text), "the annotation {text:?}: {said:?}");
    }
    Ok(())
}
