//! `hash.star`.

use data_encoding::HEXLOWER;
use md5::Digest;

use super::{Member, Module};
use crate::eval::{Answer, Given, Machine, Native};

/// Steps that a byte costs.
const BYTE: usize = 4;

pub(super) static MODULE: Module = Module {
    name: "hash",
    members: &[
        ("md5", Member::Function(&Native { name: "hash.md5", run: md5 })),
        ("sha1", Member::Function(&Native { name: "hash.sha1", run: sha1 })),
        ("sha256", Member::Function(&Native { name: "hash.sha256", run: sha256 })),
    ],
};

fn digest(machine: &Machine<'_>, given: &Given, digest: fn(&[u8]) -> String) -> Answer {
    given.count(1, 1)?;
    let text = given.text(0)?;
    machine.heap.spend(text.len().saturating_mul(BYTE).saturating_add(1_000))?;
    machine.heap.text(digest(text.as_bytes()))
}

fn md5(machine: &mut Machine<'_>, given: &Given) -> Answer {
    digest(machine, given, |bytes| HEXLOWER.encode(&md5::Md5::digest(bytes)))
}

fn sha1(machine: &mut Machine<'_>, given: &Given) -> Answer {
    digest(machine, given, |bytes| HEXLOWER.encode(&sha1::Sha1::digest(bytes)))
}

fn sha256(machine: &mut Machine<'_>, given: &Given) -> Answer {
    digest(machine, given, |bytes| HEXLOWER.encode(&sha2::Sha256::digest(bytes)))
}
