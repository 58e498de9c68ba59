//! Tests of `groundwork component` with archives in every form, without a server (`components.md`
//! 6.4, 6.5; 11, items 7 and 10).

use std::io::{BufRead as _, BufReader, Write as _};

use super::*;
use groundwork_keys::{Algorithm, SigningKey, to_pem};

const DESCRIPTOR: &str = "\
meta: {schemaVersion: v2}
component:
  name: example.org/shop
  version: 1.0.0+7
  provider: p
  sources: []
  repositoryContexts: []
  componentReferences:
  - {name: db, componentName: example.org/db, version: 2.0.0}
  resources:
  - {name: bp, type: blueprint, version: 1.0.0, relation: local}
  - {name: text, type: notes, version: 1.0.0, relation: local, input: {type: file, path: notes.txt, mediaType: text/plain}}
  - {name: image, type: ociImage, version: 1.0.0, relation: external, access: {type: ociArtifact, imageReference: 'example.org/a:1'}}
";
const DATABASE: &str = "\
apiVersion: ocm.software/v3alpha1
kind: ComponentVersion
metadata: {name: example.org/db, version: 2.0.0, provider: {name: p}}
spec:
  references:
  - {name: gone, componentName: example.org/gone, version: 3.0.0}
";

/// Creates the sources of two component versions.
fn sources() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("shop/component-descriptor.yaml", DESCRIPTOR),
        (
            "shop/blueprint/blueprint.yaml",
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n",
        ),
        ("shop/notes.txt", "seven\n"),
        ("db/component-descriptor.yaml", DATABASE),
    ] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

#[test]
fn packed_and_looked_into() {
    let sources = sources();
    let target = tempfile::tempdir().unwrap();
    for archive in ["ctf", "ctf.tar", "ctf.tgz"] {
        let archive = path(&target, archive);
        let packed = groundwork(&["component", "pack", &path(&sources, ""), "--to", &archive], "");
        assert_eq!(packed.out, "example.org/db:2.0.0\nexample.org/shop:1.0.0+7\n", "{}", packed.err);
        let from = ["--from", archive.as_str()];
        let got = groundwork(
            &[&["component", "get", "example.org/shop:1.0.0+7", "-o", "json"][..], &from].concat(),
            "",
        );
        assert_eq!(got.json()["component"]["name"], "example.org/shop", "{}", got.err);
        let got = groundwork(
            &[&["component", "get", "example.org/db:2.0.0", "--schema", "v2"][..], &from].concat(),
            "",
        );
        assert!(got.out.contains("schemaVersion: v2"), "{} {}", got.out, got.err);
        let fetched = groundwork(
            &[&["component", "fetch", "example.org/shop:1.0.0+7", "text"][..], &from].concat(),
            "",
        );
        assert_eq!(fetched.out, "seven\n", "{}", fetched.err);

        let tree = groundwork(&[&["component", "tree", "example.org/shop:1.0.0+7"][..], &from].concat(), "");
        let expected = format!(
            "example.org/shop:1.0.0+7\n  - bp (blueprint, localBlob)\n  - text (notes, localBlob)\n  - image (ociImage, ociArtifact)\n  \
             db: example.org/db:2.0.0\n    gone: example.org/gone:3.0.0 failed: component version \"example.org/gone:3.0.0\" not found in {archive}\n"
        );
        assert_eq!((tree.code, tree.out), (1, expected), "{}", tree.err);
    }
}

#[test]
fn through_a_repository_map() {
    let map = examples().join("echo-server/components/repositories.yaml").display().to_string();
    let run = |arguments: &[&str]| groundwork(&[arguments, &["--repositories", &map]].concat(), "");
    let tree = run(&["component", "tree", "my-own-echo-server:v0.2.0", "-o", "json"]);
    assert_eq!(tree.code, 0, "{}", tree.err);
    assert_eq!(tree.json()[0]["resources"][0]["access"], "localBlob");
    let context = "{type: ociRegistry, baseUrl: example.org/my-own-registry/components}";
    let found = run(&["component", "get", "my-own-echo-server:v0.2.0", "--context", context]);
    assert_eq!(found.code, 0, "{}", found.err);
    let other = "{type: ociRegistry, baseUrl: eu.gcr.io/gardener-project/landscaper/tutorials/components}";
    let missing = run(&["component", "get", "my-own-echo-server:v0.2.0", "--context", other]);
    assert_eq!(missing.code, 2);
    let expected = "error: component version \"my-own-echo-server:v0.2.0\" not found in eu.gcr.io/gardener-project/landscaper/tutorials/components\n";
    assert_eq!(missing.err, expected);
}

/// Content that cannot be read leaves no file behind, and a directory that is not an archive is not
/// replaced.
#[test]
fn bad_input() {
    let sources = sources();
    let target = tempfile::tempdir().unwrap();
    let archive = path(&target, "ctf");
    assert_eq!(groundwork(&["component", "pack", &path(&sources, "shop"), "--to", &archive], "").code, 0);
    for entry in fs::read_dir(target.path().join("ctf/blobs")).unwrap() {
        let path = entry.unwrap().path();
        if fs::read(&path).unwrap() == b"seven\n" {
            fs::write(path, "eight\n").unwrap();
        }
    }
    let file = path(&target, "out.txt");
    let run = |arguments: &[&str]| groundwork(arguments, "");
    let fetched =
        run(&["component", "fetch", "example.org/shop:1.0.0+7", "text", "--from", &archive, "-o", &file]);
    assert_eq!(fetched.code, 2);
    assert!(fetched.err.starts_with("error: digest mismatch for "), "{}", fetched.err);
    let names: Vec<_> =
        fs::read_dir(target.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["ctf"]);

    for (arguments, expected) in [
        (vec!["get", "example.org/shop:2.0.0", "--from", &archive], "not found in"),
        (vec!["get", "example.org/shop:x", "--from", &archive], "is not a semantic version"),
        (vec!["get", "example.org/shop", "--from", &archive], "NAME:VERSION is expected"),
        (vec!["get", "example.org/shop:1.0.0+7"], "--from <PLACE>"),
        (
            vec!["get", "example.org/shop:1.0.0+7", "--from", "no such place"],
            "is not an existing file or directory",
        ),
        (
            vec!["fetch", "example.org/shop:1.0.0+7", "none", "--from", &archive],
            "the component has \"bp\", \"text\"",
        ),
        (vec!["pack", "no-such-folder", "--to", &archive], "cannot be read"),
        (
            vec!["pack", &path(&sources, "shop"), "--to", &path(&sources, "shop")],
            "is not a transport archive",
        ),
        (vec!["pack", &path(&sources, "shop/blueprint"), "--to", &archive], "contains no component version"),
    ] {
        let run = run(&[&["component"], &arguments[..]].concat());
        assert_eq!(run.code, 2, "{arguments:?}");
        assert!(run.err.contains(expected), "{arguments:?}: {}", run.err);
    }
}

/// `components.md` 11, item 15, on the command line: a version is signed, verified, altered, and
/// rendered with the key in a Secret.
#[test]
fn signatures() {
    let sources = sources();
    fs::write(
        sources.path().join("db/component-descriptor.yaml"),
        DATABASE.replace(
            "  references:\n  - {name: gone, componentName: example.org/gone, version: 3.0.0}\n",
            "  references: []\n",
        ),
    )
    .unwrap();
    // The test has no access to the image, so the image is excluded from the signature.
    let excluded = "digest: {hashAlgorithm: NO-DIGEST, normalisationAlgorithm: EXCLUDE-FROM-SIGNATURE, value: NO-DIGEST}, access: {type: ociArtifact";
    fs::write(
        sources.path().join("shop/component-descriptor.yaml"),
        DESCRIPTOR.replace("access: {type: ociArtifact", excluded),
    )
    .unwrap();
    let target = tempfile::tempdir().unwrap();
    let keys = ["own", "other"].map(|name| {
        let key = SigningKey::generate(Algorithm::Rsa2048).unwrap();
        let (private, public) =
            (path(&target, &format!("{name}.pem")), path(&target, &format!("{name}.pub")));
        fs::write(&private, key.to_pem().unwrap()).unwrap();
        fs::write(&public, to_pem("PUBLIC KEY", &key.public_key_info().unwrap())).unwrap();
        (private, public)
    });
    let [(private, public), (_, other)] = &keys;
    let (plain, archive) = (path(&target, "plain.tgz"), path(&target, "ctf"));
    let run = |arguments: &[&str]| groundwork(&[&["component"], arguments].concat(), "");
    assert_eq!(run(&["pack", &path(&sources, ""), "--to", &plain]).code, 0);
    let verify = |public: &str, from: &str, signature: &str| {
        run(&[
            "verify",
            "example.org/shop:1.0.0+7",
            "--signature",
            signature,
            "--public-key",
            public,
            "--from",
            from,
        ])
    };
    let missing = verify(public, &plain, "release");
    assert!(
        missing.code == 1 && missing.err.contains("example.org/shop:1.0.0+7 has none"),
        "{}",
        missing.err
    );
    for normalisation in ["v1", "v2", "v3"] {
        let signed = run(&[
            "sign",
            "example.org/shop:1.0.0+7",
            "--signature",
            "release",
            "--private-key",
            private,
            "--from",
            &plain,
            "--to",
            &archive,
            "--normalisation",
            normalisation,
        ]);
        assert_eq!((signed.code, signed.out.lines().count()), (0, 2), "{}", signed.err);
        let verified = verify(public, &archive, "release");
        assert_eq!(
            verified.out, "example.org/shop:1.0.0+7: the signature \"release\" is valid\n",
            "{}",
            verified.err
        );
    }
    let forged = verify(other, &archive, "release");
    assert!(forged.code == 1 && forged.err.contains("was not made with the trusted key"), "{}", forged.err);
    let fetched = run(&["fetch", "example.org/shop:1.0.0+7", "text", "--from", &archive]);
    assert_eq!(fetched.out, "seven\n", "{}", fetched.err);

    // Offline, an Installation that requires a signature gets the same result as in a cluster.
    let input = tempfile::tempdir().unwrap();
    let indented = fs::read_to_string(public).unwrap().replace('\n', "\n    ");
    let text = format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\nmetadata: {{name: default}}\nrepositoryContext: {{type: CommonTransportFormat, filePath: x}}\n\
         verificationSignatures: {{release: {{publicKeySecretReference: {{name: key, key: public.pem}}}}}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{name: key}}\nstringData:\n  public.pem: |\n    {indented}\n---\n\
         apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\nmetadata: {{name: shop}}\nspec:\n  verification: {{signatureName: release}}\n\
         \x20 componentDescriptor: {{ref: {{componentName: example.org/shop, version: 1.0.0+7}}}}\n  blueprint: {{ref: {{resourceName: bp}}}}\n"
    );
    fs::write(input.path().join("objects.yaml"), &text).unwrap();
    let render = |from: &str| {
        let map =
            format!("repositories:\n- context: {{type: CommonTransportFormat, filePath: x}}\n  {from}\n");
        fs::write(input.path().join("repositories.yaml"), map).unwrap();
        groundwork(&["render", &input.path().display().to_string()], "")
    };
    let good = render(&format!("directory: {archive}"));
    assert_eq!(good.code, 0, "{}", good.err);
    let unsigned = render(&format!("archive: {plain}"));
    assert!(
        unsigned.code == 1
            && unsigned.err.contains("failed verifying signature: signature \"release\" not found"),
        "{}",
        unsigned.err
    );
}

/// Starts a server that answers each request with this content, and returns its host.
fn serve(content: Vec<u8>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", content.len());
            drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&content)));
        }
    });
    host
}

/// The command fetches a blueprint from a place that the map permits, and reads a file of the
/// component's own folder (`components.md` 6.10).
#[test]
fn contents_outside_of_repositories() {
    let mut blueprint = tar::Builder::new(Vec::new());
    let text = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n";
    let mut header = tar::Header::new_ustar();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    blueprint.append_data(&mut header, "blueprint.yaml", text.as_bytes()).unwrap();
    let host = serve(blueprint.into_inner().unwrap());

    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "store/component-descriptor.yaml",
        format!(
            "meta: {{schemaVersion: v2}}\ncomponent:\n  name: example.org/site\n  version: 1.0.0\n  provider: p\n  \
             sources: []\n  repositoryContexts: []\n  componentReferences: []\n  resources:\n  - name: blueprint\n    \
             type: blueprint\n    version: 1.0.0\n    relation: external\n    access: {{type: Wget/v1, url: \
             'http://{host}/site/blueprint', mediaType: application/x-tar}}\n  - name: notes\n    type: notes\n    \
             version: 1.0.0\n    relation: local\n    access: {{type: File/v1alpha1, uri: 'file:more/notes.txt'}}\n"
        ),
    );
    write("store/more/notes.txt", "seven\n".to_owned());
    write(
        "site.yaml",
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\nmetadata: {name: default, namespace: team}\n\
         repositoryContext: {type: ociRegistry, baseUrl: example.org/c}\n---\napiVersion: \
         landscaper.gardener.cloud/v1alpha1\nkind: Installation\nmetadata: {name: site, namespace: team}\nspec:\n  \
         componentDescriptor: {ref: {componentName: example.org/site, version: 1.0.0}}\n  blueprint: {ref: \
         {resourceName: blueprint}}\n"
            .to_owned(),
    );
    let map = "repositories:\n- context: {type: ociRegistry, baseUrl: example.org/c}\n  directory: store\n";
    let render = || groundwork(&["render", &path(&folder, "site.yaml")], "");
    write("repositories.yaml", map.to_owned());
    let refused = render();
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("add one to the list accesses there"), "{}", refused.err);
    write("repositories.yaml", format!("{map}accesses:\n- {{type: wget, url: 'http://{host}/site'}}\n"));
    let rendered = render();
    assert_eq!(rendered.code, 0, "{}", rendered.err);

    let maps = path(&folder, "repositories.yaml");
    let fetched =
        groundwork(&["component", "fetch", "example.org/site:1.0.0", "notes", "--repositories", &maps], "");
    assert_eq!((fetched.code, fetched.out.as_str()), (0, "seven\n"), "{}", fetched.err);
}
