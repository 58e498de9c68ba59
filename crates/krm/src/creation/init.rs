//! New packages from scratch (`packagevariants.md` 6.6, init).

use groundwork_api::InitTask;
use groundwork_yaml::tree::{Layout, Node, Pair, write};

use super::context;
use crate::package::{KPTFILE, Package, base_name};

/// Returns the files of a new package. `package` is its path; its name is the last part.
pub fn init_package(package: &str, task: &InitTask) -> Package {
    let name = base_name(package);
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let description = given(&task.description);
    let mut info = Vec::new();
    info.extend(given(&task.site).map(|site| Pair::new("site", Node::string(&site))));
    info.extend(description.as_ref().map(|text| Pair::new("description", Node::string(text))));
    if !task.keywords.is_empty() {
        let keywords = task.keywords.iter().map(|word| Node::string(word)).collect();
        info.push(Pair::new("keywords", Node::sequence(keywords)));
    }
    let local = Pair::new("config.kubernetes.io/local-config", Node::string("true"));
    let metadata =
        vec![Pair::new("name", Node::string(name)), Pair::new("annotations", Node::mapping(vec![local]))];
    let mut kptfile = vec![
        Pair::new("apiVersion", Node::string("kpt.dev/v1")),
        Pair::new("kind", Node::string(KPTFILE)),
        Pair::new("metadata", Node::mapping(metadata)),
    ];
    if !info.is_empty() {
        kptfile.push(Pair::new("info", Node::mapping(info)));
    }
    let mut readme = format!("# {name}\n");
    if let Some(description) = description {
        readme.push_str(&format!("\n## Description\n\n{}\n", description.trim_end()));
    }
    [
        (KPTFILE.to_owned(), write(&Node::mapping(kptfile), Layout::default())),
        ("README.md".to_owned(), readme),
        (context::FILE.to_owned(), context::text(package)),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files are the Kptfile (name, description, keywords, site), README.md and
    /// package-context.yaml (`packagevariants.md` 6.6).
    #[test]
    fn new_packages() {
        let task = InitTask {
            description: Some("names: of all".to_owned()),
            keywords: vec!["dns".to_owned(), "5".to_owned()].into(),
            site: Some("https://dns.example".to_owned()),
            ..InitTask::default()
        };
        let files = init_package("net/dns", &task);
        assert_eq!(
            files["Kptfile"],
            "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: dns\n  annotations:\n    config.kubernetes.io/local-config: \
             \"true\"\ninfo:\n  site: https://dns.example\n  description: 'names: of all'\n  keywords:\n  - dns\n  - \"5\"\n"
        );
        assert_eq!(files["README.md"], "# dns\n\n## Description\n\nnames: of all\n");
        assert!(files["package-context.yaml"].ends_with("data:\n  name: dns\n  package-path: net/dns\n"));
        let files = init_package("dns", &InitTask::default());
        assert!(crate::read_kptfile(&files["Kptfile"]).is_ok());
        let mut again = files.clone();
        super::super::set_context(&mut again, "dns");
        assert_eq!(again, files);
    }
}
