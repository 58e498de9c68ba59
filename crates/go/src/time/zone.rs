//! Time zones by name, from a database inside the program.

use std::rc::Rc;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Where a clock stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Zone {
    Utc,
    /// The zone of the machine, for which UTC stands: a result must not depend on where it is computed.
    Local,
    Named(TimeZone),
    /// What a text said about itself; seconds east of Greenwich.
    Fixed {
        name: Rc<str>,
        offset: i64,
    },
}

impl Zone {
    /// A zone of the database, `Local`, `UTC` or nothing for UTC. Names are case sensitive.
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

    /// Seconds east of Greenwich at an instant, and the abbreviation of the zone then.
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

    /// Whether both are one zone to Go, which compares addresses: each text that is read makes its own zone.
    pub fn is_same(&self, other: &Zone) -> bool {
        match (self, other) {
            (Zone::Fixed { name, .. }, Zone::Fixed { name: other, .. }) => Rc::ptr_eq(name, other),
            _ => self == other,
        }
    }

    /// The name of the zone as a whole.
    pub fn name(&self) -> String {
        match self {
            Zone::Utc | Zone::Local => "UTC".to_owned(),
            Zone::Named(zone) => zone.iana_name().unwrap_or_default().to_owned(),
            Zone::Fixed { name, .. } => name.as_ref().to_owned(),
        }
    }
}
