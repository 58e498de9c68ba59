//! What functions and operators take, and what they give (`packagevariants.md` 4.4).

use super::Type;

/// The standard library and the six extensions that the chapter names. Operators are functions with names of their own.
const FUNCTIONS: [&str; 33] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "bytes",
    "int",
    "uint",
    "double",
    "bool",
    "type",
    "dyn",
    "timestamp",
    "duration",
    "getFullYear",
    "getMonth",
    "getDayOfMonth",
    "getDate",
    "getDayOfYear",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "lowerAscii",
    "replace",
    "split",
    "join",
    "substring",
    "trim",
    "has",
    "in",
];

/// Whether a function of this name is declared.
pub(super) fn is_known(name: &str) -> bool {
    name.starts_with(['_', '!', '-', '@']) || FUNCTIONS.contains(&name)
}

/// Whether a value of a type can be passed where another one is expected.
fn fits(given: &Type, wanted: &Type) -> bool {
    given.join(wanted).is_some()
}

fn is_dyn(given: &Type) -> bool {
    *given == Type::Dyn
}

/// The result of a call; none if no overload takes such arguments.
pub(super) fn result(name: &str, target: Option<&Type>, arguments: &[Type]) -> Option<Type> {
    match (target, arguments) {
        (None, [one]) => unary(name, one),
        (None, [left, right]) => binary(name, left, right),
        (None, [condition, yes, no]) if name == "_?_:_" && fits(condition, &Type::Bool) => {
            // What a loop gathers begins as a list of anything.
            if is_list(yes) { yes.join(no) } else { yes.either(no) }
        }
        (Some(target), arguments) => member(name, target, arguments),
        _ => None,
    }
}

fn is_list(given: &Type) -> bool {
    matches!(given, Type::List(_))
}

fn any(given: &Type, wanted: &[Type]) -> bool {
    wanted.iter().any(|wanted| fits(given, wanted))
}

fn has_size(given: &Type) -> bool {
    matches!(given, Type::Dyn | Type::String | Type::Bytes | Type::List(_) | Type::Map(..))
}

fn unary(name: &str, one: &Type) -> Option<Type> {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, String, Timestamp, Uint};
    let (takes, gives): (&[Type], Type) = match name {
        "!_" => (&[Bool], Bool),
        "@not_strictly_false" => (&[Bool], Bool),
        "-_" => {
            return any(one, &[Int, Double, Duration]).then(|| if is_dyn(one) { Dyn } else { one.clone() });
        }
        "size" => return has_size(one).then_some(Int),
        "dyn" => return Some(Dyn),
        "type" => return Some(Type::Named(Box::new(one.clone()))),
        "bool" => (&[Bool, String], Bool),
        "bytes" => (&[Bytes, String], Bytes),
        "double" => (&[Double, Int, String, Uint], Double),
        "duration" => (&[Duration, String], Duration),
        "int" => (&[Int, Double, Duration, String, Timestamp, Uint], Int),
        "string" => (&[String, Bool, Bytes, Double, Duration, Int, Timestamp, Uint], String),
        "timestamp" => (&[Timestamp, String, Int], Timestamp),
        "uint" => (&[Uint, Double, Int, String], Uint),
        _ => return None,
    };
    any(one, takes).then_some(gives)
}

fn binary(name: &str, left: &Type, right: &Type) -> Option<Type> {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let pairs: &[(Type, Type, Type)] = match name {
        "_&&_" | "_||_" => &[(Bool, Bool, Bool)],
        "_==_" | "_!=_" => return fits(left, right).then_some(Bool),
        "_<_" | "_<=_" | "_>_" | "_>=_" => return is_ordered(left, right).then_some(Bool),
        "_+_" if is_list(left) || is_list(right) => return lists(left, right),
        "_+_" => &[
            (Int, Int, Int),
            (Uint, Uint, Uint),
            (Double, Double, Double),
            (String, String, String),
            (Bytes, Bytes, Bytes),
            (Duration, Duration, Duration),
            (Duration, Timestamp, Timestamp),
            (Timestamp, Duration, Timestamp),
        ],
        "_-_" => &[
            (Int, Int, Int),
            (Uint, Uint, Uint),
            (Double, Double, Double),
            (Duration, Duration, Duration),
            (Timestamp, Timestamp, Duration),
            (Timestamp, Duration, Timestamp),
        ],
        "_*_" | "_/_" => &[(Int, Int, Int), (Uint, Uint, Uint), (Double, Double, Double)],
        "_%_" => &[(Int, Int, Int), (Uint, Uint, Uint)],
        "_[_]" => return index(left, right),
        "@in" | "_in_" | "in" => return is_in(left, right).then_some(Bool),
        "matches" => &[(String, String, Bool)],
        _ => return None,
    };
    let mut results =
        pairs.iter().filter(|(a, b, _)| fits(left, a) && fits(right, b)).map(|(_, _, gives)| gives);
    let first = results.next()?;
    Some(if results.all(|other| other == first) { first.clone() } else { Type::Dyn })
}

fn lists(left: &Type, right: &Type) -> Option<Type> {
    match (left, right) {
        (Type::List(_), Type::List(_)) => left.join(right),
        (Type::Dyn, list) | (list, Type::Dyn) => Some(list.clone()),
        _ => None,
    }
}

fn is_ordered(left: &Type, right: &Type) -> bool {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, String, Timestamp, Uint};
    let is_number = |given: &Type| matches!(given, Int | Uint | Double);
    match (left, right) {
        (Dyn, other) | (other, Dyn) => {
            matches!(other, Dyn | Bool | Int | Uint | Double | String | Bytes | Timestamp | Duration)
        }
        _ if is_number(left) && is_number(right) => true,
        _ => left == right && matches!(left, Bool | String | Bytes | Timestamp | Duration),
    }
}

fn index(collection: &Type, at: &Type) -> Option<Type> {
    match collection {
        Type::Dyn => Some(Type::Dyn),
        Type::List(item) => fits(at, &Type::Int).then(|| (**item).clone()),
        Type::Map(key, value) => fits(at, key).then(|| (**value).clone()),
        _ => None,
    }
}

fn is_in(item: &Type, collection: &Type) -> bool {
    match collection {
        Type::Dyn => true,
        Type::List(known) => fits(item, known),
        Type::Map(key, _) => fits(item, key),
        _ => false,
    }
}

fn member(name: &str, target: &Type, arguments: &[Type]) -> Option<Type> {
    use Type::{Bool, Duration, Int, String, Timestamp};
    let texts = |count: usize| {
        fits(target, &String) && arguments.iter().take(count).all(|argument| fits(argument, &String))
    };
    let ints = |from: usize| arguments.iter().skip(from).all(|argument| fits(argument, &Int));
    match (name, arguments.len()) {
        ("size", 0) => has_size(target).then_some(Int),
        ("contains" | "startsWith" | "endsWith" | "matches", 1) => texts(1).then_some(Bool),
        ("lowerAscii" | "trim", 0) => texts(0).then_some(String),
        ("replace", 2 | 3) => (texts(2) && ints(2)).then_some(String),
        ("split", 1 | 2) => (texts(1) && ints(1)).then(|| Type::list(String)),
        ("substring", 1 | 2) => (texts(0) && ints(0)).then_some(String),
        ("join", 0 | 1) => {
            let separator = arguments.first().is_none_or(|argument| fits(argument, &String));
            (fits(target, &Type::list(String)) && separator).then_some(String)
        }
        ("getHours" | "getMinutes" | "getSeconds" | "getMilliseconds", 0) => {
            any(target, &[Timestamp, Duration]).then_some(Int)
        }
        (_, 0 | 1) if name.starts_with("get") => {
            let zone = arguments.first().is_none_or(|argument| fits(argument, &String));
            (fits(target, &Timestamp) && zone).then_some(Int)
        }
        _ => None,
    }
}
