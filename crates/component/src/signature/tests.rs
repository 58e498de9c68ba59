use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_keys::{
    Algorithm, Certificate, Issuer, KeyUsage, SigningKey, Subject, TbsCertificate, to_pem,
};

use super::*;
use crate::inline::InlineSet;
use crate::overwrite::Overwrites;
use crate::reference::{Reference, RepositoryContext};
use crate::repository::{Blob, Repositories, Repository};

/// Descriptors by name and version, and contents by their references.
#[derive(Clone, Default)]
struct Store {
    descriptors: BTreeMap<String, Value>,
    contents: BTreeMap<String, Vec<u8>>,
}

impl Repository for Store {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        Ok(self.descriptors.get(&format!("{name}:{version}")).map(|value| value.to_string().into_bytes()))
    }

    fn content(&self, _: &str, _: &str, access: &Access) -> Result<Blob, RepositoryError> {
        let found = access.local_reference().and_then(|reference| self.contents.get(reference));
        let found = found.ok_or_else(|| RepositoryError::Missing { address: access.to_string() })?;
        Ok(Blob::from_bytes("", found.clone()))
    }

    fn artifact_digest(&self, _: &str, _: &str, access: &Access) -> Result<Option<String>, RepositoryError> {
        Ok(self.contents.get(&access.to_string()).map(|content| HEXLOWER.encode(&Hash::Sha256.of(content))))
    }
}

impl Repositories for Store {
    fn open(&self, _: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Ok(Arc::new(self.clone()))
    }
}

fn reference(name: &str) -> Reference {
    let context = RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": "r"}));
    Reference { repository: context, name: name.to_owned(), version: "1.0.0".to_owned() }
}

/// Returns a shop that refers to a database. The shop has local content, an image, and a resource
/// excluded from signing.
fn store() -> Store {
    let document = |name: &str, references: Value, resources: Value| {
        json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": name, "version": "1.0.0", "provider": "p", "sources": [], "repositoryContexts": [],
            "componentReferences": references, "resources": resources,
        }})
    };
    let local = |name: &str| {
        json!({"name": name, "version": "1.0.0", "type": "t", "relation": "local",
            "access": {"type": "localBlob", "localReference": name, "mediaType": "text/plain"}})
    };
    let image = json!({"name": "image", "version": "1.0.0", "type": "ociImage", "relation": "external",
        "access": {"type": "ociArtifact", "imageReference": "r/image:1"}});
    let excluded = json!({"name": "excluded", "version": "1.0.0", "type": "t", "relation": "external",
        "access": {"type": "npm"},
        "digest": {"hashAlgorithm": "NO-DIGEST", "normalisationAlgorithm": EXCLUDED, "value": "NO-DIGEST"}});
    let database = json!([{"name": "db", "componentName": "e.org/db", "version": "1.0.0"}]);
    let mut store = Store::default();
    let shop = document("e.org/shop", database, json!([local("notes"), image, excluded]));
    store.descriptors.insert("e.org/shop:1.0.0".to_owned(), shop);
    store
        .descriptors
        .insert("e.org/db:1.0.0".to_owned(), document("e.org/db", json!([]), json!([local("data")])));
    for (key, content) in [("notes", "seven"), ("data", "eight"), ("artifact r/image:1", "manifest")] {
        store.contents.insert(key.to_owned(), content.into());
    }
    store
}

fn with<T>(store: &Store, work: impl FnOnce(&Resolver<'_>, &ComponentVersion) -> T) -> T {
    let (overwrites, inline) = (Overwrites::default(), InlineSet::default());
    let substitution = overwrites.apply(&reference("e.org/shop"));
    let resolver = Resolver::new(store, &overwrites, &inline, &substitution);
    let version = resolver.lookup(&substitution.effective).unwrap();
    work(&resolver, &version)
}

fn sign(store: &mut Store, key: &SigningKey, normalisation: Normalisation) {
    let document = with(store, |resolver, version| {
        let (completed, bytes) = prepare(resolver, version, normalisation).unwrap();
        let signature = key.sign_rsa(Hash::Sha256, &bytes).unwrap();
        signed(&completed, "release", normalisation, &bytes, &signature)
    });
    store.descriptors.insert("e.org/shop:1.0.0".to_owned(), document);
}

fn trust(key: &SigningKey) -> TrustAnchor {
    let public_key = Some(to_pem("PUBLIC KEY", &key.public_key_info().unwrap()));
    TrustAnchor { public_key, authorities: None, now: 1500 }
}

fn refused(store: &Store, name: &str, trust: &TrustAnchor) -> String {
    with(store, |resolver, version| verify(resolver, version, name, trust)).unwrap_err().to_string()
}

/// Error E24 (`components.md` 8), item 15 of `components.md` 11: valid, altered resource, altered
/// descriptor, missing name; in every normalisation.
#[test]
fn signed_and_verified() {
    let (key, other) = (
        SigningKey::generate(Algorithm::Rsa2048).unwrap(),
        SigningKey::generate(Algorithm::Rsa2048).unwrap(),
    );
    for normalisation in [Normalisation::V1, Normalisation::V2, Normalisation::V3, Normalisation::V4Alpha1] {
        let mut store = store();
        sign(&mut store, &key, normalisation);
        let trust = trust(&key);
        with(&store, |resolver, version| verify(resolver, version, "release", &trust)).unwrap();

        assert_eq!(
            refused(&store, "other", &trust),
            "signature \"other\" not found; e.org/shop:1.0.0 has \"release\""
        );
        assert_eq!(refused(&store, "release", &self::trust(&other)), SignatureError::Forged.to_string());

        // Changes to local content, to content of the referenced component, and to artifacts are
        // detected.
        for (key, element) in [
            ("notes", "e.org/shop:1.0.0: the digest of resource \"notes\""),
            ("artifact r/image:1", "e.org/shop:1.0.0: the digest of resource \"image\""),
            ("data", "e.org/shop:1.0.0: the digest of reference \"db\""),
        ] {
            let mut altered = store.clone();
            altered.contents.insert(key.to_owned(), b"altered".to_vec());
            let message = refused(&altered, "release", &trust);
            assert!(message.starts_with(element), "{message}");
        }
        let mut altered = store.clone();
        altered.descriptors.get_mut("e.org/shop:1.0.0").unwrap()["component"]["provider"] = json!("q");
        let message = refused(&altered, "release", &trust);
        assert!(message.starts_with("signature digest ("), "{message}");

        // Unsigned parts may change: storage locations, and labels without the `signing` flag.
        let mut moved = store.clone();
        let component = &mut moved.descriptors.get_mut("e.org/shop:1.0.0").unwrap()["component"];
        component["repositoryContexts"] = json!([{"type": "ociRegistry", "baseUrl": "elsewhere"}]);
        component["labels"] = json!([{"name": "note", "value": "x"}]);
        with(&moved, |resolver, version| verify(resolver, version, "release", &trust)).unwrap();
    }
}

/// References are followed as written. A missing version and a cycle are errors.
#[test]
fn references() {
    let key = SigningKey::generate(Algorithm::Rsa2048).unwrap();
    let mut store = store();
    sign(&mut store, &key, Normalisation::V2);
    let mut gone = store.clone();
    gone.descriptors.remove("e.org/db:1.0.0");
    assert!(refused(&gone, "release", &trust(&key)).contains("\"e.org/db:1.0.0\" not found in r"));
    let back = json!([{"name": "shop", "componentName": "e.org/shop", "version": "1.0.0"}]);
    store.descriptors.get_mut("e.org/db:1.0.0").unwrap()["component"]["componentReferences"] = back;
    assert_eq!(
        refused(&store, "release", &trust(&key)),
        "component references form a cycle: e.org/shop:1.0.0 -> e.org/db:1.0.0 -> e.org/shop:1.0.0"
    );
}

fn certificate(
    name: &str,
    is_authority: bool,
    key: &SigningKey,
    issuer: Option<(&str, &SigningKey)>,
) -> String {
    let tbs = TbsCertificate {
        serial: [7; 16],
        subject: Subject { common_name: name.to_owned(), ..Subject::default() },
        not_before: 1000,
        not_after: 2000,
        is_authority,
        key_usage: if is_authority { KeyUsage::CERT_SIGN } else { KeyUsage::DIGITAL_SIGNATURE },
        extended_key_usage: Vec::new(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
    };
    let info = key.public_key_info().unwrap();
    match issuer {
        None => tbs.sign(&info, Issuer::Subject(key)).unwrap(),
        Some((authority, key)) => {
            tbs.sign(&info, Issuer::Authority(&Certificate::parse(authority).unwrap(), key)).unwrap()
        }
    }
}

/// A signature contains its certificate chain, in PEM, below a trusted authority.
#[test]
fn certificates() {
    let [root_key, key] = [(); 2].map(|()| SigningKey::generate(Algorithm::Rsa2048).unwrap());
    let root = certificate("authority", true, &root_key, None);
    let leaf = certificate("example.org", false, &key, Some((&root, &root_key)));
    let mut store = store();
    sign(&mut store, &key, Normalisation::V2);
    let entry = &mut store.descriptors.get_mut("e.org/shop:1.0.0").unwrap()["signatures"][0]["signature"];
    let bytes = HEXLOWER.decode(entry["value"].as_str().unwrap().as_bytes()).unwrap();
    let block = to_pem("SIGNATURE", &bytes).replacen(
        "-----\n",
        "-----\nSignature Algorithm: RSASSA-PKCS1-V1_5\n\n",
        1,
    );
    *entry = json!({
        "algorithm": "RSASSA-PKCS1-V1_5", "mediaType": PEM_MEDIA_TYPE, "value": format!("{block}{leaf}"), "issuer": "CN=example.org",
    });
    let under = |authorities: &str, now: i64| TrustAnchor {
        public_key: None,
        authorities: Some(authorities.to_owned()),
        now,
    };
    with(&store, |resolver, version| verify(resolver, version, "release", &under(&root, 1500))).unwrap();
    assert!(refused(&store, "release", &under(&root, 3000)).contains("not valid at this time"));
    let stranger = certificate("authority", true, &key, None);
    assert!(refused(&store, "release", &under(&stranger, 1500)).contains("is not signed by any"));
    assert!(refused(&store, "release", &under("nothing", 1500)).contains("contain no PEM certificate"));
    assert!(refused(&store, "release", &TrustAnchor::default()).contains("neither a public key nor"));
    let mut other = store.clone();
    other.descriptors.get_mut("e.org/shop:1.0.0").unwrap()["signatures"][0]["signature"]["issuer"] =
        json!("CN=else.org");
    assert!(refused(&other, "release", &under(&root, 1500)).contains("names the issuer \"CN=else.org\""));
}

/// The error names an unknown algorithm.
#[test]
fn unknown_algorithms() {
    let key = SigningKey::generate(Algorithm::Rsa2048).unwrap();
    let mut store = store();
    sign(&mut store, &key, Normalisation::V2);
    let altered = |pointer: &str, value: &str| {
        let mut store = store.clone();
        *store.descriptors.get_mut("e.org/shop:1.0.0").unwrap().pointer_mut(pointer).unwrap() = value.into();
        refused(&store, "release", &trust(&key))
    };
    for (pointer, value, expected) in [
        (
            "/signatures/0/digest/normalisationAlgorithm",
            "jsonNormalisation/v9",
            "\"jsonNormalisation/v9\" is not supported",
        ),
        ("/signatures/0/digest/hashAlgorithm", "MD5", "\"MD5\" is not supported"),
        ("/signatures/0/signature/algorithm", "x", "\"x\" is not supported"),
        (
            "/signatures/0/signature/algorithm",
            "Sigstore/v1alpha1",
            "\"Sigstore/v1alpha1\" is not supported: sigstore and GPG signatures are not built yet",
        ),
        ("/signatures/0/signature/value", "xyz", "is not hexadecimal"),
        ("/component/resources/0/digest/normalisationAlgorithm", "x/v1", "\"x/v1\" is not supported"),
        (
            "/component/resources/2/digest/normalisationAlgorithm",
            "genericBlobDigest/v1",
            "its access (access method \"npm\" not supported)",
        ),
    ] {
        let message = altered(pointer, value);
        assert!(message.contains(expected), "{message}");
    }
}

/// Signatures of the gaps are told as such, in whatever form their values are.
#[test]
fn signatures_that_are_not_built() {
    let key = SigningKey::generate(Algorithm::Rsa2048).unwrap();
    let mut store = store();
    sign(&mut store, &key, Normalisation::V2);
    for algorithm in ["sigstore", "sigstore-v2", "Sigstore/v1alpha1", "GPG"] {
        let document = store.descriptors.get_mut("e.org/shop:1.0.0").unwrap();
        document["signatures"][0]["signature"] =
            json!({"algorithm": algorithm, "value": "no hex", "mediaType": "application/x"});
        let message = refused(&store, "release", &trust(&key));
        assert!(message.contains("sign the component with RSA, too"), "{message}");
    }
}

/// Digests that OCM's command `hash componentversions --recursive` prints for a version with a
/// reference.
#[test]
fn recorded_digest_of_a_reference() {
    let document = |name: &str, references: Value| {
        json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": name, "version": "v1", "provider": "mandelsoft", "sources": [], "repositoryContexts": [],
            "componentReferences": references, "resources": [],
        }})
    };
    let mut store = Store::default();
    let references = json!([{"name": "ref", "componentName": "test.de/y", "version": "v1"}]);
    store.descriptors.insert("test.de/x:v1".to_owned(), document("test.de/x", references));
    store.descriptors.insert("test.de/y:v1".to_owned(), document("test.de/y", json!([])));
    let (overwrites, inline) = (Overwrites::default(), InlineSet::default());
    let root = Reference { name: "test.de/x".to_owned(), version: "v1".to_owned(), ..reference("") };
    let substitution = overwrites.apply(&root);
    let resolver = Resolver::new(&store, &overwrites, &inline, &substitution);
    let version = resolver.lookup(&root).unwrap();
    let (completed, bytes) = prepare(&resolver, &version, Normalisation::V3).unwrap();
    let hash = |bytes: &[u8]| HEXLOWER.encode(&Hash::Sha256.of(bytes));
    assert_eq!(hash(&bytes), "4ca827281d94cdfee77e7ab2d89164f5e0d38890d12f035c2cbe19d72851fb17");
    let digest = &completed.document()["component"]["componentReferences"][0]["digest"]["value"];
    assert_eq!(digest, "bd420aea257660f444b39165cee42b905e48165021781e2468dcf8e1cbc0151d");
}

/// Signatures made by OCM's command: the two examples in OCM's specification of signing. The public
/// key is computed from the two signatures, which share one key.
#[test]
fn signatures_of_the_original() {
    const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAwHXwrGhWxNjStsN/zl+e\n\
srVi7OSuANDzdLEnEMaLfkrxYZNQRlCTLlM430SKaGM+PV5IzDDZ48yrMAlFLV0U\n\
Pl85SeXCDepmP6cSRi+FWYWTiOATTXIF3ecFZ86RMgW3F9QpaWoWOTwpcYSvq4CG\n\
9E82Z5KXHk/yXt50x6yC2k2u4Gg1hELCWblhKcBjCuq7xzMEhxfvYZryUy1xoORP\n\
myR3M2onhqnyk/Q0QXtRUB73yAkC7cjc8eYYpUvYxzlJ1GGrGuOi2RJE/NfsZQYB\n\
dn0fMpEmX9+Woh/HAm8a5m3i8QQlZMdNHBn9kO2BUCOi+v1yyDOS31w+DjEzjQag\n\
hQIDAQAB\n\
-----END PUBLIC KEY-----\n";
    const SIMPLE: &str = "ae7e7a215d970c036773221642693bded5cf6a039597113d5ec522d5ebd491a40e3f6d850689a749aaa2de3c0cc2a9e5f564c8353f5143\
         85fae7c9554e00aead4890483a0ae5cef5c3629eb63ba4ee061659b06737b4985b4c04d286d19a09735482a769e82dd4a0b396cb0dda08\
         22817b72b7daa1dfd2a1c071dd4a7e7bea1e25ee4156594efc5a567ac092ae8518995843bef1e79c7bfd95651cf66725f3740ef8b02024\
         85900a0445df327543963322baf61dd91d4b30356b996bd99e513e2b5a7643a8ddfc706773603dfb3f8f38d7a9fbd10c48fe813c8149b1\
         e0be20f7fcf54bdd5efe4da37c60730fbf33f3ea26b793cf6ac531b8c6f66bea3e3d2ffc";
    const COMPLEX: &str = "727b067cd67003338b83149220a36fdb7e16f29d4d5790474c95ee3547adcbe64d699efce3d19fa2e85424904265c0364e95f15cbf816e\
         093b633943a632ba9f3b862e1f5adb62620cf7eb2d85b60796f329afb1df26019ca84b42c58ebc6e691094e34eca223195f96cee3a8a15\
         52e4ac7d1821e32072213f6cc762355c5974be56f239a270a9c67056ec3455f10339eb76eb8ca1905f0201190130fac0683bc2d09fa9bc\
         3a9cd30af414b6f29e97397621d2f6b715353a7f793813139ed9707824b648aa84f2b38cc27fd7f6e89633ba83eb1fd34ab68a3b9c098e\
         ddd659f94a06d0225a4ed607b4c7682ca8d824ee005e618a25d3dde9d6aaf626aa7e1556";
    let trust = TrustAnchor { public_key: Some(KEY.to_owned()), authorities: None, now: 0 };
    let check = |digest: &str, value: &str| {
        let signature = json!({
            "algorithm": "RSASSA-PKCS1-V1_5", "mediaType": "application/vnd.ocm.signature.rsa", "value": value,
        });
        let hashed = data_encoding::HEXLOWER.decode(digest.as_bytes()).unwrap();
        super::check(Some(&signature), Hash::Sha256, &hashed, &trust)
    };
    let simple = "01c211f5c9cfd7c40e5b84d66a2fb7d19cb0d65174b06c57b403c2ad9fdf8ed2";
    let complex = "01801dfb56ba7b4033b8177e53e689644f1447c8270004b2c05c5fe45aa1063f";
    assert!(check(simple, SIMPLE).is_ok() && check(complex, COMPLEX).is_ok());
    assert!(matches!(check(complex, SIMPLE), Err(SignatureError::Forged)));
}
