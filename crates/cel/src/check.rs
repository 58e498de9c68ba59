//! The type check of an expression before it runs: it also reports faults in parts that would not
//! be evaluated.

use std::collections::HashMap;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    SourceInfo,
};

use crate::declarations::{Overload, overloads};
use crate::types::{Substitutions, Type, most_general, shown};
use crate::{Declarations, Declared};

/// Overload of each call for which the types leave only one, as its position among the declared
/// overloads. The key is the id of the call.
pub(crate) type Resolved = HashMap<u64, usize>;

/// Checks an expression. Returns the overloads of its calls, or the fault that comes first in the
/// text.
pub(crate) fn check(
    root: &IdedExpr,
    source: &SourceInfo,
    declared: &dyn Declarations,
) -> Result<Resolved, String> {
    let mut checker = Checker {
        source,
        declared,
        known: Substitutions::default(),
        variables: 0,
        types: HashMap::new(),
        resolved: Resolved::new(),
        locals: Vec::new(),
        has_looped: false,
        mistakes: Vec::new(),
    };
    checker.check(root);
    if checker.mistakes.is_empty() {
        checker.check_literals(root);
    }
    if checker.known.is_exhausted() {
        return Err("the types of the expression are too large: nest fewer lists and maps".to_owned());
    }
    // If several faults are at one place, the one that was found first is reported, since
    // `min_by_key` returns the first minimum.
    match checker.mistakes.into_iter().min_by_key(|(place, _)| *place) {
        Some((_, text)) => Err(text),
        None => Ok(checker.resolved),
    }
}

struct Checker<'a> {
    source: &'a SourceInfo,
    declared: &'a dyn Declarations,
    known: Substitutions,
    variables: usize,
    types: HashMap<u64, Type>,
    resolved: Resolved,
    /// Variables of the enclosing loops, innermost last.
    locals: Vec<(&'a str, Type)>,
    /// True if a loop has been checked, see [`Overload::is_mixed`].
    has_looped: bool,
    /// Faults with their places.
    mistakes: Vec<(u32, String)>,
}

impl<'a> Checker<'a> {
    fn check(&mut self, node: &'a IdedExpr) {
        let found = match &node.expr {
            Expr::Unspecified => Type::Error,
            Expr::Literal(literal) => type_of_literal(literal),
            Expr::Ident(name) => self.type_of_name(node.id, name),
            Expr::Select(select) => self.type_of_selection(node.id, select),
            Expr::List(list) => self.type_of_list(list),
            Expr::Map(map) => self.type_of_map(map),
            Expr::Struct(made) => self.type_of_message(node.id, &made.type_name),
            Expr::Call(call) => self.type_of_call(node.id, call),
            Expr::Comprehension(made) => self.type_of_comprehension(made),
        };
        self.types.insert(node.id, found);
    }

    fn type_of(&self, node: &IdedExpr) -> Type {
        self.types.get(&node.id).cloned().unwrap_or(Type::Error)
    }

    fn fresh(&mut self) -> Type {
        Type::Variable(next(&mut self.variables))
    }

    fn mistake(&mut self, id: u64, text: String) {
        let place = self.source.offset_for(id).map_or(u32::MAX, |(start, _)| start);
        self.mistakes.push((place, text));
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type {
        self.mistake(id, format!("undeclared reference to '{name}'"));
        Type::Error
    }

    fn mismatch(&mut self, id: u64, wanted: &Type, found: &Type) {
        self.mistake(id, format!("expected type '{}' but found '{}'", shown(wanted), shown(found)));
    }

    fn type_of_name(&mut self, id: u64, name: &str) -> Type {
        // A dot in front excludes the variables of loops.
        let written = name;
        let (name, is_global) = name.strip_prefix('.').map_or((name, false), |name| (name, true));
        if let Some((_, found)) = self.locals.iter().rev().find(|(local, _)| *local == name && !is_global) {
            return found.clone();
        }
        match self.declared.variable(name) {
            Some(Declared::String) => return Type::String,
            Some(Declared::Dyn) => return Type::Dyn,
            None => {}
        }
        let named = match name {
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "bool" => Type::Bool,
            "null_type" => Type::Null,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "type" => Type::Named(None),
            "dyn" => Type::Dyn,
            _ => return self.undeclared(id, written),
        };
        named.named()
    }

    /// Reports a fault, because no message types exist here.
    fn type_of_message(&mut self, id: u64, name: &str) -> Type {
        let found = self.type_of_name(id, name);
        match &found {
            Type::Error => {}
            Type::Named(Some(named)) => self.mistake(id, format!("'{named}' is not a message type")),
            other => self.mistake(id, format!("'{other}' is not a type")),
        }
        Type::Error
    }

    fn type_of_selection(&mut self, id: u64, select: &'a SelectExpr) -> Type {
        self.check(&select.operand);
        let operand = self.known.apply(&self.type_of(&select.operand), false);
        let member = match &operand {
            Type::Map(_, value) => (**value).clone(),
            Type::Variable(_) => {
                self.known.assign(&Type::Dyn, &operand);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            _ => {
                self.mistake(id, format!("type '{}' does not support field selection", shown(&operand)));
                Type::Dyn
            }
        };
        if select.test { Type::Bool } else { self.known.apply(&member, false) }
    }

    fn type_of_list(&mut self, list: &'a ListExpr) -> Type {
        let mut item = None;
        for element in &list.elements {
            self.check(element);
            item = Some(self.joined(item, element));
        }
        Type::list(item.unwrap_or_else(|| self.fresh()))
    }

    fn type_of_map(&mut self, map: &'a MapExpr) -> Type {
        let (mut key, mut value) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            self.check(&entry.key);
            key = Some(self.joined(key, &entry.key));
            self.check(&entry.value);
            value = Some(self.joined(value, &entry.value));
        }
        let key = key.unwrap_or_else(|| self.fresh());
        Type::map(key, value.unwrap_or_else(|| self.fresh()))
    }

    /// Returns the type of the elements so far, with one more. The rule that all elements have the
    /// same type is checked later, if there are no other faults.
    fn joined(&mut self, before: Option<Type>, element: &IdedExpr) -> Type {
        let found = self.type_of(element);
        match before {
            None => found,
            Some(before) if self.known.assign(&before, &found) => {
                if self.known.is_exhausted() {
                    Type::Dyn
                } else {
                    most_general(&before, &found)
                }
            }
            Some(_) => Type::Dyn,
        }
    }

    fn type_of_call(&mut self, id: u64, call: &'a CallExpr) -> Type {
        for argument in &call.args {
            self.check(argument);
        }
        if let Some(target) = &call.target {
            self.check(target);
        }
        let name = plain(&call.func_name);
        let Some(declared) = overloads(name) else { return self.undeclared(id, &call.func_name) };
        if matches!(name, "_&&_" | "_||_") {
            return self.type_of_logic(call);
        }
        let targets = call.target.as_deref().into_iter();
        let arguments: Vec<Type> = targets.chain(&call.args).map(|argument| self.type_of(argument)).collect();
        match self.resolve(declared, call.target.is_some(), &arguments) {
            Some((only, gives)) => {
                if let Some(only) = only {
                    self.resolved.insert(id, only);
                }
                gives
            }
            None => {
                let shown: Vec<String> =
                    arguments.iter().map(|argument| shown(&self.known.apply(argument, true))).collect();
                let signature = match shown.split_first() {
                    Some((target, rest)) if call.target.is_some() => {
                        format!("{target}.({})", rest.join(", "))
                    }
                    _ => format!("({})", shown.join(", ")),
                };
                self.mistake(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
                Type::Error
            }
        }
    }

    fn type_of_logic(&mut self, call: &'a CallExpr) -> Type {
        let mut result = Type::Bool;
        for argument in &call.args {
            let found = self.type_of(argument);
            if !self.known.assign(&found, &Type::Bool) {
                self.mismatch(argument.id, &Type::Bool, &found);
                result = Type::Error;
            }
        }
        result
    }

    /// Resolves a call: the overload if only one fits, and the type of the result.
    fn resolve(
        &mut self,
        declared: &[Overload],
        is_member: bool,
        arguments: &[Type],
    ) -> Option<(Option<usize>, Type)> {
        let (mut result, mut fitting) = (None, Vec::new());
        for (position, overload) in declared.iter().enumerate() {
            if overload.is_member != is_member || (overload.is_mixed && !self.has_looped) {
                continue;
            }
            let variables = &mut self.variables;
            let (takes, gives) = overload.instantiate(&mut || next(variables));
            let (given, wanted): (Vec<&Type>, Vec<&Type>) =
                (arguments.iter().collect(), takes.iter().collect());
            if !self.known.assign_all(&given, &wanted) {
                continue;
            }
            if self.known.is_exhausted() {
                return Some((None, Type::Dyn));
            }
            fitting.push(position);
            let gives = self.known.apply(&gives, false);
            result = Some(match result {
                None => gives,
                Some(before) if before == Type::Dyn || before == gives => before,
                Some(_) => Type::Dyn,
            });
        }
        let only = if let [only] = fitting.as_slice() { Some(*only) } else { None };
        result.map(|result| (only, result))
    }

    fn type_of_comprehension(&mut self, made: &'a ComprehensionExpr) -> Type {
        self.check(&made.iter_range);
        self.check(&made.accu_init);
        let range = self.known.apply(&self.type_of(&made.iter_range), false);
        let begin = self.type_of(&made.accu_init);
        let item = match &range {
            Type::List(item) => (**item).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Dyn | Type::Error => Type::Dyn,
            Type::Variable(_) => {
                self.known.assign(&Type::Dyn, &range);
                Type::Dyn
            }
            _ => {
                self.mistake(
                    made.iter_range.id,
                    format!(
                        "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                        shown(&range)
                    ),
                );
                Type::Error
            }
        };
        self.has_looped = true;
        let depth = self.locals.len();
        self.locals.push((&made.accu_var, begin.clone()));
        self.locals.push((&made.iter_var, item));
        if let Some(second) = &made.iter_var2 {
            self.locals.push((second, Type::Dyn));
        }
        self.check(&made.loop_cond);
        self.expect(&made.loop_cond, &Type::Bool);
        self.check(&made.loop_step);
        self.expect(&made.loop_step, &begin);
        self.locals.truncate(depth + 1);
        self.check(&made.result);
        self.locals.truncate(depth);
        self.known.apply(&self.type_of(&made.result), false)
    }

    fn expect(&mut self, node: &IdedExpr, wanted: &Type) {
        let found = self.type_of(node);
        if !self.known.assign(wanted, &found) {
            self.mismatch(node.id, wanted, &found);
        }
    }

    /// Checks that all elements of a literal have the type of the first.
    fn check_literals(&mut self, node: &'a IdedExpr) {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => {}
            Expr::Select(select) => self.check_literals(&select.operand),
            Expr::List(list) => {
                let mut first = None;
                for element in &list.elements {
                    if !self.is_like(&mut first, element) {
                        break;
                    }
                }
                list.elements.iter().for_each(|element| self.check_literals(element));
            }
            Expr::Map(map) => {
                let (mut key, mut value) = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    self.is_like(&mut key, &entry.key);
                    self.is_like(&mut value, &entry.value);
                    self.check_literals(&entry.key);
                    self.check_literals(&entry.value);
                }
            }
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.check_literals(target));
                call.args.iter().for_each(|argument| self.check_literals(argument));
            }
            Expr::Comprehension(made) => {
                for part in
                    [&made.iter_range, &made.accu_init, &made.loop_cond, &made.loop_step, &made.result]
                {
                    self.check_literals(part);
                }
            }
        }
    }

    fn is_like(&mut self, first: &mut Option<Type>, node: &IdedExpr) -> bool {
        let found = self.known.apply(&self.type_of(node), true);
        match first {
            None => *first = Some(found),
            Some(first) if *first == found => {}
            Some(first) => {
                let first = first.clone();
                self.mismatch(node.id, &first, &found);
                return false;
            }
        }
        true
    }
}

/// Returns the name of a function without a dot in front, which means the root container. Functions
/// have no other container.
pub(crate) fn plain(function: &str) -> &str {
    function.strip_prefix('.').unwrap_or(function)
}

/// Returns consecutive numbers.
fn next(variables: &mut usize) -> usize {
    let number = *variables;
    *variables += 1;
    number
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
