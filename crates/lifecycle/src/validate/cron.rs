//! The form of cron expressions (`installations.md` 1.1, rule 7). When they fire is not computed here.

use std::str::FromStr;

use groundwork_api::Duration;

const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// What one of the five fields may hold.
struct Field {
    name: &'static str,
    first: u32,
    last: u32,
    /// Names for `first` and the values after it.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", first: 0, last: 59, names: &[] },
    Field { name: "hour", first: 0, last: 23, names: &[] },
    Field { name: "day of month", first: 1, last: 31, names: &[] },
    Field { name: "month", first: 1, last: 12, names: &MONTHS },
    Field { name: "day of week", first: 0, last: 6, names: &DAYS },
];

/// What is wrong with a cron expression, if anything is.
pub(super) fn check(expression: &str) -> Result<(), String> {
    let schedule = without_zone(expression)?;
    if let Some(distance) = schedule.strip_prefix("@every ") {
        let valid = Duration::from_str(distance).is_ok() && distance != "none";
        return if valid { Ok(()) } else { Err(format!("{distance:?} is no duration such as 1h30m")) };
    }
    if schedule.starts_with('@') {
        let known = DESCRIPTORS.contains(&schedule);
        let expected = || format!("{schedule} is none of {}, @every <duration>", DESCRIPTORS.join(", "));
        return if known { Ok(()) } else { Err(expected()) };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "five fields are expected (minute, hour, day of month, month, day of week), found {}",
            fields.len()
        ));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(text, field)| field.check(text))
}

/// The expression behind an optional `TZ=<zone>` or `CRON_TZ=<zone>`.
fn without_zone(expression: &str) -> Result<&str, String> {
    let zoned = ["TZ=", "CRON_TZ="].into_iter().find_map(|prefix| expression.strip_prefix(prefix));
    let Some(zoned) = zoned else { return Ok(expression.trim()) };
    match zoned.split_once(' ') {
        Some((zone, schedule)) if !zone.is_empty() => Ok(schedule.trim()),
        _ => Err("a time zone, a blank and the schedule are expected".to_owned()),
    }
}

impl Field {
    fn check(&self, text: &str) -> Result<(), String> {
        text.split(',').try_for_each(|range| self.range(range))
    }

    /// `*`, `5`, `1-5`, each with an optional `/step`.
    fn range(&self, text: &str) -> Result<(), String> {
        let wrong = |problem: &str| Err(format!("{}: {text:?} {problem}", self.name));
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        if step.is_some_and(|step| step.parse::<u32>().ok().is_none_or(|step| step == 0)) {
            return wrong("has a step that is not a positive number");
        }
        if range == "*" || range == "?" {
            return Ok(());
        }
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (self.value(first), self.value(last)) {
            (Some(first), Some(last)) if first <= last => Ok(()),
            (Some(_), Some(_)) => wrong("ends before it begins"),
            _ => wrong(&format!("does not lie between {} and {}", self.first, self.last)),
        }
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().zip(self.first..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        let number = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let value = named.map(|(_, value)| value).or_else(number)?;
        (self.first..=self.last).contains(&value).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for good in [
            "30 2 * * *",
            "*/5 0-12/2 1,15 jan-MAR mon",
            " 0 0 ? * 0 ",
            "@hourly",
            "@every 1h30m",
            "TZ=Europe/Berlin 0 6 * * *",
            "CRON_TZ=UTC @daily",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, start) in [
            ("", "five fields are expected"),
            ("* * * *", "five fields are expected"),
            ("0 * * * * *", "five fields are expected"),
            ("60 * * * *", "minute: \"60\" does not lie between 0 and 59"),
            ("* * 0 * *", "day of month: \"0\" does not lie"),
            ("* * * * 7", "day of week: \"7\" does not lie"),
            ("* 5-2 * * *", "hour: \"5-2\" ends before it begins"),
            ("*/0 * * * *", "minute: \"*/0\" has a step"),
            ("1, * * * *", "minute: \"\" does not lie"),
            ("+1 * * * *", "minute: \"+1\" does not lie"),
            ("@never", "@never is none of"),
            ("@every soon", "\"soon\" is no duration"),
            ("TZ=UTC", "a time zone, a blank"),
        ] {
            let error = check(bad).unwrap_err();
            assert!(error.starts_with(start), "{bad}: {error}");
        }
    }
}
