use super::*;

/// Number of runs of each example, each in a process of its own; `cargo xtask fuzz` sets a higher
/// one.
const RENDERINGS_VARIABLE: &str = "GROUNDWORK_RENDERINGS";

/// Every example renders, or expands if it is a fleet, and gives the output in its `expected.txt`,
/// each time.
#[test]
fn examples_give_what_they_show() {
    let times = std::env::var(RENDERINGS_VARIABLE).ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let mut count = 0;
    for entry in fs::read_dir(examples()).unwrap() {
        let folder = entry.unwrap().path();
        assert!(folder.join("README.md").is_file(), "{} has no README.md", folder.display());
        if folder.join("figures").is_dir() {
            figures_give_what_they_show(&folder, times);
            continue;
        }
        let is_fleet = folder.join("set.yaml").is_file();
        let command: &[&str] = if is_fleet { &["variants", "expand", "-f"] } else { &["render"] };
        let expected = fs::read_to_string(folder.join("expected.txt")).unwrap();
        // One combination of conditional imports is an example of a failure.
        let fails = expected.contains("\n  failed ");
        for _ in 0..times {
            let run = groundwork(&[command, &[&folder.display().to_string()]].concat(), "");
            assert_eq!(run.code, i32::from(fails), "{}: {}", folder.display(), run.err);
            assert_eq!(run.err.is_empty(), !fails, "{}: {}", folder.display(), run.err);
            assert_eq!(run.out, expected, "{}", folder.display());
        }
        count += 1;
    }
    assert!(count > 1);
}

/// The limits of templates are far above normal use: a hundredth of each is enough for every
/// example.
#[test]
fn no_example_comes_near_the_limits() {
    let mut count = 0;
    for entry in fs::read_dir(examples()).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("set.yaml").is_file() || folder.join("figures").is_dir() {
            continue;
        }
        let limits = ["--template-work", "2", "--template-memory", "2"];
        let run = groundwork(&[&["render"], &limits[..], &[&folder.display().to_string()]].concat(), "");
        let expected = fs::read_to_string(folder.join("expected.txt")).unwrap();
        assert_eq!(run.out, expected, "{}: {}", folder.display(), run.err);
        count += 1;
    }
    assert!(count > 3);
}

/// Each figure of the variants is drafted as its file in `expected` shows (V-008, V-018, V-021,
/// V-025).
fn figures_give_what_they_show(folder: &Path, times: usize) {
    let shown = |path: &Path| path.display().to_string();
    let mut count = 0;
    for entry in fs::read_dir(folder.join("figures")).unwrap() {
        let figure = entry.unwrap().path();
        let name = figure.file_stem().unwrap().to_str().unwrap();
        let expected = fs::read_to_string(folder.join("expected").join(format!("{name}.txt"))).unwrap();
        let packages = shown(&folder.join("packages"));
        for _ in 0..times {
            let run = groundwork(
                &["variants", "draft", "--packages", &packages, "-f", &shown(folder), &shown(&figure)],
                "",
            );
            assert_eq!((run.code, run.err.as_str()), (0, ""), "{name}");
            assert_eq!(run.out, expected, "{name}");
        }
        count += 1;
    }
    assert_eq!(count, 7);
}

/// The three output formats have the same objects.
#[test]
fn yaml_and_json_agree() {
    let echo_server = EchoServer::new();
    let (yaml, json) = (echo_server.render(&["-o", "yaml"]), echo_server.render_json());
    assert_eq!((yaml.code, json.code), (0, 0));
    let documents = groundwork_yaml::parse_all(&yaml.out, groundwork_yaml::Options::default()).unwrap();
    let without_times = |value: &Value| {
        let mut value = value.clone();
        for condition in value["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition.as_object_mut().unwrap().retain(|member, _| !member.ends_with("Time"));
        }
        value
    };
    let documents: Vec<Value> = documents.iter().map(|node| without_times(&node.to_value())).collect();
    let list = json.json();
    let items: Vec<Value> = list["items"].as_array().unwrap().iter().map(without_times).collect();
    assert_eq!(documents, items);
    assert_eq!((&list["apiVersion"], &list["kind"]), (&"v1".into(), &"List".into()));
    let kinds: Vec<_> = items.iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Installation", "Execution", "DeployItem"]);
}

/// I-22: the context reaches Execution and DeployItem; labels, annotations and finalizers are those
/// of a cluster.
#[test]
fn generated_objects() {
    let run = EchoServer::new().render_json();
    let (execution, item) = (run.object("Execution"), run.object("DeployItem"));
    assert_eq!(execution["metadata"]["name"], "server");
    assert_eq!(execution["metadata"]["namespace"], "my-namespace");
    assert_eq!(execution["spec"]["context"], "default");
    assert_eq!(execution["spec"]["deployItems"][0]["name"], "echo");
    assert_eq!(item["spec"]["context"], "default");
    assert_eq!(item["spec"]["type"], "landscaper.gardener.cloud/mock");
    let metadata = &item["metadata"];
    assert_eq!(metadata["finalizers"][0], "finalizer.landscaper.gardener.cloud");
    assert_eq!(metadata["labels"]["execution.landscaper.gardener.cloud/managed-by"], "server");
    assert_eq!(metadata["labels"]["execution.landscaper.gardener.cloud/name"], "echo");
    assert_eq!(
        metadata["annotations"]["landscaper.gardener.cloud/deployer-type"],
        "landscaper.gardener.cloud/mock"
    );
    assert_eq!(metadata["annotations"]["landscaper.gardener.cloud/deployer-target-name"], ".noTargetName");
}

#[test]
fn version_and_completion() {
    assert_eq!(groundwork(&["version"], "").out, format!("groundwork {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let run = groundwork(&["completion", shell], "");
        assert!(run.code == 0 && run.out.contains("groundwork"), "{shell}");
    }
}
