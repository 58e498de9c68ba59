//! Steps of the README of `examples/packages`, with the git server of `compose.packages.yaml`.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use groundwork_api::PackageVariantSet;
use groundwork_testkit::{git, unused_port};
use groundwork_tests::{wait_for, workspace};
use serde_json::json;

use crate::case::Case;
use crate::command::run;
use crate::packages::{look, ready, system};
use crate::support::PATIENCE;

/// Git server that ends with the test.
struct GitServer(Child);

impl Drop for GitServer {
    fn drop(&mut self) {
        // Ignore errors, as the process may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn from_a_commit_to_two_clusters() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "example-packages").await?;
    let example = workspace().join("examples/packages");
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    std::fs::create_dir(&data)?;
    let port = unused_port()?;
    let mut command = Command::new(workspace().join("tools/git-server/serve"));
    command.arg(&data).arg(example.join("sources")).args(["127.0.0.1", &port.to_string()]);
    command.args(["catalog", "berlin", "lisbon"]).stdin(Stdio::null());
    let _server = GitServer(command.spawn().context("the git server starts")?);
    let address = |name: &str| format!("git://127.0.0.1:{port}/{name}.git");
    let refs = |name: &str| -> Result<Vec<String>> {
        let listed = git(folder.path(), &["ls-remote", "--heads", "--tags", &address(name)])?;
        Ok(listed.lines().filter_map(|line| line.split('\t').nth(1).map(str::to_owned)).collect())
    };
    wait_for("the git server answers", PATIENCE, async || {
        refs("lisbon").map(drop).map_err(|error| error.to_string())
    })
    .await?;
    ensure!(refs("catalog")? == ["refs/heads/main", "refs/tags/hello/v1"], "{:?}", refs("catalog")?);

    let objects = folder.path().join("objects");
    std::fs::create_dir(&objects)?;
    for file in ["clusters.yaml", "set.yaml"] {
        let text = std::fs::read_to_string(example.join(file))?
            .replace("namespace: packages", &format!("namespace: {}", case.namespace))
            .replace("git://git:9418/", &format!("git://127.0.0.1:{port}/"));
        std::fs::write(objects.join(file), text)?;
    }
    system.kubectl(&["apply", "-f", objects.to_str().context("a path")?]).await?;
    let is_ready =
        |set: &PackageVariantSet| set.status.as_ref().is_some_and(|status| status.variants_ready == Some(2));
    case.until("both variants are ready", "hello", is_ready).await?;
    let clone = |name: &str| -> Result<std::path::PathBuf> {
        git(folder.path(), &["clone", "-q", &address(name), name])?;
        Ok(folder.path().join(name))
    };
    let greeting = |name: &str, reference: &str| -> Result<String> {
        let place = folder.path().join(name);
        git(&place, &["fetch", "-q", "--tags", "origin"])?;
        Ok(git(&place, &["show", &format!("{reference}:hello/greeting.yaml")])?)
    };
    for name in ["berlin", "lisbon"] {
        clone(name)?;
        let text = greeting(name, "origin/drafts/hello/packagevariant-1")?;
        ensure!(text.contains(&format!("site: {name} # what the package")), "{text}");
    }
    for verb in ["propose", "approve"] {
        let arguments = ["packages", verb, "-n", &case.namespace, "berlin.hello.packagevariant-1"];
        let (code, out, err) = run(system, &arguments).await?;
        ensure!(code == 0, "{out} {err}");
    }
    ensure!(greeting("berlin", "hello/v1")?.contains("text: Hello"));

    let catalog = clone("catalog")?;
    let file = catalog.join("hello/greeting.yaml");
    let text = std::fs::read_to_string(&file)?;
    std::fs::write(&file, text.replace("Hello", "Good morning"))?;
    git(&catalog, &["commit", "-qam", "Be polite"])?;
    git(&catalog, &["tag", "hello/v2"])?;
    git(&catalog, &["push", "-q", "origin", "main", "hello/v2"])?;
    look(&case, "catalog").await?;
    let change = json!({"spec": {"upstream": {"revision": "v2"}}});
    case.change::<PackageVariantSet>("hello", &change).await?;
    ready(&case, "hello-berlin-hello", &["berlin.hello.packagevariant-2"]).await?;
    ready(&case, "hello-lisbon-hello", &["lisbon.hello.packagevariant-1"]).await?;
    for (name, draft) in [("berlin", 2), ("lisbon", 1)] {
        let text = greeting(name, &format!("origin/drafts/hello/packagevariant-{draft}"))?;
        ensure!(text.contains("text: Good morning") && text.contains(&format!("site: {name}")), "{text}");
    }
    Ok(())
}
