//! The text functions of Go's standard library, and the versions of Masterminds/semver.
//!
//! Both template languages, the YAML that Go tools read and write, and the fields of the objects
//! follow programs written in Go: how a float is written, how `printf` handles a wrong verb, which
//! patterns compile. All of that is implemented here once, without knowledge of templates or
//! objects. The modules have the names of Go's packages.
//!
//! * [`strconv`]: numbers to texts and back.
//! * [`text`]: strings of bytes: their characters, their classes, quoting.
//! * [`fmt`]: `printf`, for types that implement [`fmt::Argument`].
//! * [`regexp`]: Go's regular expressions on top of the `regex` crate.
//! * [`time`]: instants, zones and layouts; [`duration`]: the texts of `time.Duration`.
//! * [`cron`]: the times of robfig/cron's expressions.
//! * [`path`], [`url`]: slash-separated paths and `net/url`.
//! * [`semver`]: versions and constraints as Masterminds/semver v3 reads them.
//!
//! If two Go programs differ, a parameter chooses, and the calling crate knows which program it
//! follows.

pub mod cron;
pub mod duration;
pub mod fmt;
pub mod path;
pub mod path_match;
pub mod regexp;
pub mod semver;
pub mod strconv;
pub mod text;
pub mod time;
pub mod url;
