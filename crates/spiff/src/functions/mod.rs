//! The built-in functions that need only their arguments, not the document (`spiff.md` 11).

mod arguments;
mod calling;
mod convert;
mod encode;
mod format;
mod lists;
mod maps;
mod math;
mod network;
mod new_keys;
mod order;
mod passwords;
mod paths;
mod patterns;
mod random;
mod secrets;
mod semver;
mod text;
mod validate;
mod wireguard;
mod x509;

pub(crate) use calling::{Caller, Function, Guarded, Source, denial};
pub(crate) use encode::base64_lines;
pub(crate) use maps::list_to_map;
pub(crate) use network::{indices as address_indices, pool as address_pool};
pub(crate) use patterns::KEPT as KEPT_PATTERNS;
pub(crate) use secrets::decrypted;

/// Returns the function `name`, if it is one that does not need the document.
pub(crate) fn find(name: &str) -> Option<Function> {
    use Function::{Calling, Head, Plain};
    Some(match name {
        "join" => Calling(text::join),
        "split" => Calling(text::split),
        "trim" => Plain(text::trim),
        "lower" => Plain(text::lower),
        "upper" => Plain(text::upper),
        "substr" => Plain(text::substr),
        "length" => Head(text::length),
        "replace" => Calling(text::replace),
        "match" => Calling(patterns::matches),
        "split_match" => Calling(patterns::split_match),
        "replace_match" => Calling(patterns::replace_match),
        "format" => Calling(format::format),
        "error" => Calling(format::error),
        "string" => Plain(convert::string),
        "integer" => Plain(convert::integer),
        "float" => Plain(convert::float),
        "bool" => Plain(convert::bool),
        "basename" => Plain(paths::basename),
        "dirname" => Plain(paths::dirname),
        "parseurl" => Plain(paths::parseurl),
        "base64" => Calling(encode::base64),
        "base64_decode" => Plain(encode::base64_decode),
        "md5" => Plain(encode::md5),
        "hash" => Calling(encode::hash),
        "bcrypt_check" => Calling(passwords::bcrypt_check),
        "md5crypt_check" => Calling(passwords::md5crypt_check),
        "wgpublickey" => Plain(wireguard::public_key),
        "x509parsecert" => Calling(x509::parse_certificate),
        "x509publickey" => Plain(x509::public_key),
        "asjson" => Calling(encode::asjson),
        "asyaml" => Calling(encode::asyaml),
        "element" => Head(lists::element),
        "contains" => Plain(lists::contains),
        "index" => Plain(lists::index),
        "lastindex" => Plain(lists::lastindex),
        "sort" => Calling(order::sort),
        "reverse" => Plain(lists::reverse),
        "uniq" => Calling(lists::uniq),
        "compact" => Plain(lists::compact),
        "intersect" => Calling(lists::intersect),
        "keys" => Plain(maps::keys),
        "list_to_map" => Plain(|arguments| maps::list_to_map(arguments, "name")),
        "makemap" => Plain(maps::makemap),
        "deepmerge" => Plain(maps::deepmerge),
        "min_ip" => Plain(network::min_ip),
        "max_ip" => Plain(network::max_ip),
        "num_ip" => Plain(network::num_ip),
        "contains_ip" => Plain(network::contains_ip),
        "ipset" => Calling(network::ipset),
        "validate" => Calling(validate::validate),
        "check" => Calling(validate::check),
        _ => return math::find(name).or_else(|| semver::find(name)).map(Plain),
    })
}

/// Returns the guarded function `name`.
pub(crate) fn find_guarded(name: &str) -> Option<Guarded> {
    Some(match name {
        "rand" => random::rand,
        "bcrypt" => passwords::bcrypt,
        "encrypt" => secrets::encrypt,
        "md5crypt" => passwords::md5crypt,
        "wggenkey" => wireguard::generate_key,
        "x509cert" => new_keys::certificate,
        "x509genkey" => new_keys::generate_key,
        _ => return None,
    })
}

/// Reports whether spiff++ registers `name` as an extension, so that a function of the host may
/// replace it (`spiff.md` 17).
pub(crate) fn is_extension(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "encrypt",
        "decrypt",
        "string",
        "integer",
        "float",
        "bool",
        "basename",
        "dirname",
        "parseurl",
        "intersect",
        "reverse",
        "compact",
        "features",
        "tagdef",
        "mkdir",
    ];
    let families = ["semver", "x509", "wg"];
    NAMES.contains(&name)
        || families.iter().any(|family| name.starts_with(family))
        || math::find(name).is_some()
}

/// Returns the name of a function that reaches files, processes, the environment or randomness,
/// which are not granted by default (`spiff.md` 11.5). `None`: there is no such function.
pub(crate) fn denied(name: &str) -> Option<&'static str> {
    const NAMES: &[&str] = &[
        "read",
        "read_uncached",
        "write",
        "tempfile",
        "lookup_file",
        "lookup_dir",
        "list_files",
        "list_dirs",
        "mkdir",
        "exec",
        "exec_uncached",
        "pipe",
        "pipe_uncached",
        "env",
        "archive",
        "rand",
        "bcrypt",
        "md5crypt",
        "encrypt",
        "x509genkey",
        "x509cert",
        "wggenkey",
    ];
    NAMES.iter().find(|known| **known == name).copied()
}

#[cfg(test)]
mod tests;
