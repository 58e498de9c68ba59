//! Tests of hostile packages, made of raw objects (`packagevariants.md` 6.15).

use groundwork_testkit::{HostilePackage, Raw, hostile_packages, publish_trees};

use crate::git::testing::{World, git};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n";

/// Each hostile package is left out and reported, for every kind of ref, and the valid one is
/// served. Links and submodules are listed, and refused when they are read.
#[test]
fn packages_of_strangers_are_left_out() {
    let world = World::new();
    let repository = world.repository("stranger", &[("other/Kptfile", KPTFILE)]);
    let packages = hostile_packages(std::path::Path::new("/nowhere/outside"));
    let good = vec![(b"Kptfile".to_vec(), Raw::File(KPTFILE)), (b"a".to_vec(), Raw::File("a"))];
    let all = packages.iter().map(|package| (package.name.as_str(), &package.entries));
    publish_trees(&world.remote("stranger"), &all.chain([("good", &good)]).collect::<Vec<_>>()).unwrap();
    for draft in ["refs/heads/drafts/h00/w", "refs/heads/proposed/good/w"] {
        git(&world.remote("stranger"), &["update-ref", draft, "refs/heads/main"]);
    }
    let snapshot = repository.sync().unwrap();
    let mut wrong = Vec::new();
    for HostilePackage { name, refusal, is_named_so, .. } in &packages {
        for (workspace, place) in [("v1", format!("{name}/v1")), ("main", "main".to_owned())] {
            let revision = snapshot.revisions.get(&format!("stranger.{name}.{workspace}"));
            let told = |problem: &&String| {
                problem.starts_with(&format!("{place}: package {name:?}: invalid resource path: "))
                    && problem.contains(refusal)
            };
            let is_told = snapshot.problems.iter().any(|problem| told(&problem));
            let found =
                revision.map(|revision| repository.content(revision).map_err(|error| error.to_string()));
            match found {
                None if *is_named_so && is_told => {}
                Some(Err(error)) if !is_named_so && error.contains(refusal) => {}
                found => wrong.push(format!("{name} {workspace}: {is_told} {found:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}\n{:#?}", snapshot.problems);
    let drafts: Vec<&str> = snapshot
        .revisions
        .keys()
        .map(String::as_str)
        .filter(|name| name.ends_with(".w") || name.starts_with("stranger.good"))
        .collect();
    assert_eq!(drafts, ["stranger.good.main", "stranger.good.v1", "stranger.good.w"]);
    let files = repository.content(&repository.revision("stranger.good.v1").unwrap()).unwrap();
    assert_eq!(files.texts.keys().collect::<Vec<_>>(), ["Kptfile", "a"]);

    // A lock may name a commit that no ref leads to.
    let commit = snapshot.head.unwrap().to_string();
    let error = repository.content_at(&commit, "h00").unwrap_err().to_string();
    assert!(error.starts_with("invalid resource path: \"../up.txt\" "), "{error}");

    // A repaired package is served.
    publish_trees(&world.remote("stranger"), &[("h00", &good)]).unwrap();
    let snapshot = repository.sync().unwrap();
    assert!(snapshot.revisions.contains_key("stranger.h00.v1"), "{:?}", snapshot.problems);
}
