//! Merge fixtures of other projects with their expected results, compared byte for byte (V-003).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::Path;

use groundwork_api::PackageVariant;
use groundwork_krm::{
    Cluster, File, Listed, Mutation, Package, Strategy, Versions, merge, mutate, read_kptfile,
};
use serde_json::Value;

fn read(directory: &Path) -> Package {
    let mut files = Package::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        files.insert(name, std::fs::read_to_string(path).unwrap());
    }
    files
}

fn check(fixture: &str, [original, updated, local, expected]: [&str; 4]) {
    let Some(root) = groundwork_testkit::fixture(fixture) else { return };
    let package = |name: &str| read(&root.join(name));
    let merged =
        merge(Strategy::ResourceMerge, Versions::new(&package(original), &package(updated), &package(local)))
            .unwrap();
    assert_eq!(merged.files, package(expected));
}

#[test]
fn a_package_of_porch() {
    check("porch/update", ["original", "upstream", "local", "updated"]);
}

#[test]
fn explicit_nulls() {
    check("kpt/keep-tagged-null", ["origin", "updated", "dest", "expected"]);
}

/// Every Kptfile in the fixtures is parsed, and written back unchanged.
#[test]
fn all_kptfiles_are_read() {
    let Some(root) = groundwork_testkit::fixture("") else { return };
    let (mut directories, mut count) = (vec![root], 0);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.file_name().is_some_and(|name| name == "Kptfile") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(read_kptfile(&text).unwrap().text(), text, "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count > 0, "the fixtures hold Kptfiles");
}

struct NoObjects;

impl Cluster for NoObjects {
    fn list(&self, _: &str, _: &str) -> Listed<'_> {
        Listed::Objects(Vec::new())
    }
}

/// V-117: a second application of a variant changes nothing.
#[test]
fn variants_come_to_rest() {
    let Some(root) = groundwork_testkit::fixture("porch") else { return };
    let text = std::fs::read_to_string(root.join("dp.yaml")).unwrap();
    let manifest: Value = groundwork_yaml::from_str(&text).unwrap();
    assert_eq!(File::read(&text).unwrap().documents.len(), 1);
    let functions = "pipeline: {mutators: [{image: set-labels, configMap: {a: b}}]}";
    for more in
        ["{}", functions, "packageContext: {data: {site: x}, removeKeys: [name2]}", "injectors: {name: x}"]
    {
        let mut object = manifest.clone();
        let more = groundwork_yaml::from_str(more).unwrap();
        object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let variant: PackageVariant = serde_json::from_value(object).unwrap();
        let mutation = Mutation { variant: &variant, namespace: "n", revision: "r", cluster: &NoObjects };
        for package in ["porch/update/original", "porch/update/local", "porch/update/updated"] {
            let Some(directory) = groundwork_testkit::fixture(package) else { return };
            let once = mutate(Some(&read(&directory)), &mutation).unwrap();
            let twice = mutate(Some(&once.files), &mutation).unwrap();
            assert_eq!((twice.changed, twice.files), (false, once.files), "{package}");
        }
    }
}
