//! Types of expressions, and the rules for using a value of one type where another is expected.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Dyn,
    /// Type of an expression with a fault. It fits everywhere, so that each fault is reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// Type of a value that is itself a type, such as the name `int`; `None` for the name `type`,
    /// about which the check knows no more.
    Named(Option<Arc<Type>>),
    /// A type that is inferred from its uses.
    Variable(usize),
}

impl Type {
    pub(crate) fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub(crate) fn named(self) -> Self {
        Self::Named(Some(Arc::new(self)))
    }

    fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Returns the types that this type contains, such as the element type of a list.
    fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(item) => vec![item],
            Self::Map(key, value) => vec![key, value],
            Self::Named(Some(named)) => vec![named],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Named(None) => f.write_str("type"),
            Self::Named(Some(named)) => write!(f, "type({named})"),
            Self::Variable(number) => write!(f, "_var{number}"),
        }
    }
}

/// Largest number of types visited for one expression. A type may contain another one twice, and
/// that one a third one twice, and so on.
const MOST_VISITS: usize = 2_000_000;
/// Maximum number of nested types in a type that messages show.
const MOST_SHOWN: usize = 200;

/// The inferred types of type variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Substitutions {
    known: HashMap<usize, Type>,
    visits: Rc<Cell<usize>>,
}

impl Substitutions {
    /// Counts a visit. Returns whether the limit is exceeded.
    fn visit(&self) -> bool {
        self.visits.set(self.visits.get() + 1);
        self.is_exhausted()
    }

    /// Reports whether the types have become too large. All further results of the check are then
    /// meaningless.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.visits.get() > MOST_VISITS
    }

    /// Replaces the variables in a type by their inferred types. With `finally`, variables without
    /// one become `dyn`.
    pub(crate) fn apply(&self, given: &Type, finally: bool) -> Type {
        if self.visit() {
            return Type::Dyn;
        }
        match given {
            Type::Variable(number) => match self.known.get(number) {
                Some(known) => self.apply(known, finally),
                None if finally => Type::Dyn,
                None => given.clone(),
            },
            Type::List(item) => Type::list(self.apply(item, finally)),
            Type::Map(key, value) => Type::map(self.apply(key, finally), self.apply(value, finally)),
            Type::Named(Some(named)) => self.apply(named, finally).named(),
            _ => given.clone(),
        }
    }

    /// Reports whether a value of one type may be used where another is expected. If so, the types
    /// inferred for variables are kept.
    pub(crate) fn assign(&mut self, given: &Type, wanted: &Type) -> bool {
        self.assign_all(&[given], &[wanted])
    }

    /// Assigns all arguments to the wanted types, or none of them.
    pub(crate) fn assign_all(&mut self, given: &[&Type], wanted: &[&Type]) -> bool {
        let mut tried = self.clone();
        let fits = given.len() == wanted.len()
            && given.iter().zip(wanted).all(|(given, wanted)| tried.fits(given, wanted));
        if fits {
            *self = tried;
        }
        fits
    }

    fn fits(&mut self, given: &Type, wanted: &Type) -> bool {
        if self.visit() {
            return true;
        }
        if let Type::Variable(number) = wanted {
            let had_one = match self.stand_for(*number, wanted, given) {
                Substitution::Valid => return true,
                Substitution::Invalid { had_one } => had_one,
            };
            if had_one {
                return false;
            }
        }
        if let Type::Variable(number) = given {
            return self.stand_for(*number, given, wanted) == Substitution::Valid;
        }
        if given.is_dyn_or_error() || wanted.is_dyn_or_error() {
            return true;
        }
        match (given, wanted) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(other, Type::Null | Type::Timestamp | Type::Duration)
            }
            (Type::Named(_), Type::Named(_)) => true,
            (Type::List(given), Type::List(wanted)) => self.fits(given, wanted),
            (Type::Map(key, value), Type::Map(wanted_key, wanted_value)) => {
                self.fits(key, wanted_key) && self.fits(value, wanted_value)
            }
            _ => given == wanted,
        }
    }

    /// Infers a type for a variable. If it already has one, the result is the more general of both.
    fn stand_for(&mut self, number: usize, variable: &Type, given: &Type) -> Substitution {
        if given == variable {
            return Substitution::Valid;
        }
        let Some(before) = self.known.get(&number).cloned() else {
            if !self.is_free_of(variable, given) {
                return Substitution::Invalid { had_one: false };
            }
            self.known.insert(number, given.clone());
            return Substitution::Valid;
        };
        if *given == before {
            return Substitution::Valid;
        }
        if !self.fits(given, &before) {
            return Substitution::Invalid { had_one: true };
        }
        let general = most_general(given, &before);
        if self.is_free_of(variable, &general) {
            self.known.insert(number, general);
        }
        Substitution::Valid
    }

    /// Reports whether a variable does not occur in a type. A variable cannot be a type that
    /// contains it.
    fn is_free_of(&self, variable: &Type, within: &Type) -> bool {
        if variable == within || self.visit() {
            return false;
        }
        match within {
            Type::Variable(number) => {
                self.known.get(number).is_none_or(|known| self.is_free_of(variable, known))
            }
            _ => within.parameters().iter().all(|part| self.is_free_of(variable, part)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Substitution {
    Valid,
    Invalid { had_one: bool },
}

/// Returns a type as messages show it. For a large type the text only says that it is large.
pub(crate) fn shown(given: &Type) -> String {
    let mut rest = MOST_SHOWN;
    if is_small(given, &mut rest) { given.to_string() } else { "a large type".to_owned() }
}

fn is_small(given: &Type, rest: &mut usize) -> bool {
    *rest = rest.saturating_sub(1);
    *rest > 0 && given.parameters().iter().all(|part| is_small(part, rest))
}

/// Returns the less specific of two types.
pub(crate) fn most_general(one: &Type, other: &Type) -> Type {
    if says_no_more(one, other) { one.clone() } else { other.clone() }
}

fn says_no_more(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Variable(_), _) | (Type::Named(_), Type::Named(_)) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(one), Type::List(other)) => says_no_more(one, other),
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            says_no_more(key, other_key) && says_no_more(value, other_value)
        }
        _ => one == other,
    }
}
