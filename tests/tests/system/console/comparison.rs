//! Comparison of two variants of a set, field by field.

use anyhow::{Context, Result, ensure};
use groundwork_api::PackageVariantSet;
use groundwork_tests::wait_for;
use serde_json::json;

use super::browser::Browser;
use super::{account_with, says};
use crate::case::Case;
use crate::support::PATIENCE;

const SET: &str = "/sets/fleet/pair";

/// A user who may get both variants sees their differences, and the page of the set offers the
/// choice.
pub(super) async fn of_two_variants(case: &Case<'_>, reader: &Browser, port: u16) -> Result<()> {
    let set = json!({"spec": {
        "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v1"},
        "targets": [{"repositories": [{"name": "edge", "packageNames": ["left", "right"]}]}],
    }});
    case.create::<PackageVariantSet>("pair", &set).await?;
    let found = wait_for("the set has two variants", PATIENCE, async || {
        let set = reader.json(&format!("{SET}.json")).await.map_err(|error| format!("{error:#}"))?;
        if set["total"] == 2 { Ok(set) } else { Err(set.to_string()) }
    })
    .await?;
    let name = |package: &str| {
        let all = found["variants"].as_array().into_iter().flatten();
        let mut fitting = all.filter(|variant| variant["downstream"] == format!("edge/{package}"));
        let place = fitting.next().and_then(|variant| variant["place"].as_str());
        place.and_then(|place| place.split('/').next_back()).map(str::to_owned).context("a variant")
    };
    let (left, right) = (name("left")?, name("right")?);
    let form = reader.page(SET).await?;
    ensure!(form.contains(&format!("<option value=\"{left}\">edge/left</option>")), "{form}");
    ensure!(form.contains("action=\"/sets/fleet/pair/compare\""), "{form}");

    let address = format!("/sets/fleet/pair/compare?left={left}&right={right}");
    let page = reader.page(&address).await?;
    ensure!(page.contains("spec.downstream.package"), "{page}");
    let twin = reader.json(&address.replace("compare?", "compare.json?")).await?;
    let differences = twin["differences"].as_array().context("a list")?;
    let package = json!({"path": "spec.downstream.package", "left": "left", "right": "right"});
    ensure!(differences.contains(&package), "{twin}");
    ensure!(!differences.iter().any(|field| field["path"] == "spec.upstream.package"), "{twin}");
    // The page reads the same variant twice, and a service may write its status in between, so
    // fields of the status may differ.
    says(reader, &format!("/sets/fleet/pair/compare?left={left}&right={left}"), "have the same").await?;
    ensure!(
        reader.page("/sets/fleet/pair/compare").await?.contains("Enter the names"),
        "nothing is chosen yet"
    );
    let elsewhere = format!("/sets/fleet/all-edges/compare?left={left}&right={right}");
    assert_eq!(reader.get(&elsewhere).await?.status, 404, "they belong to another set");
    assert_eq!(reader.get(&format!("/sets/fleet/pair/compare?left={left}")).await?.status, 400);

    let sets = [("get", "packagevariantsets.config.porch.kpt.dev")];
    let partial = Browser::signed_in(port, &account_with(case, "partial", &sets).await?).await?;
    ensure!(!partial.page(SET).await?.contains("/compare"), "nothing is offered that one may not see");
    assert_eq!(partial.get(&address).await?.status, 403);
    let nobody = Browser::signed_in(port, &account_with(case, "nobody", &[]).await?).await?;
    for path in ["/sets/fleet/pair/compare", address.as_str()] {
        assert_eq!(nobody.get(path).await?.status, 403, "{path}");
    }
    Ok(())
}
