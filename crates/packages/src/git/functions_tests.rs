//! Tests of functions that are not built in (`packagevariants.md` 8.1, 8.4).

use std::sync::Arc;

use crate::functions::Executables;
use groundwork_api::Lifecycle;
use groundwork_krm::OnMissing;

use crate::git::error::StoreError;
use crate::git::functions::Functions;
use crate::git::settings::Settings;
use crate::git::tasks::{NewDraft, Source};
use crate::git::testing::{World, git, pat};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: dns\npipeline:\n  mutators:\n  - exec: awk '{ sub(/[a]lpha/, \"beta\"); print }'\n";
const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c # why\ndata:\n  zone: alpha\n";

/// Returns a deployment repository with one published package.
fn world(functions: Functions, kptfile: &str) -> World {
    let world = World::with(functions);
    world.repository("edge", &[("dns/Kptfile", kptfile), ("dns/config.yaml", CONFIG)]);
    let folder = world.checkout("edge");
    git(&folder, &["tag", "dns/v1"]);
    git(&folder, &["push", "-q", "--tags", "origin"]);
    world.store.unregister("fleet", "edge");
    world.register(Settings { deployment: true, ..world.settings("edge") }).unwrap();
    world
}

fn draft() -> NewDraft {
    NewDraft {
        namespace: "fleet".to_owned(),
        repository: "edge".to_owned(),
        package: "dns".to_owned(),
        workspace: "w".to_owned(),
        source: Source::Edit { source: "edge.dns.v1".to_owned() },
        owner: None,
    }
}

fn refusal(functions: Functions) -> String {
    match world(functions, KPTFILE).store.stage(&draft()) {
        Err(StoreError::Render { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

/// By default no program may run, and then the named ones (`packagevariants.md` 8.4, 3).
#[test]
fn programs_that_packages_may_run() {
    let exec = "awk '{ sub(/[a]lpha/, \"beta\"); print }'";
    assert_eq!(
        refusal(Functions::default()),
        format!(
            "package \".\": function \"{exec}\": must run with `--allow-exec` option to allow running function binaries"
        )
    );
    let functions = |allowed: &str| Functions {
        exec_allowed: vec![allowed.to_owned()],
        runners: vec![Arc::new(Executables::default())],
        ..Functions::default()
    };
    assert_eq!(
        refusal(functions("/bin/other")),
        format!("package \".\": function \"{exec}\": exec function \"awk\" is not allowed")
    );
    let world = world(functions("awk"), KPTFILE);
    let committed = world.store.stage(&draft()).unwrap().commit(&pat()).unwrap();
    let content = world.store.repository("fleet", "edge").unwrap().content(&committed.revision).unwrap();
    assert_eq!(content.texts["config.yaml"], CONFIG.replace("alpha", "beta"));
    let status = committed.status.unwrap();
    assert_eq!(status.result.unwrap().items[0].exec.as_deref(), Some(exec));
    // A save runs the function again.
    let mut files = content.texts;
    files.insert("config.yaml".to_owned(), format!("{CONFIG}  more: x\n"));
    let name = &committed.revision.name;
    let saved = world.store.stage_save("fleet", name, &committed.revision.version(), files).unwrap();
    let saved = saved.commit(&pat()).unwrap().revision;
    let content = world.store.repository("fleet", "edge").unwrap().content(&saved).unwrap();
    assert!(content.texts["config.yaml"].contains("zone: beta\n  more: x\n"));
}

/// A package with a function that no runner has cannot be published (`packagevariants.md` 8.4, 5).
#[test]
fn packages_that_wait_for_a_function() {
    let missing = KPTFILE.replace("exec: awk '{ sub(/[a]lpha/, \"beta\"); print }'", "image: far/f:v1");
    let functions = Functions { on_missing: OnMissing::Defer, ..Functions::default() };
    let world = world(functions, &missing);
    let repository = world.store.repository("fleet", "edge").unwrap();
    let draft = world.store.stage(&draft()).unwrap().commit(&pat()).unwrap().revision;
    let content = repository.content(&draft).unwrap();
    assert_eq!(content.texts["config.yaml"], CONFIG);
    assert!(content.texts["Kptfile"].contains("reason: FunctionUnavailable"));
    let (store, name) = (&world.store, draft.name.clone());
    let to = |version: &str, lifecycle| store.set_lifecycle("fleet", &name, version, lifecycle, &pat());
    let proposed = to(&draft.version(), Lifecycle::Proposed).unwrap();
    let error = to(&proposed.version(), Lifecycle::Published).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot approve {name:?}: readiness gates not met: Rendered"));
}

/// Saves with content that cannot be rendered (`packagevariants.md` 8.1).
#[test]
fn saves_that_cannot_be_rendered() {
    let works = KPTFILE.replace(
        "exec: awk '{ sub(/[a]lpha/, \"beta\"); print }'",
        "{image: set-namespace, configMap: {namespace: blue}}",
    );
    let world = world(Functions::default(), &works);
    let repository = world.store.repository("fleet", "edge").unwrap();
    let draft = world.store.stage(&draft()).unwrap().commit(&pat()).unwrap().revision;
    let fails = works.replace("namespace: blue}}", "namespace: green}}\n  - image: far/f:v1");
    let error = "package \".\": function \"far/f:v1\": function \"far/f:v1\" is not available: no container runtime is configured and it is not \
                 built in";
    let save = |version: &str, kptfile: &str| {
        let mut files = repository.content(&draft).unwrap().texts;
        files.insert("Kptfile".to_owned(), kptfile.to_owned());
        world.store.stage_save("fleet", &draft.name, version, files).unwrap()
    };
    match save(&draft.version(), &fails).commit(&pat()) {
        Err(StoreError::Render { error: found, status, .. }) => {
            assert_eq!((found.as_str(), status.error.as_deref()), (error, Some(error)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(repository.revision(&draft.name).unwrap().commit, draft.commit);
    // The content is kept as the caller sent it.
    let kept = save(&draft.version(), &fails).keep_failures(true).commit(&pat()).unwrap();
    assert_eq!((kept.error.as_deref(), kept.status.unwrap().error.as_deref()), (Some(error), Some(error)));
    let content = repository.content(&kept.revision).unwrap().texts;
    assert_eq!(content["Kptfile"], fails);
    assert!(content["config.yaml"].contains("namespace: blue\n"));
    // The second save makes no commit, but still reports the failure.
    let again = save(&kept.revision.version(), &fails).keep_failures(true).commit(&pat()).unwrap();
    assert_eq!((again.error.as_deref(), again.revision.commit), (Some(error), kept.revision.commit));
    // The content is kept as far as it was rendered.
    let runs =
        works.replace("namespace: blue}}", "namespace: green}}\n  validators:\n  - {image: set-image}");
    let partial = runs
        .replace("  name: dns\n", "  name: dns\n  annotations: {kpt.dev/save-on-render-failure: \"true\"}\n");
    let kept = save(&again.revision.version(), &partial).keep_failures(true).commit(&pat()).unwrap();
    assert!(kept.error.is_some());
    let content = repository.content(&kept.revision).unwrap().texts;
    assert!(content["config.yaml"].contains("namespace: green\n"), "{content:?}");
    assert!(content["Kptfile"].contains("reason: RenderFailed"));
}
