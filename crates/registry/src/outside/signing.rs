//! Signatures of requests to S3 stores (AWS Signature Version 4).

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Characters that are encoded in a query.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Characters that are encoded in a path.
const IN_PATH: &AsciiSet = &IN_QUERY.remove(b'/');

/// Key of a store.
pub(super) struct Key {
    pub(super) id: String,
    pub(super) secret: String,
    /// Token of a session; empty for a lasting key.
    pub(super) session: String,
}

/// Request without a body.
pub(super) struct Request<'a> {
    pub(super) host: &'a str,
    /// Encoded path.
    pub(super) path: &'a str,
    /// Encoded query, with its members in order.
    pub(super) query: &'a str,
    /// Header fields, in lower case.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) region: &'a str,
    /// Time as `20130524T000000Z`.
    pub(super) time: &'a str,
}

/// Encodes a text for a path or a query.
pub(super) fn encode(text: &str, is_path: bool) -> String {
    utf8_percent_encode(text, if is_path { IN_PATH } else { IN_QUERY }).to_string()
}

impl Request<'_> {
    /// Returns the header fields of the signed request, without `host`.
    pub(super) fn signed(&self, key: &Key) -> Vec<(String, String)> {
        let empty = HEXLOWER.encode(&Sha256::digest(b""));
        let mut headers: Vec<(String, String)> =
            self.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        headers.push(("x-amz-content-sha256".to_owned(), empty.clone()));
        headers.push(("x-amz-date".to_owned(), self.time.to_owned()));
        if !key.session.is_empty() {
            headers.push(("x-amz-security-token".to_owned(), key.session.clone()));
        }
        let mut all = headers.clone();
        all.push(("host".to_owned(), self.host.to_owned()));
        all.sort();
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let lines: String = all.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let canonical = format!("GET\n{}\n{}\n{lines}\n{names}\n{empty}", self.path, self.query);
        let date = self.time.split('T').next().unwrap_or_default();
        let scope = format!("{date}/{}/s3/aws4_request", self.region);
        let hashed = HEXLOWER.encode(&Sha256::digest(canonical.as_bytes()));
        let text = format!("{ALGORITHM}\n{}\n{scope}\n{hashed}", self.time);
        let first = format!("AWS4{}", key.secret);
        let signature = [date, self.region, "s3", "aws4_request", text.as_str()]
            .iter()
            .fold(first.into_bytes(), |key, part| mac(&key, part.as_bytes()));
        let value = format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={}",
            key.id,
            HEXLOWER.encode(&signature)
        );
        headers.push(("authorization".to_owned(), value));
        headers
    }
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is valid");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of the documentation of Amazon S3 (signature calculations with the header
    /// `Authorization`).
    #[test]
    fn published_examples() {
        let key = Key {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session: String::new(),
        };
        for (path, query, headers, expected) in [
            (
                "/test.txt",
                "",
                &[("range", "bytes=0-9")][..],
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            ("/", "lifecycle=", &[], "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            (
                "/",
                "max-keys=2&prefix=J",
                &[],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let request = Request {
                host: "examplebucket.s3.amazonaws.com",
                path,
                query,
                headers,
                region: "us-east-1",
                time: "20130524T000000Z",
            };
            let signed = request.signed(&key);
            let (_, value) = signed.iter().find(|(name, _)| name == "authorization").unwrap();
            assert!(value.ends_with(&format!("Signature={expected}")), "{value}");
            assert!(!value.contains("EXAMPLEKEY"));
        }
    }

    #[test]
    fn sessions_are_signed() {
        let key = Key { id: "a".into(), secret: "b".into(), session: "token".into() };
        let request =
            Request { host: "h", path: "/", query: "", headers: &[], region: "r", time: "20130524T000000Z" };
        let signed = request.signed(&key);
        assert!(signed.contains(&("x-amz-security-token".to_owned(), "token".to_owned())));
        let (_, value) = signed.last().unwrap();
        assert!(
            value.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"),
            "{value}"
        );
    }

    #[test]
    fn encodings() {
        assert_eq!(encode("a/b c+d~e", true), "a/b%20c%2Bd~e");
        assert_eq!(encode("a/b=\u{e4}", false), "a%2Fb%3D%C3%A4");
    }
}
