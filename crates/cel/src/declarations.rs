//! Declarations of functions and operators: the types of their arguments and results. The order of
//! overloads matters: if several fit, the first one determines the inferred types of the arguments.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;

/// Operators and functions, by their names in syntax trees.
const NAMES: [&str; 50] = [
    "_?_:_",
    "_&&_",
    "_||_",
    "!_",
    "@not_strictly_false",
    "_==_",
    "_!=_",
    "_+_",
    "_-_",
    "_*_",
    "_/_",
    "_%_",
    "-_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "_[_]",
    "@in",
    "type",
    "dyn",
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "string",
    "timestamp",
    "uint",
    "size",
    "contains",
    "endsWith",
    "startsWith",
    "matches",
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "lowerAscii",
    "trim",
    "replace",
    "split",
    "join",
    "substring",
];

/// Type parameters of generic functions. Each use replaces them by variables of its own.
const A: usize = usize::MAX;
const B: usize = usize::MAX - 1;

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) is_member: bool,
    /// True if the overload compares numbers of different types. cel-go intends to exclude these
    /// overloads, but after the first loop of an expression it accepts them.
    pub(crate) is_mixed: bool,
    pub(crate) takes: Vec<Type>,
    pub(crate) gives: Type,
}

impl Overload {
    /// Returns the types with new variables, which `fresh` numbers.
    pub(crate) fn instantiate(&self, fresh: &mut impl FnMut() -> usize) -> (Vec<Type>, Type) {
        let is_generic = self.takes.iter().any(|taken| has_parameter(taken, A));
        if !is_generic {
            return (self.takes.clone(), self.gives.clone());
        }
        let a = fresh();
        let b = if self.takes.iter().any(|taken| has_parameter(taken, B)) { fresh() } else { a };
        let takes = self.takes.iter().map(|taken| replaced(taken, a, b)).collect();
        (takes, replaced(&self.gives, a, b))
    }
}

fn has_parameter(given: &Type, number: usize) -> bool {
    match given {
        Type::Variable(found) => *found == number,
        Type::List(item) => has_parameter(item, number),
        Type::Map(key, value) => has_parameter(key, number) || has_parameter(value, number),
        Type::Named(Some(named)) => has_parameter(named, number),
        _ => false,
    }
}

fn replaced(given: &Type, a: usize, b: usize) -> Type {
    match given {
        Type::Variable(A) => Type::Variable(a),
        Type::Variable(B) => Type::Variable(b),
        Type::List(item) => Type::list(replaced(item, a, b)),
        Type::Map(key, value) => Type::map(replaced(key, a, b), replaced(value, a, b)),
        Type::Named(Some(named)) => replaced(named, a, b).named(),
        _ => given.clone(),
    }
}

fn function(takes: &[Type], gives: Type) -> Overload {
    Overload { is_member: false, is_mixed: false, takes: takes.to_vec(), gives }
}

fn member(takes: &[Type], gives: Type) -> Overload {
    Overload { is_member: true, is_mixed: false, takes: takes.to_vec(), gives }
}

/// All declared functions, created once.
static DECLARED: LazyLock<HashMap<&str, Vec<Overload>>> = LazyLock::new(|| {
    let all = NAMES.iter().filter_map(|name| {
        let found = operators(name).or_else(|| conversions(name)).or_else(|| functions(name));
        Some((*name, found.or_else(|| extensions(name))?))
    });
    all.collect()
});

/// Returns the overloads of a function, in order, or `None` if it is not declared.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    DECLARED.get(name).map(Vec::as_slice)
}

fn operators(name: &str) -> Option<Vec<Overload>> {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let (a, b) = (Type::Variable(A), Type::Variable(B));
    let list = || Type::list(a.clone());
    let same = |types: &[Type]| {
        types.iter().map(|t| function(&[t.clone(), t.clone()], t.clone())).collect::<Vec<_>>()
    };
    Some(match name {
        "_?_:_" => vec![function(&[Bool, a.clone(), a.clone()], a)],
        "_&&_" | "_||_" => same(&[Bool]),
        "!_" | "@not_strictly_false" => vec![function(&[Bool], Bool)],
        "_==_" | "_!=_" => vec![function(&[a.clone(), a], Bool)],
        "_+_" => vec![
            function(&[Bytes, Bytes], Bytes),
            function(&[Double, Double], Double),
            function(&[Duration, Duration], Duration),
            function(&[Duration, Timestamp], Timestamp),
            function(&[Timestamp, Duration], Timestamp),
            function(&[Int, Int], Int),
            function(&[list(), list()], list()),
            function(&[String, String], String),
            function(&[Uint, Uint], Uint),
        ],
        "_-_" => vec![
            function(&[Double, Double], Double),
            function(&[Duration, Duration], Duration),
            function(&[Int, Int], Int),
            function(&[Timestamp, Duration], Timestamp),
            function(&[Timestamp, Timestamp], Duration),
            function(&[Uint, Uint], Uint),
        ],
        "_*_" | "_/_" => same(&[Double, Int, Uint]),
        "_%_" => same(&[Int, Uint]),
        "-_" => vec![function(&[Double], Double), function(&[Int], Int)],
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            let numbers = [Int, Uint, Double];
            let among_numbers = |one: &Type, other: &Type| {
                let takes = vec![one.clone(), other.clone()];
                Overload { is_member: false, is_mixed: one != other, takes, gives: Bool }
            };
            let mut all = vec![among_numbers(&Bool, &Bool)];
            for one in &numbers {
                all.push(among_numbers(one, one));
                all.extend(
                    numbers.iter().filter(|other| *other != one).map(|other| among_numbers(one, other)),
                );
            }
            all.extend([String, Bytes, Timestamp, Duration].map(|t| function(&[t.clone(), t], Bool)));
            all
        }
        "_[_]" => {
            vec![function(&[list(), Int], a.clone()), function(&[Type::map(a.clone(), b.clone()), a], b)]
        }
        "@in" => {
            vec![function(&[a.clone(), list()], Bool), function(&[a.clone(), Type::map(a.clone(), b)], Bool)]
        }
        _ => return None,
    })
}

fn conversions(name: &str) -> Option<Vec<Overload>> {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let to = |gives: Type, takes: &[Type]| -> Vec<Overload> {
        takes.iter().map(|taken| function(std::slice::from_ref(taken), gives.clone())).collect()
    };
    Some(match name {
        "type" => vec![function(&[Type::Variable(A)], Type::Variable(A).named())],
        "dyn" => vec![function(&[Type::Variable(A)], Type::Dyn)],
        "bool" => to(Bool, &[Bool, String]),
        "bytes" => to(Bytes, &[Bytes, String]),
        "double" => to(Double, &[Double, Int, String, Uint]),
        "duration" => to(Duration, &[Duration, Int, String]),
        "int" => to(Int, &[Int, Double, Duration, String, Timestamp, Uint]),
        "string" => to(String, &[String, Bool, Bytes, Double, Duration, Int, Timestamp, Uint]),
        "timestamp" => to(Timestamp, &[Timestamp, Int, String]),
        "uint" => to(Uint, &[Uint, Double, Int, String]),
        _ => return None,
    })
}

fn functions(name: &str) -> Option<Vec<Overload>> {
    use Type::{Bool, Bytes, Duration, Int, String, Timestamp};
    let (a, b) = (Type::Variable(A), Type::Variable(B));
    Some(match name {
        "size" => {
            let sized = [Bytes, Type::list(a.clone()), Type::map(a, b), String];
            let both =
                |t: Type| [function(std::slice::from_ref(&t), Int), member(std::slice::from_ref(&t), Int)];
            sized.into_iter().flat_map(both).collect()
        }
        "contains" | "endsWith" | "startsWith" => vec![member(&[String, String], Bool)],
        "matches" => vec![function(&[String, String], Bool), member(&[String, String], Bool)],
        "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate" | "getDayOfWeek" => {
            vec![member(&[Timestamp], Int), member(&[Timestamp, String], Int)]
        }
        "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => {
            vec![member(&[Timestamp], Int), member(&[Timestamp, String], Int), member(&[Duration], Int)]
        }
        _ => return None,
    })
}

/// Returns the overloads of functions that cel-go's standard library does not have
/// (`packagevariants.md` 4.4).
fn extensions(name: &str) -> Option<Vec<Overload>> {
    use Type::{Int, String};
    let texts = || Type::list(String);
    Some(match name {
        "lowerAscii" | "trim" => vec![member(&[String], String)],
        "replace" => {
            vec![member(&[String, String, String], String), member(&[String, String, String, Int], String)]
        }
        "split" => vec![member(&[String, String], texts()), member(&[String, String, Int], texts())],
        "join" => vec![member(&[texts()], String), member(&[texts(), String], String)],
        "substring" => vec![member(&[String, Int], String), member(&[String, Int, Int], String)],
        _ => return None,
    })
}
