//! What Go's standard library and Masterminds/semver do with texts.
//!
//! Both template languages, the YAML that Go tools read and write, and the fields of the objects follow programs written
//! in Go: how a float is written, what `printf` makes of a wrong verb, which patterns compile. All of that is here once,
//! and knows nothing of templates or objects. The modules bear the names of Go's packages.
//!
//! * [`strconv`]: numbers to texts and back.
//! * [`text`]: strings of bytes: their characters, their classes, quoting.
//! * [`fmt`]: `printf`, for whatever implements [`fmt::Argument`].
//! * [`regexp`]: Go's regular expressions on top of the `regex` crate.
//! * [`time`]: instants, zones and layouts; [`duration`]: the texts of `time.Duration`.
//! * [`cron`]: when the expressions of robfig/cron are due.
//! * [`path`], [`url`]: slash-separated paths and `net/url`.
//! * [`semver`]: versions and constraints as Masterminds/semver v3 reads them.
//!
//! Where originals differ, a parameter says so, and the rule stays with who follows that original.

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
