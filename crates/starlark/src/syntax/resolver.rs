//! Finds the variable of each name, as go.starlark.net does with reassigned globals allowed.
//!
//! A name outside of functions refers to the variable that an earlier statement has set, and
//! otherwise to a predefined name. A name in a function refers to a variable of the script,
//! wherever the script sets it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::tree::{Argument, Clause, Expr, ExprKind, Function, Name, Script, Slot, Statement, StatementKind};
use crate::fault::Fault;
use crate::stack::deeper;

type Resolved = Result<(), Fault>;

pub(crate) fn resolve(script: &mut Script, known: &dyn Fn(&str) -> Option<usize>) -> Resolved {
    let mut names = Vec::new();
    bindings(&script.main.body, &mut names);
    let globals: HashMap<Rc<str>, usize> =
        names.iter().cloned().enumerate().map(|(slot, name)| (name, slot)).collect();
    script.globals = names;
    let mut resolver = Resolver {
        globals,
        bound: HashSet::new(),
        known,
        scopes: vec![Scope::default()],
        open: None,
        loops: 0,
        branches: 0,
    };
    let mut body = std::mem::take(&mut script.main.body);
    resolver.block(&mut body)?;
    script.main.body = body;
    if let Some(scope) = resolver.scopes.pop() {
        scope.finish(&mut script.main);
    }
    match resolver.open {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

/// Variables of one function.
#[derive(Default)]
struct Scope {
    /// Variables of the function as a whole, then those of each open comprehension.
    names: HashMap<Rc<str>, usize>,
    blocks: Vec<HashMap<Rc<str>, usize>>,
    locals: Vec<Rc<str>>,
    shared: BTreeSet<usize>,
    free: Vec<Slot>,
    /// Numbers of the variables of enclosing functions.
    free_names: HashMap<Rc<str>, usize>,
}

impl Scope {
    fn declare(&mut self, name: &Rc<str>) -> usize {
        let slot = self.locals.len();
        let names = self.blocks.last_mut().unwrap_or(&mut self.names);
        if let Some(known) = names.get(name) {
            return *known;
        }
        names.insert(name.clone(), slot);
        self.locals.push(name.clone());
        slot
    }

    fn local(&self, name: &str) -> Option<usize> {
        let blocks = self.blocks.iter().rev().find_map(|block| block.get(name));
        blocks.or_else(|| self.names.get(name)).copied()
    }

    fn finish(self, function: &mut Function) {
        function.locals = self.locals;
        function.shared = self.shared.into_iter().collect();
        function.free = self.free;
    }
}

struct Resolver<'a> {
    globals: HashMap<Rc<str>, usize>,
    /// Variables of the script that a statement so far has set.
    bound: HashSet<Rc<str>>,
    known: &'a dyn Fn(&str) -> Option<usize>,
    /// Open functions; the first is the script.
    scopes: Vec<Scope>,
    /// First name in a function that has no definition. It is reported after all other faults.
    open: Option<Fault>,
    loops: usize,
    branches: usize,
}

impl Resolver<'_> {
    fn is_main(&self) -> bool {
        self.scopes.len() == 1 && self.scopes.first().is_some_and(|scope| scope.blocks.is_empty())
    }

    fn block(&mut self, statements: &mut [Statement]) -> Resolved {
        statements.iter_mut().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &mut Statement) -> Resolved {
        let at = statement.at;
        let in_function = self.scopes.len() > 1;
        match &mut statement.kind {
            StatementKind::Expr(value) => self.expr(value),
            StatementKind::Assign { target, value } | StatementKind::Change { target, value, .. } => {
                self.expr(value)?;
                self.assign(target)
            }
            StatementKind::If { branches, otherwise } => {
                self.branches += 1;
                for (condition, body) in branches {
                    self.expr(condition)?;
                    self.block(body)?;
                }
                self.block(otherwise)?;
                self.branches -= 1;
                Ok(())
            }
            StatementKind::For { target, over, body } => {
                self.expr(over)?;
                self.assign(target)?;
                self.loops += 1;
                self.block(body)?;
                self.loops -= 1;
                Ok(())
            }
            StatementKind::While { condition, body } => {
                self.expr(condition)?;
                self.loops += 1;
                self.block(body)?;
                self.loops -= 1;
                Ok(())
            }
            StatementKind::Def { name, function } => {
                self.bind(name);
                self.function(function)
            }
            StatementKind::Load { names, .. } => {
                let inside = match (in_function, self.loops, self.branches) {
                    (true, ..) => "function",
                    (_, 1.., _) => "loop",
                    (_, _, 1..) => "conditional",
                    _ => {
                        names.iter().for_each(|(_, name)| self.bind(name));
                        return Ok(());
                    }
                };
                Err(Fault::at(at, format!("load statement within a {inside}")))
            }
            StatementKind::Return(value) => {
                if !in_function {
                    return Err(Fault::at(at, "return statement not within a function"));
                }
                value.as_mut().map_or(Ok(()), |value| self.expr(value))
            }
            StatementKind::Break if self.loops == 0 => Err(Fault::at(at, "break not in a loop")),
            StatementKind::Continue if self.loops == 0 => Err(Fault::at(at, "continue not in a loop")),
            StatementKind::Break | StatementKind::Continue | StatementKind::Pass => Ok(()),
        }
    }

    fn assign(&mut self, target: &mut Expr) -> Resolved {
        match &mut target.kind {
            ExprKind::Name(name) => {
                self.bind(name);
                Ok(())
            }
            ExprKind::Index(of, index) => {
                self.expr(of)?;
                self.expr(index)
            }
            ExprKind::Field(of, _) => self.expr(of),
            ExprKind::List(items) | ExprKind::Tuple(items) => {
                items.iter_mut().try_for_each(|item| self.assign(item))
            }
            _ => Ok(()),
        }
    }

    fn bind(&mut self, name: &Name) {
        if self.is_main() {
            self.bound.insert(name.text.clone());
            name.slot.set(self.globals.get(&name.text).map_or(Slot::Open, |slot| Slot::Global(*slot)));
        } else if let Some(scope) = self.scopes.last_mut() {
            name.slot.set(Slot::Local(scope.declare(&name.text)));
        }
    }

    fn name(&mut self, name: &Name) -> Resolved {
        let found = self.find(self.scopes.len(), &name.text);
        let is_main = self.is_main();
        let global = self.globals.get(&name.text).filter(|_| !is_main || self.bound.contains(&name.text));
        let slot = found.or_else(|| global.map(|slot| Slot::Global(*slot)));
        let slot = slot.or_else(|| (self.known)(&name.text).map(Slot::Known));
        if slot.is_none() {
            let fault = Fault::at(name.at, format!("undefined: {}", name.text));
            if is_main {
                return Err(fault);
            }
            self.open.get_or_insert(fault);
        }
        name.slot.set(slot.unwrap_or_default());
        Ok(())
    }

    /// Finds a variable in the functions up to a depth, and hands it down through closures.
    fn find(&mut self, depth: usize, name: &Rc<str>) -> Option<Slot> {
        let level = depth.checked_sub(1)?;
        let scope = self.scopes.get(level)?;
        if let Some(slot) = scope.local(name) {
            return Some(Slot::Local(slot));
        }
        if let Some(at) = scope.free_names.get(name) {
            return Some(Slot::Free(*at));
        }
        let outer = self.find(level, name)?;
        if let (Slot::Local(slot), Some(above)) = (outer, self.scopes.get_mut(level - 1)) {
            above.shared.insert(slot);
        }
        let scope = self.scopes.get_mut(level)?;
        let at = scope.free.len();
        scope.free.push(outer);
        scope.free_names.insert(name.clone(), at);
        Some(Slot::Free(at))
    }

    fn function(&mut self, function: &mut Rc<Function>) -> Resolved {
        // Only the tree has the function so far.
        let Some(function) = Rc::get_mut(function) else { return Ok(()) };
        for parameter in &mut function.parameters {
            if let Some(default) = &mut parameter.default {
                self.expr(default)?;
            }
        }
        let mut scope = Scope::default();
        let rest = function.rest.iter().chain(&function.named_rest);
        for name in function.parameters.iter().map(|parameter| &parameter.name).chain(rest) {
            name.slot.set(Slot::Local(scope.declare(&name.text)));
        }
        let mut names = Vec::new();
        bindings(&function.body, &mut names);
        for name in &names {
            scope.declare(name);
        }
        self.scopes.push(scope);
        let outer = (std::mem::take(&mut self.loops), std::mem::take(&mut self.branches));
        let mut body = std::mem::take(&mut function.body);
        let result = self.block(&mut body);
        function.body = body;
        (self.loops, self.branches) = outer;
        if let Some(scope) = self.scopes.pop() {
            scope.finish(function);
        }
        result
    }

    fn exprs<'e>(&mut self, parts: impl IntoIterator<Item = &'e mut Expr>) -> Resolved {
        parts.into_iter().try_for_each(|part| self.expr(part))
    }

    fn expr(&mut self, expr: &mut Expr) -> Resolved {
        deeper(|| self.inner(expr))
    }

    fn inner(&mut self, expr: &mut Expr) -> Resolved {
        match &mut expr.kind {
            ExprKind::Name(name) => self.name(name),
            ExprKind::Constant(_) => Ok(()),
            ExprKind::List(items) | ExprKind::Tuple(items) => self.exprs(items),
            ExprKind::Dict(pairs) => self.exprs(pairs.iter_mut().flat_map(|(key, value)| [key, value])),
            ExprKind::Unary(_, operand) | ExprKind::Field(operand, _) => self.expr(operand),
            ExprKind::Binary(_, left, right)
            | ExprKind::Both(left, right)
            | ExprKind::Either(left, right)
            | ExprKind::Index(left, right) => {
                self.expr(left)?;
                self.expr(right)
            }
            ExprKind::Choice { condition, yes, no } => {
                self.expr(condition)?;
                self.expr(yes)?;
                self.expr(no)
            }
            ExprKind::Slice(of, parts) => {
                self.expr(of)?;
                self.exprs(parts.iter_mut().flatten())
            }
            ExprKind::Call(function, arguments) => {
                self.expr(function)?;
                self.exprs(arguments.iter_mut().map(|argument| match argument {
                    Argument::Positional(value)
                    | Argument::Named(_, value)
                    | Argument::List(value)
                    | Argument::Dict(value) => value,
                }))
            }
            ExprKind::Lambda(function) => self.function(function),
            ExprKind::ListOf(item, clauses) => self.comprehension(clauses, |resolver| resolver.expr(item)),
            ExprKind::DictOf(pair, clauses) => self.comprehension(clauses, |resolver| {
                resolver.expr(&mut pair.0)?;
                resolver.expr(&mut pair.1)
            }),
        }
    }

    /// Resolves a comprehension, whose variables are its own. The first list belongs to the outer
    /// block, as in `[x for x in x]`.
    fn comprehension(
        &mut self,
        clauses: &mut [Clause],
        result: impl FnOnce(&mut Self) -> Resolved,
    ) -> Resolved {
        if let Some(Clause::For { over, .. }) = clauses.first_mut() {
            self.expr(over)?;
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.blocks.push(HashMap::new());
        }
        for (at, clause) in clauses.iter_mut().enumerate() {
            match clause {
                Clause::For { target, over } => {
                    self.assign(target)?;
                    if at > 0 {
                        self.expr(over)?;
                    }
                }
                Clause::If(condition) => self.expr(condition)?,
            }
        }
        result(self)?;
        if let Some(scope) = self.scopes.last_mut() {
            scope.blocks.pop();
        }
        Ok(())
    }
}

/// Collects the names that statements set, without those in inner functions.
fn bindings(statements: &[Statement], out: &mut Vec<Rc<str>>) {
    let mut found = Vec::new();
    collect(statements, &mut found);
    let mut seen = HashSet::new();
    out.extend(found.into_iter().filter(|name| seen.insert(name.clone())));
}

fn collect(statements: &[Statement], out: &mut Vec<Rc<str>>) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Assign { target, .. } | StatementKind::Change { target, .. } => {
                targets(target, out);
            }
            StatementKind::If { branches, otherwise } => {
                branches.iter().for_each(|(_, body)| collect(body, out));
                collect(otherwise, out);
            }
            StatementKind::For { target, body, .. } => {
                targets(target, out);
                collect(body, out);
            }
            StatementKind::While { body, .. } => collect(body, out),
            StatementKind::Def { name, .. } => out.push(name.text.clone()),
            StatementKind::Load { names, .. } => out.extend(names.iter().map(|(_, name)| name.text.clone())),
            _ => {}
        }
    }
}

fn targets(target: &Expr, out: &mut Vec<Rc<str>>) {
    match &target.kind {
        ExprKind::Name(name) => out.push(name.text.clone()),
        ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().for_each(|item| targets(item, out)),
        _ => {}
    }
}
