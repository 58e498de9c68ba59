//! Writes the files of each program to a folder that no other program sees.

use std::path::Path;

use crate::files::{self, Owner};
use crate::kubeconfig::{Login, kubeconfig};
use crate::state::{ADMIN, CONTROLLER_MANAGER, Etcd, FrontProxy, State};
use crate::{BootstrapError, CredentialsArguments, Id, NAMESPACE, SERVICES};
use crate::{host, nats};

/// Creates missing credentials, and writes the files of every folder.
pub(crate) fn run(arguments: &CredentialsArguments) -> Result<(), BootstrapError> {
    let programs = Owner { user: arguments.user, group: arguments.user };
    if !arguments.adopt {
        host::check(arguments)?;
    }
    // Only this program may read the state.
    let own = files::owner(&arguments.folder)?;
    let state = State::load_or_make(&arguments.folder, &nats::users(), own)?;
    for data in &arguments.data {
        files::hand_over(data, programs)?;
    }
    for (program, files) in programs_files(&state, arguments) {
        let folder = arguments.folder.join(program);
        files::folder(&folder, programs)?;
        for (name, content) in files {
            files::write(&folder.join(name), &content, programs)?;
        }
    }
    host::write(arguments, &state, host_owner(arguments)?)?;
    println!("credentials of the trial cluster are in place");
    Ok(())
}

type Files = Vec<(&'static str, String)>;

fn programs_files(state: &State, arguments: &CredentialsArguments) -> Vec<(&'static str, Files)> {
    let tokens = format!(
        "{},admin,admin,\"system:masters\"\n{},system:kube-controller-manager,controller-manager\n",
        state.token(ADMIN),
        state.token(CONTROLLER_MANAGER),
    );
    let config =
        |login: &Login<'_>, namespace| kubeconfig(&arguments.api_server, &state.authority, login, namespace);
    let etcd = |part: fn(&Etcd) -> &String| state.etcd.as_ref().map(part).cloned().unwrap_or_default();
    let proxy =
        |part: fn(&FrontProxy) -> &String| state.front_proxy.as_ref().map(part).cloned().unwrap_or_default();
    let mut all = vec![
        (
            "kube-apiserver",
            vec![
                ("server.pem", state.server.clone()),
                ("accounts.pem", state.accounts_key.clone()),
                ("tokens.csv", tokens),
                ("etcd-ca.pem", etcd(|etcd| &etcd.authority)),
                ("etcd-client.pem", etcd(|etcd| &etcd.client)),
                ("front-proxy-ca.pem", proxy(|proxy| &proxy.authority)),
                ("front-proxy.pem", proxy(|proxy| &proxy.client)),
            ],
        ),
        ("etcd", vec![("ca.pem", etcd(|etcd| &etcd.authority)), ("server.pem", etcd(|etcd| &etcd.server))]),
        (
            "kube-controller-manager",
            vec![("kubeconfig", config(&Login::Token(state.token(CONTROLLER_MANAGER)), None))],
        ),
        (
            "nats",
            vec![
                ("nats.conf", nats::SERVER.to_owned()),
                ("users.conf", nats::USERS.to_owned()),
                ("passwords.conf", nats::passwords_file(&state.passwords)),
            ],
        ),
    ];
    for service in SERVICES {
        let token = arguments.mounted_at.join("token");
        let password = state.passwords.get(service).cloned().unwrap_or_default();
        let files = vec![
            ("kubeconfig", config(&Login::TokenFile(&token), Some(NAMESPACE))),
            ("nats-password", password),
        ];
        all.push((service, files));
    }
    let password = state.passwords.get(nats::READER).cloned().unwrap_or_default();
    // The command in a container acts for the user, who has both files on the host.
    let of_person = config(&Login::Token(state.token(ADMIN)), None);
    all.push((nats::READER, vec![("kubeconfig", of_person), ("nats-password", password)]));
    all
}

/// Returns the user who started the cluster: by number, or as the owner of a file.
fn host_owner(arguments: &CredentialsArguments) -> Result<Owner, BootstrapError> {
    let given = |id: Option<Id>| id.and_then(|Id(id)| id);
    let of_file = |path: &Path| files::owner(path);
    let default = match &arguments.owner_of {
        Some(path) => of_file(path)?,
        None => of_file(&arguments.host_folder)?,
    };
    Ok(Owner {
        user: given(arguments.host_user).unwrap_or(default.user),
        group: given(arguments.host_group).unwrap_or(default.group),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn arguments(folder: &Path) -> CredentialsArguments {
        let me = files::owner(folder).unwrap();
        fs::create_dir_all(folder.join("credentials")).unwrap();
        fs::create_dir_all(folder.join("data/deep")).unwrap();
        CredentialsArguments {
            folder: folder.join("credentials"),
            data: vec![folder.join("data")],
            user: me.user,
            host_folder: folder.join("host"),
            host_user: Some(Id(None)),
            host_group: Some(Id(Some(me.group))),
            owner_of: Some(folder.to_owned()),
            project: "groundwork".to_owned(),
            adopt: false,
            host_url: "https://127.0.0.1:1".to_owned(),
            api_server: "https://kube-apiserver:6443".to_owned(),
            mounted_at: "/run/groundwork".into(),
        }
    }

    #[test]
    fn nobody_gets_the_credentials_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = arguments(folder.path());
        run(&arguments).unwrap();
        let state = State::load(&arguments.folder).unwrap();
        let text = |path: &str| fs::read_to_string(arguments.folder.join(path)).unwrap();
        for service in SERVICES {
            let files = text(&format!("{service}/kubeconfig")) + &text(&format!("{service}/nats-password"));
            assert!(files.contains("/run/groundwork/token") && files.contains(&state.passwords[service]));
            let own = &state.passwords[service];
            let mut foreign =
                state.passwords.values().chain(state.tokens.values()).filter(|secret| *secret != own);
            assert!(foreign.all(|secret| !files.contains(secret.as_str())), "{service}");
        }
        assert!(text("kube-apiserver/tokens.csv").contains(&format!("{},admin,", state.token(ADMIN))));
        let command = text("reader/kubeconfig");
        assert!(command.contains("https://kube-apiserver:6443") && command.contains(state.token(ADMIN)));
        let config = fs::read_to_string(folder.path().join("host/kubeconfig")).unwrap();
        assert!(config.contains("https://127.0.0.1:1") && config.contains(state.token(ADMIN)));
    }

    /// Returns contents and paths of all files in these folders; a missing folder counts as empty.
    fn all(folders: &[&Path]) -> Vec<(Vec<u8>, PathBuf)> {
        let mut found = Vec::new();
        let mut folders: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push((fs::read(&path).unwrap(), path));
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn a_second_run_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = arguments(folder.path());
        let all = || all(&[&arguments.folder, &arguments.host_folder]);
        run(&arguments).unwrap();
        let first = all();
        run(&arguments).unwrap();
        assert_eq!(all(), first);
        assert!(first.len() > 10, "{}", first.len());
        // A damaged file is repaired.
        fs::write(arguments.folder.join("nats/users.conf"), "").unwrap();
        run(&arguments).unwrap();
        assert_eq!(all(), first);
    }

    /// Under the same project name, a second checkout would get the volumes of the first one.
    #[test]
    fn a_second_checkout_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let first = arguments(folder.path());
        run(&first).unwrap();
        let second =
            CredentialsArguments { host_folder: folder.path().join("second"), ..arguments(folder.path()) };
        let before = all(&[folder.path()]);
        let error = run(&second).unwrap_err().to_string();
        for told in
            ["\"groundwork\"", "COMPOSE_PROJECT_NAME", "GROUNDWORK_HOST_FOLDER", "GROUNDWORK_ADOPT=true"]
        {
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(all(&[folder.path()]), before);
        assert!(!second.host_folder.exists());
        // The second checkout may not take the volumes either if its folder has a trial cluster of
        // its own.
        let other = tempfile::tempdir().unwrap();
        let own = CredentialsArguments { host_folder: second.host_folder.clone(), ..arguments(other.path()) };
        run(&own).unwrap();
        let before = all(&[folder.path()]);
        assert!(matches!(run(&second), Err(BootstrapError::OtherCheckout { .. })));
        assert_eq!(all(&[folder.path()]), before);
        run(&CredentialsArguments { adopt: true, ..second }).unwrap();
        assert!(matches!(run(&first), Ok(())), "the folder of the first one is as it was");
    }

    /// No server has used the credentials of an interrupted first run, so it may be repeated.
    #[test]
    fn a_first_run_that_was_stopped_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = arguments(folder.path());
        run(&arguments).unwrap();
        fs::remove_dir_all(&arguments.host_folder).unwrap();
        assert!(matches!(run(&arguments), Err(BootstrapError::OtherCheckout { .. })), "there is data");
        fs::remove_dir(folder.path().join("data/deep")).unwrap();
        run(&arguments).unwrap();
        assert!(arguments.host_folder.join("kubeconfig").exists());
    }

    #[test]
    fn a_second_project_does_not_get_the_folder_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = arguments(folder.path());
        run(&first).unwrap();
        let before = all(&[&first.host_folder]);
        let other = tempfile::tempdir().unwrap();
        let second = || CredentialsArguments {
            host_folder: first.host_folder.clone(),
            project: "second".to_owned(),
            ..arguments(other.path())
        };
        let error = run(&second()).unwrap_err().to_string();
        assert!(error.contains("the project \"groundwork\", but this project is \"second\""), "{error}");
        assert_eq!(all(&[&first.host_folder]), before);
        assert_eq!(all(&[&second().folder]), [], "its volumes are as new as before");
        // The volumes were removed, and the project is started again.
        let again = CredentialsArguments { project: "groundwork".to_owned(), ..second() };
        run(&again).unwrap();
        assert_ne!(all(&[&first.host_folder]), before);
    }
}
