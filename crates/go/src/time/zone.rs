//! Time zones by name, from a database compiled into the program.

use std::rc::Rc;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The zone in which a time is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Zone {
    Utc,
    /// The zone of the machine. UTC takes its place, because a result must not depend on the
    /// machine.
    Local,
    Named(TimeZone),
    /// A zone that a text named with its offset, in seconds east of Greenwich.
    Fixed {
        name: Rc<str>,
        offset: i64,
    },
}

impl Zone {
    /// Finds a zone of the database, `Local`, or UTC, for which the empty name is accepted, too.
    /// Names are case sensitive.
    pub fn find(name: &str) -> Option<Zone> {
        match name {
            "" | "UTC" => Some(Zone::Utc),
            "Local" => Some(Zone::Local),
            _ => {
                let zone = DATABASE.get(name).ok()?;
                (zone.iana_name() == Some(name)).then_some(Zone::Named(zone))
            }
        }
    }

    /// Returns the offset in seconds east of Greenwich at an instant, and the abbreviation of the
    /// zone then.
    pub fn at(&self, seconds: i64) -> (i64, String) {
        match self {
            Zone::Utc | Zone::Local => (0, "UTC".to_owned()),
            Zone::Fixed { name, offset } => (*offset, name.as_ref().to_owned()),
            Zone::Named(zone) => {
                let bounds = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
                let instant = Timestamp::from_second(seconds.clamp(bounds.0, bounds.1)).unwrap_or_default();
                let info = zone.to_offset_info(instant);
                (i64::from(info.offset().seconds()), info.abbreviation().to_owned())
            }
        }
    }

    /// Reports whether Go would see both as the same zone. Go compares addresses, and each parsed
    /// text creates its own zone.
    pub fn is_same(&self, other: &Zone) -> bool {
        match (self, other) {
            (Zone::Fixed { name, .. }, Zone::Fixed { name: other, .. }) => Rc::ptr_eq(name, other),
            _ => self == other,
        }
    }

    /// Returns the name of the zone.
    pub fn name(&self) -> String {
        match self {
            Zone::Utc | Zone::Local => "UTC".to_owned(),
            Zone::Named(zone) => zone.iana_name().unwrap_or_default().to_owned(),
            Zone::Fixed { name, .. } => name.as_ref().to_owned(),
        }
    }
}
