//! Types of expressions before they run (`packagevariants.md` 4.4): what cannot be right is told even where it would not run.
//!
//! Objects are `dyn`: what they take part in passes, and is judged when it is evaluated.

mod overloads;

use std::fmt;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr};

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    /// A type as a value.
    Named(Box<Type>),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
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
            Self::Named(named) => write!(f, "type({named})"),
        }
    }
}

impl Type {
    fn list(item: Self) -> Self {
        Self::List(Box::new(item))
    }

    fn map(key: Self, value: Self) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    /// What two types have in common, if one value can be both: the one that says more.
    fn join(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Dyn, known) | (known, Self::Dyn) => Some(known.clone()),
            (Self::List(left), Self::List(right)) => Some(Self::list(left.join(right)?)),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                Some(Self::map(key.join(other_key)?, value.join(other_value)?))
            }
            (Self::Named(_), Self::Named(_)) => Some(self.clone()),
            _ => (self == other).then(|| self.clone()),
        }
    }

    /// The type of either of two values: what is known only of one of them is not known of both.
    fn either(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => Some(Self::Dyn),
            (Self::List(left), Self::List(right)) => Some(Self::list(left.join(right)?)),
            _ => self.join(other),
        }
    }
}

/// The variables that are texts; the others are `dyn`.
const TEXTS: [&str; 2] = ["repoDefault", "packageDefault"];
const OBJECTS: [&str; 3] = ["upstream", "target", "repository"];

/// The type of an expression, or the first thing that is wrong with it.
pub(crate) fn check(expr: &Expr) -> Result<Type, String> {
    Checker { locals: Vec::new() }.type_of(expr)
}

struct Checker<'a> {
    /// Variables of the loops around, innermost last.
    locals: Vec<(&'a str, Type)>,
}

impl<'a> Checker<'a> {
    fn type_of(&mut self, expr: &'a Expr) -> Result<Type, String> {
        match expr {
            Expr::Unspecified => Ok(Type::Dyn),
            Expr::Literal(literal) => Ok(type_of_literal(literal)),
            Expr::Ident(name) => self.type_of_name(name),
            Expr::Select(select) => {
                let operand = self.type_of(&select.operand.expr)?;
                let member = match operand {
                    Type::Dyn => Type::Dyn,
                    Type::Map(_, value) => *value,
                    other => return Err(format!("type '{other}' does not support field selection")),
                };
                Ok(if select.test { Type::Bool } else { member })
            }
            Expr::List(list) => self.type_of_list(list),
            Expr::Map(map) => self.type_of_map(map),
            Expr::Struct(made) => Err(undeclared(&made.type_name)),
            Expr::Call(call) => self.type_of_call(call),
            Expr::Comprehension(made) => self.type_of_comprehension(made),
        }
    }

    fn type_of_name(&self, name: &str) -> Result<Type, String> {
        if let Some((_, found)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return Ok(found.clone());
        }
        let named = match name {
            _ if TEXTS.contains(&name) => return Ok(Type::String),
            _ if OBJECTS.contains(&name) => return Ok(Type::Dyn),
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "bool" => Type::Bool,
            "null_type" => Type::Null,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "type" => Type::Named(Box::new(Type::Dyn)),
            _ => return Err(undeclared(name)),
        };
        Ok(Type::Named(Box::new(named)))
    }

    fn type_of_list(&mut self, list: &'a ListExpr) -> Result<Type, String> {
        let mut item = None;
        for element in &list.elements {
            let found = self.type_of(&element.expr)?;
            item = Some(same(item, found)?);
        }
        Ok(Type::list(item.unwrap_or(Type::Dyn)))
    }

    fn type_of_map(&mut self, map: &'a MapExpr) -> Result<Type, String> {
        let (mut key, mut value) = (None, None);
        let mut literals: Vec<&LiteralValue> = Vec::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            if let Expr::Literal(literal) = &entry.key.expr {
                if literals.contains(&literal) {
                    return Err("a map has the same key twice".to_owned());
                }
                literals.push(literal);
            }
            let (found_key, found_value) = (self.type_of(&entry.key.expr)?, self.type_of(&entry.value.expr)?);
            key = Some(same(key, found_key)?);
            value = Some(same(value, found_value)?);
        }
        Ok(Type::map(key.unwrap_or(Type::Dyn), value.unwrap_or(Type::Dyn)))
    }

    fn type_of_call(&mut self, call: &'a CallExpr) -> Result<Type, String> {
        let name = call.func_name.as_str();
        // Of several things that are wrong the one that stands first is told.
        let target = call.target.as_ref().map(|target| self.type_of(&target.expr)).transpose()?;
        if !overloads::is_known(name) {
            return Err(undeclared(name));
        }
        let mut arguments = Vec::with_capacity(call.args.len());
        for argument in &call.args {
            arguments.push(self.type_of(&argument.expr)?);
        }
        overloads::result(name, target.as_ref(), &arguments).ok_or_else(|| {
            let shown: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let target = target.map(|target| format!("{target}.")).unwrap_or_default();
            format!("found no matching overload for '{name}' applied to '{target}({})'", shown.join(", "))
        })
    }

    fn type_of_comprehension(&mut self, made: &'a ComprehensionExpr) -> Result<Type, String> {
        let item = match self.type_of(&made.iter_range.expr)? {
            Type::Dyn => Type::Dyn,
            Type::List(item) => *item,
            Type::Map(key, _) => *key,
            other => {
                return Err(format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                ));
            }
        };
        let begin = self.type_of(&made.accu_init.expr)?;
        let depth = self.locals.len();
        self.locals.push((&made.iter_var, item.clone()));
        if let Some(second) = &made.iter_var2 {
            self.locals.push((second, Type::Dyn));
        }
        self.locals.push((&made.accu_var, begin));
        self.type_of(&made.loop_cond.expr)?;
        let gathered = self.type_of(&made.loop_step.expr)?;
        self.locals.truncate(depth);
        self.locals.push((&made.accu_var, gathered));
        let result = self.type_of(&made.result.expr);
        self.locals.truncate(depth);
        result
    }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}'")
}

/// All elements of a literal have the type of the first.
fn same(first: Option<Type>, found: Type) -> Result<Type, String> {
    match first {
        None => Ok(found),
        Some(first) => {
            first.either(&found).ok_or_else(|| format!("expected type '{first}' but found '{found}'"))
        }
    }
}

fn type_of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}
