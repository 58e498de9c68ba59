//! YAML trees as values of scripts, and back.

use groundwork_yaml::tree::{Content, Kind, Node, Pair};
use num_bigint::BigInt;

use crate::fault::Fault;
use crate::stack::deeper;
use crate::syntax::literal;
use crate::values::{Heap, Int, MOST_LEVELS, Value, float_text};

impl Heap {
    /// Converts a tree to values. Maps keep their order.
    pub(crate) fn read(&mut self, node: &Node) -> Result<Value, Fault> {
        let text = node.text().unwrap_or_default();
        Ok(match (&node.content, node.kind()) {
            (Content::Mapping(mapping), _) => {
                let dict = self.new_dict()?;
                for pair in &mapping.pairs {
                    let name = self.text(pair.name())?;
                    let value = deeper(|| self.read(&pair.value))?;
                    self.insert(dict, &name, value)?;
                }
                Value::Dict(dict)
            }
            (Content::Sequence(sequence), _) => {
                let items = sequence.items.iter().map(|item| deeper(|| self.read(item)));
                let items = items.collect::<Result<_, _>>()?;
                self.new_list(items)?
            }
            (_, Kind::Null) => Value::None,
            (_, Kind::Bool) => Value::Bool(text.eq_ignore_ascii_case("true")),
            (_, Kind::Int) => match integer(text) {
                Some(value) => Value::Int(value),
                None => self.text(text)?,
            },
            (_, Kind::Float) => match float(text) {
                Some(value) => Value::Float(value),
                None => self.text(text)?,
            },
            _ => self.text(text)?,
        })
    }

    /// Converts values to a tree. Texts are counted, since one value may be in many places.
    pub(crate) fn write(&self, value: &Value) -> Result<Node, Fault> {
        self.write_within(value, MOST_LEVELS)
    }

    fn write_within(&self, value: &Value, levels: usize) -> Result<Node, Fault> {
        // Twice the size, for the room that growing lists have left.
        self.allocate(2 * size_of::<Node>())?;
        let levels = levels.checked_sub(1).ok_or_else(Heap::too_deep)?;
        let all = |items: &[Value]| -> Result<Node, Fault> {
            let items = items.iter().map(|item| deeper(|| self.write_within(item, levels)));
            Ok(Node::sequence(items.collect::<Result<_, _>>()?))
        };
        Ok(match value {
            Value::None => Node::plain("null"),
            Value::Bool(truth) => Node::plain(if *truth { "true" } else { "false" }),
            Value::Int(_) => Node::plain(&self.repr(value)?),
            Value::Float(value) => Node::plain(&plain_float(*value)),
            Value::Text(text) => {
                self.allocate(text.len())?;
                Node::string(text)
            }
            Value::Time(time) => Node::string(&String::from_utf8_lossy(&time.format(RFC3339_NANO))),
            Value::List(id) => all(self.list(*id))?,
            Value::Tuple(id) => all(self.tuple(*id))?,
            Value::Dict(id) => {
                let mut pairs = Vec::new();
                for (name, value) in self.table(*id).iter() {
                    let name = self.shown(name)?;
                    self.allocate(name.len() + size_of::<Node>())?;
                    pairs.push(Pair::new(&name, deeper(|| self.write_within(value, levels))?));
                }
                Node::mapping(pairs)
            }
            _ => return Err(Fault::new(format!("a {} cannot be a part of an object", value.kind()))),
        })
    }
}

const RFC3339_NANO: &[u8] = b"2006-01-02T15:04:05.999999999Z07:00";

/// Returns a float as YAML. As in Go, a whole float is written like an integer, which fields of
/// integers accept.
fn plain_float(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let text = float_text(value);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn integer(text: &str) -> Option<Int> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match (digits.strip_prefix("0o"), digits.strip_prefix("0x")) {
        (Some(digits), _) => (digits, 8),
        (_, Some(digits)) => (digits, 16),
        // Go tools read `0644` as YAML 1.1 does.
        _ if digits.starts_with('0') && digits.bytes().all(|digit| digit < b'8') => (digits, 8),
        _ => (digits, 10),
    };
    let value: BigInt = literal::integer(digits, radix).ok()?;
    let value = Int::from(value);
    Some(if is_negative { value.negate() } else { value })
}

fn float(text: &str) -> Option<f64> {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (-1.0, magnitude),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match magnitude {
        ".inf" | ".Inf" | ".INF" => Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        _ => magnitude.parse().ok().map(|value: f64| sign * value),
    }
}
