//! `hash.star`.

use data_encoding::HEXLOWER;
use md5::Digest;

use crate::values::{Answer, Given, Heap, Member, Module, Native, Run};

pub(super) static MODULE: Module = Module {
    name: "hash",
    members: &[
        ("md5", Member::Function(&Native { name: "hash.md5", run: Run::Plain(md5) })),
        ("sha1", Member::Function(&Native { name: "hash.sha1", run: Run::Plain(sha1) })),
        ("sha256", Member::Function(&Native { name: "hash.sha256", run: Run::Plain(sha256) })),
    ],
};

fn digest(heap: &Heap, given: &Given, digest: fn(&[u8]) -> String) -> Answer {
    given.count(1, 1)?;
    let text = given.text(0)?;
    heap.spend(text.len())?;
    heap.text(digest(text.as_bytes()))
}

fn md5(heap: &mut Heap, given: &Given) -> Answer {
    digest(heap, given, |bytes| HEXLOWER.encode(&md5::Md5::digest(bytes)))
}

fn sha1(heap: &mut Heap, given: &Given) -> Answer {
    digest(heap, given, |bytes| HEXLOWER.encode(&sha1::Sha1::digest(bytes)))
}

fn sha256(heap: &mut Heap, given: &Given) -> Answer {
    digest(heap, given, |bytes| HEXLOWER.encode(&sha2::Sha256::digest(bytes)))
}
