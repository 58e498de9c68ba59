//! Times, months, weekdays and durations as values of a template (`gotemplate.md` 12.11).

use std::any::Any;
use std::cmp::Ordering;
use std::rc::Rc;

use groundwork_go::duration;
use groundwork_go::time::{Instant, SECOND, Zone, month_name, weekday_name};

use super::registration::Outcome;
use crate::context::Context;
use crate::functions::arguments::Arguments;
use crate::functions::{DURATION, Signature, Type};
use crate::value::{IntKind, Member, Object, Value};

/// Go's names of the types.
pub(crate) const TIME: &str = "time.Time";

#[derive(Debug)]
pub(super) struct TimeObject(Instant);

impl From<Instant> for Value {
    /// Wraps an instant as a `time.Time`.
    fn from(instant: Instant) -> Value {
        TimeObject::value(instant)
    }
}

impl TimeObject {
    pub(super) fn value(instant: Instant) -> Value {
        Value::Object(Rc::new(TimeObject(instant)))
    }

    /// Returns the instant of a value that is a time.
    pub(super) fn of(value: &Value) -> Option<&Instant> {
        match value {
            Value::Object(object) => object.as_any().downcast_ref::<TimeObject>().map(|time| &time.0),
            _ => None,
        }
    }

    fn number(&self, method: &str) -> Option<Value> {
        let wall = self.0.wall();
        let nanoseconds =
            |unit: i64| self.0.seconds.wrapping_mul(SECOND / unit).wrapping_add(self.0.nanoseconds / unit);
        Some(match method {
            "Year" => Value::int(wall.date.year),
            "Day" => Value::int(wall.date.day),
            "Hour" => Value::int(wall.hour),
            "Minute" => Value::int(wall.minute),
            "Second" => Value::int(wall.second),
            "Nanosecond" => Value::int(self.0.nanoseconds),
            "YearDay" => Value::int(wall.year_day),
            "Unix" => Value::int64(self.0.seconds),
            "UnixMilli" => Value::int64(nanoseconds(1_000_000)),
            "UnixMicro" => Value::int64(nanoseconds(1_000)),
            "UnixNano" => Value::int64(nanoseconds(1)),
            "Month" => NamedNumber::Month.value(wall.date.month),
            "Weekday" => NamedNumber::Weekday.value(wall.weekday),
            _ => return None,
        })
    }

    /// Runs the methods that take another time.
    fn relation(&self, method: &str, other: &Instant) -> Option<Value> {
        let order = self.0.compare(other);
        Some(match method {
            "Before" => (order == Ordering::Less).into(),
            "After" => (order == Ordering::Greater).into(),
            "Equal" => (order == Ordering::Equal).into(),
            "Compare" => Value::int(order as i64),
            "Sub" => NamedNumber::Duration.value(self.0.since(other)),
            _ => return None,
        })
    }
}

impl Object for TimeObject {
    fn type_name(&self) -> &str {
        TIME
    }

    fn member(&self, name: &str) -> Option<Member> {
        Some(match name {
            "Year" | "Day" | "Hour" | "Minute" | "Second" | "Nanosecond" | "YearDay" | "Unix"
            | "UnixMilli" | "UnixMicro" | "UnixNano" | "Month" | "Weekday" | "UTC" | "Local" | "IsZero"
            | "Location" | "String" | "GoString" => Member::getter(),
            "Format" => Member::method(&[Type::String]),
            "AddDate" => Member::method(&[Type::Int, Type::Int, Type::Int]),
            "Add" | "Truncate" | "Round" => Member::method(&[Type::Duration]),
            "Before" | "After" | "Equal" | "Compare" | "Sub" => Member::method(&[Type::Object(TIME)]),
            "Zone" | "ISOWeek" => Member::Unusable(format!(
                "invalid function signature for {name}: second return value should be error; is int"
            )),
            "Date" | "Clock" => {
                Member::Unusable(format!("function {name} has 3 return values; should be 1 or 2"))
            }
            _ => return None,
        })
    }

    fn call(&self, context: &mut Context<'_>, method: &str, arguments: &[Value]) -> Outcome {
        let by = || arguments.value(0).as_integer().and_then(|by| i64::try_from(by).ok()).unwrap_or(0);
        Ok(match method {
            "Format" => {
                context.check_text(arguments.string(0).len().saturating_mul(10))?;
                self.0.format(arguments.string(0)).into()
            }
            "UTC" => TimeObject::value(self.0.within(Zone::Utc)),
            "Local" => TimeObject::value(self.0.within(Zone::Local)),
            "AddDate" => {
                let (years, months, days) = (arguments.int(0), arguments.int(1), arguments.int(2));
                TimeObject::value(self.0.add_date(years, months, days))
            }
            "Add" => TimeObject::value(self.0.add(by())),
            "Truncate" => TimeObject::value(self.0.truncate(by())),
            "Round" => TimeObject::value(self.0.round(by())),
            "IsZero" => self.0.is_zero().into(),
            "Location" => Value::Object(Rc::new(Location(self.0.zone.clone()))),
            "String" => self.0.text().into(),
            "GoString" => self.go_text().unwrap_or_default().into(),
            other => {
                let related = TimeObject::of(arguments.value(0)).and_then(|time| self.relation(other, time));
                related.or_else(|| self.number(other)).ok_or(super::registration::NIL_POINTER)?
            }
        })
    }

    fn text(&self) -> String {
        self.0.text()
    }

    fn go_text(&self) -> Option<String> {
        let wall = self.0.wall();
        let zone = match &self.0.zone {
            Zone::Utc => "time.UTC".to_owned(),
            Zone::Local => "time.Local".to_owned(),
            other => format!("time.Location({})", crate::text::quote(other.name().as_bytes())),
        };
        let (year, month, day) = (wall.date.year, month_name(wall.date.month), wall.date.day);
        let (hour, minute, second, nanoseconds) = (wall.hour, wall.minute, wall.second, self.0.nanoseconds);
        Some(format!(
            "time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, {nanoseconds}, {zone})"
        ))
    }

    /// Fields of the struct. The last one is a pointer, which Go prints as an address for zones
    /// other than UTC.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        if self.0.zone != Zone::Utc {
            return Vec::new();
        }
        let number = |n: i64| Value::Int(IntKind::Uint64, n);
        vec![
            ("wall", number(self.0.nanoseconds)),
            ("ext", Value::int64(self.0.since_year_1())),
            ("loc", number(0)),
        ]
    }

    /// RFC 3339, as Go's `MarshalJSON` writes it.
    fn json(&self) -> Value {
        self.0.format(b"2006-01-02T15:04:05.999999999Z07:00").into()
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let other = other.as_any().downcast_ref::<TimeObject>();
        other.is_some_and(|other| self.0 == other.0 && self.0.zone.is_same(&other.0.zone))
    }

    fn deep_equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<TimeObject>().is_some_and(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A `*time.Location`. Templates see only its name.
#[derive(Debug)]
struct Location(Zone);

impl Object for Location {
    fn type_name(&self) -> &str {
        "*time.Location"
    }

    fn kind_name(&self) -> &str {
        "ptr"
    }

    fn member(&self, name: &str) -> Option<Member> {
        (name == "String").then(Member::getter)
    }

    fn call(&self, _: &mut Context<'_>, _: &str, _: &[Value]) -> Outcome {
        Ok(self.text().into())
    }

    fn text(&self) -> String {
        self.0.name()
    }

    fn json(&self) -> Value {
        Value::Map(crate::value::Map::default())
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Location>().is_some_and(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The integer types of Go's `time` that print as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedNumber {
    Month,
    Weekday,
    Duration,
}

impl NamedNumber {
    pub(crate) fn value(self, number: i64) -> Value {
        Value::Object(Rc::new(NumberObject { name: self, number }))
    }
}

#[derive(Debug, PartialEq)]
struct NumberObject {
    name: NamedNumber,
    number: i64,
}

impl Object for NumberObject {
    fn type_name(&self) -> &str {
        match self.name {
            NamedNumber::Month => "time.Month",
            NamedNumber::Weekday => "time.Weekday",
            NamedNumber::Duration => DURATION,
        }
    }

    fn kind_name(&self) -> &str {
        if self.name == NamedNumber::Duration { "int64" } else { "int" }
    }

    fn integer(&self) -> Option<i64> {
        Some(self.number)
    }

    fn member(&self, name: &str) -> Option<Member> {
        let own = match name {
            "String" => true,
            "Hours" | "Minutes" | "Seconds" | "Milliseconds" | "Microseconds" | "Nanoseconds" | "Abs" => {
                self.name == NamedNumber::Duration
            }
            "Round" | "Truncate" if self.name == NamedNumber::Duration => {
                return Some(Member::Method(Signature::fixed(&[Type::Duration])));
            }
            _ => false,
        };
        own.then(Member::getter)
    }

    fn call(&self, context: &mut Context<'_>, method: &str, arguments: &[Value]) -> Outcome {
        // Go divides whole units and the rest apart, which gives another float than one division.
        let float = |unit: i64| (self.number / unit) as f64 + (self.number % unit) as f64 / unit as f64;
        let by = arguments.value(0).as_integer().and_then(|by| i64::try_from(by).ok()).unwrap_or(0);
        Ok(match method {
            "Hours" => context.float(float(3_600 * SECOND)),
            "Minutes" => context.float(float(60 * SECOND)),
            "Seconds" => context.float(float(SECOND)),
            "Milliseconds" => Value::int64(self.number / 1_000_000),
            "Microseconds" => Value::int64(self.number / 1_000),
            "Nanoseconds" => Value::int64(self.number),
            "Abs" => NamedNumber::Duration.value(self.number.saturating_abs()),
            "Truncate" if by > 0 => NamedNumber::Duration.value(self.number - self.number % by),
            "Round" if by > 0 => {
                let rest = self.number % by;
                let away = rest.unsigned_abs() >= by.unsigned_abs() - rest.unsigned_abs();
                let step = if away { by * self.number.signum() } else { 0 };
                NamedNumber::Duration.value((self.number - rest).saturating_add(step))
            }
            "Truncate" | "Round" => NamedNumber::Duration.value(self.number),
            _ => self.text().into(),
        })
    }

    fn text(&self) -> String {
        match self.name {
            NamedNumber::Month => month_name(self.number),
            NamedNumber::Weekday => weekday_name(self.number),
            NamedNumber::Duration => duration::text(self.number),
        }
    }

    fn json(&self) -> Value {
        Value::int64(self.number)
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<NumberObject>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn dates_print_in_zones() {
        check_all(&[
            (r#"{{dateInZone "2006 06" (int64 -99999999999) "UTC"}}"#, "-1199 99"),
            (r#"{{dateInZone "2006-01-02T15:04Z07:00" (int64 0) "UTC"}}"#, "1970-01-01T00:00Z"),
            (
                r#"{{dateInZone "Mon Jan _2 3:04PM MST -07:00" 1715000000 "Europe/Berlin"}}"#,
                "Mon May  6 2:53PM CEST +02:00",
            ),
            (r#"{{date_in_zone "2006" 0 "No/Where"}} {{dateInZone "MST" 0 "europe/berlin"}}"#, "1970 UTC"),
            (
                r#"{{date "2006-01-02 15:04:05" 1715000000}} {{htmlDate 1715000000}}"#,
                "2024-05-06 12:53:20 2024-05-06",
            ),
            (r#"{{htmlDateInZone 1715000000 "Asia/Tokyo"}}"#, "2024-05-06"),
            (
                r#"{{toDate "2006-01-02" "2024-02-29"}} {{toDate "2006" "x"}}"#,
                "2024-02-29 00:00:00 +0000 UTC 0001-01-01 00:00:00 +0000 UTC",
            ),
            (r#"{{toDate "2006-01-02" "2024-02-29" | dateModify "-24h" | date "Jan 2"}}"#, "Feb 28"),
            (r#"{{toDate "2006-01-02" "2024-02-29" | date_modify "bad" | unixEpoch}}"#, "1709164800"),
            (
                r#"{{toDate "2006" "2024" | mustDateModify "bad"}}"#,
                r#"error 1:25: executing "t" at <mustDateModify "bad">: error calling mustDateModify: time: invalid duration "bad""#,
            ),
            (
                r#"{{mustToDate "2006-01-02" "bad"}}"#,
                r#"error 1:2: executing "t" at <mustToDate "2006-01-02" "bad">: error calling mustToDate: parsing time "bad" as "2006-01-02": cannot parse "bad" as "2006""#,
            ),
            (
                "{{unixEpoch 5}}",
                r#"error 1:12: executing "t" at <5>: can't handle 5 for arg of type time.Time"#,
            ),
        ]);
    }

    #[test]
    fn durations_and_rounding() {
        check_all(&[
            (
                r#"{{duration "95"}} {{duration (int64 95)}} {{duration 95}} {{duration "x"}}"#,
                "1m35s 1m35s 0s 0s",
            ),
            (
                r#"{{durationRound "2h10m"}} {{durationRound "1h"}} {{durationRound "400h"}} {{durationRound "-2h"}}"#,
                "2h 60m 16d 2h",
            ),
            (
                r#"{{durationRound "bad"}} {{durationRound (int64 5000000001)}} {{durationRound 5}}"#,
                "0s 5s 0s",
            ),
        ]);
    }

    #[test]
    fn times_have_the_members_of_the_original() {
        let head = r#"{{$t := toDate "2006-01-02T15:04:05.000" "2024-05-06T07:08:09.123"}}"#;
        let table = [
            ("{{$t.Year}} {{$t.Day}} {{$t.Hour}} {{$t.YearDay}} {{$t.Nanosecond}}", "2024 6 7 127 123000000"),
            ("{{$t.Unix}} {{$t.UnixMilli}} {{typeOf $t.Unix}}", "1714979289 1714979289123 int64"),
            (
                r#"{{$t.Month}} {{printf "%d %s %v" $t.Month $t.Month $t.Month}} {{int $t.Month}} {{toJson $t.Month}}"#,
                "May 5 May May 5 5",
            ),
            ("{{printf `%t %5d %#v` $t.Month $t.Month $t.Month}}", "%!t(time.Month=5)     5 5"),
            (
                "{{$t.Weekday}} {{eq $t.Weekday 1}} {{lt $t.Month 6}} {{kindOf $t.Month}} {{typeOf $t.Month}}",
                "Monday true true int time.Month",
            ),
            (
                r#"{{$t.Format "02.01.06"}} {{$t.AddDate 0 1 30}}"#,
                "06.05.24 2024-07-06 07:08:09.123 +0000 UTC",
            ),
            (
                "{{($t.Add 1000000000).Second}} {{$t.Truncate 60000000000}}",
                "10 2024-05-06 07:08:00 +0000 UTC",
            ),
            (
                "{{$u := $t.AddDate 0 0 1}}{{$u.Sub $t}} {{($u.Sub $t).Hours}} {{($t.Add ($u.Sub $t)).Equal $u}}",
                "24h0m0s 24 true",
            ),
            (
                "{{$t.Before $t}} {{$t.Compare ($t.Add 1)}} {{$t.IsZero}} {{$t.Location}}",
                "false -1 false UTC",
            ),
            (
                "{{printf `%#v` $t}} {{$t.UTC.GoString}}",
                "time.Date(2024, time.May, 6, 7, 8, 9, 123000000, time.Local) time.Date(2024, time.May, 6, 7, 8, 9, 123000000, time.UTC)",
            ),
            (
                "{{toJson $t}} {{typeOf $t}} {{kindOf $t}} {{eq $t $t}}",
                r#""2024-05-06T07:08:09.123Z" time.Time struct true"#,
            ),
        ];
        for (source, expected) in table {
            check_all(&[(&format!("{head}{source}"), expected)]);
        }
        check_all(&[
            (
                r#"{{$t := toDate "-0700" "+0300"}}{{$u := toDate "-0700" "+0300"}}{{eq $t $u}} {{eq $t $t}} {{deepEqual $t $u}}"#,
                "false true true",
            ),
            (
                r#"{{(toDate "2006" "2024").Zone}}"#,
                r#"error 1:17: executing "t" at <"2024">: invalid function signature for Zone: second return value should be error; is int"#,
            ),
            (
                r#"{{(toDate "2006" "2024").Foo}}"#,
                r#"error 1:17: executing "t" at <"2024">: can't evaluate field Foo in type time.Time"#,
            ),
        ]);
    }
}
