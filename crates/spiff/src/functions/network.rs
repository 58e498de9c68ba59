//! Functions for IP addresses (`spiff.md` 11.3).

use std::sync::Arc;

use super::arguments::{count, text};
use super::calling::{Answer, Caller, Outcome};
use crate::issue::Issue;
use crate::operators::address::{Address, Cidr};
use crate::value::{List, Value};

fn cidr(arguments: &[Value]) -> Result<Cidr, Issue> {
    count(arguments, 1..=1, "only one argument expected for CIDR function")?;
    arguments[0].as_str().and_then(Cidr::parse).ok_or_else(|| "CIDR argument required".into())
}

/// `min_ip(cidr)`
pub(super) fn min_ip(arguments: &[Value]) -> Outcome {
    Ok(Value::string(cidr(arguments)?.first().to_string()))
}

/// `max_ip(cidr)`
pub(super) fn max_ip(arguments: &[Value]) -> Outcome {
    Ok(Value::string(cidr(arguments)?.last().to_string()))
}

/// `num_ip(cidr)`
pub(super) fn num_ip(arguments: &[Value]) -> Outcome {
    let size = cidr(arguments)?.size();
    Ok(Value::Int(size.ok_or("the network has more addresses than an integer can count")?))
}

/// `contains_ip(cidr, ip)`
pub(super) fn contains_ip(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=2, "contains_ip requires CIDR and IP argument")?;
    let network = text(&arguments[0], "CIDR required as first argument")?;
    let cidr = Cidr::parse(network)
        .ok_or_else(|| Issue::new(format!("CIDR argument required: invalid CIDR address: {network}")))?;
    let address = text(&arguments[1], "IP required as second argument")?;
    let address = Address::parse(address).ok_or("IP argument required")?;
    Ok(Value::Bool(cidr.contains(address)))
}

/// Consecutive addresses.
struct Range {
    first: Address,
    size: i64,
}

impl Range {
    /// Reads `a`, `a-b` or a network.
    fn parse(range: &str) -> Result<Self, Issue> {
        if let Some(cidr) = Cidr::parse(range) {
            return Ok(Self { first: cidr.first(), size: cidr.size().unwrap_or(i64::MAX) });
        }
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let address = |text: &str| {
            Address::parse(text.trim_matches(' ')).ok_or_else(|| Issue::new(format!("invalid IP '{text}'")))
        };
        let (start, end) = (address(first)?, address(last)?);
        if start > end || !start.is_same_kind(end) {
            return Err(Issue::new(format!("invalid IP range: start ({first}) larger than end ({last})")));
        }
        Ok(Self { first: start, size: end.distance(start).saturating_add(1).max(1) })
    }
}

/// `ipset(range|ranges, n, index…)`
pub(super) fn ipset(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 2..=usize::MAX, "at least 2 argument expected (ipranges, size, optional: ip indices")?;
    let ranges = ranges(&arguments[0])?;
    let mut indices = indices(&arguments[2..])?;
    let wanted = arguments[1].as_int().ok_or("number of IPs in set expected as second argument")?;
    let number =
        usize::try_from(wanted).map_err(|_| Issue::new("number of IPs in set must not be negative"))?;
    let limit = caller.limits().nodes;
    if number > limit {
        return Err(Issue::new(format!("ipset: the result would have more than {limit} entries")));
    }
    if arguments.len() > 2 && indices.len() < number {
        let available = indices.len();
        return Err(Issue::new(format!(
            "too many required entries ({wanted} > {available} available indices)"
        )));
    }
    if arguments.len() <= 2 {
        indices.extend(0..wanted);
    }
    let addresses = indices.iter().take(number).enumerate();
    let addresses = addresses.map(|(at, index)| Ok(Value::string(pick(&ranges, *index, at)?.to_string())));
    Ok(Some(Value::list(addresses.collect::<Result<Vec<_>, Issue>>()?)))
}

fn ranges(value: &Value) -> Result<Vec<Range>, Issue> {
    match value {
        Value::String(range) => Ok(vec![Range::parse(range)?]),
        Value::List(list) => {
            let range = |(at, entry): (usize, &Value)| {
                Range::parse(text(entry, &format!("string entry at ip range list index {at}"))?)
            };
            list.values().enumerate().map(range).collect()
        }
        _ => Err("ip range or range list expected as first argument".into()),
    }
}

fn push_indices(indices: &mut Vec<i64>, argument: &Value) -> Result<(), Issue> {
    match argument {
        Value::List(list) => List::values(list).try_for_each(|entry| push_indices(indices, entry)),
        argument => {
            let index =
                argument.as_int().ok_or("arguments to static_ips must be integer or list of integers")?;
            if index < 0 {
                return Err(Issue::new(format!("negative ip indices are not allowed: {index}")));
            }
            indices.push(index);
            Ok(())
        }
    }
}

/// Returns the numbers of the arguments, also of nested lists.
pub(crate) fn indices(arguments: &[Value]) -> Result<Vec<i64>, Issue> {
    let mut indices = Vec::new();
    for argument in arguments {
        push_indices(&mut indices, argument)?;
    }
    Ok(indices)
}

/// Returns the addresses with those numbers, counted through all ranges. As in spiff++, an error
/// does not say which one is missing.
pub(crate) fn pool(ranges: &[Arc<str>], indices: &[i64]) -> Result<Vec<String>, Issue> {
    let ranges: Vec<_> = ranges.iter().map(|range| Range::parse(range)).collect::<Result<_, _>>()?;
    let address = |(at, index): (usize, &i64)| Ok(pick(&ranges, *index, at)?.to_string());
    indices.iter().enumerate().map(address).collect::<Result<_, Issue>>().map_err(|_| Issue::default())
}

fn pick(ranges: &[Range], index: i64, at: usize) -> Result<Address, Issue> {
    let mut offset = 0_i64;
    for range in ranges {
        let inside = index - offset;
        if inside < range.size
            && let Some(address) = range.first.plus(i128::from(inside))
        {
            return Ok(address);
        }
        offset = offset.saturating_add(range.size);
    }
    Err(Issue::new(format!("ip index {at} ({index}) out of range ({offset} IP(s) available in ranges)")))
}
