//! Parameters of functions, and arguments of calls.

use std::collections::HashSet;
use std::rc::Rc;

use super::{Parsed, Parser, build, height};
use crate::fault::{Fault, Position};
use crate::syntax::token::Token;
use crate::syntax::tree::{Argument, Expr, ExprKind, Function, Name, Parameter, Statement, StatementKind};

impl Parser<'_> {
    /// Reads parameters up to a mark, which stays.
    pub(super) fn parameters(&mut self, function: &mut Function, end: &str) -> Parsed<()> {
        let mut is_named_only = false;
        let mut last_default = false;
        let mut names = HashSet::new();
        while !self.has(end) {
            let at = self.place;
            if self.skip("**")? {
                let name = self.name()?;
                unique(&mut names, &name)?;
                function.named_rest = Some(name);
                self.skip(",")?;
                if !self.has(end) {
                    let next = if self.has("*") { "*" } else { "parameter" };
                    let message = if self.has("**") {
                        "multiple ** parameters not allowed".to_owned()
                    } else {
                        format!("{next} may not follow **kwargs")
                    };
                    return Err(Fault::at(self.place, message));
                }
                break;
            }
            if self.skip("*")? {
                if is_named_only {
                    return Err(Fault::at(at, "multiple * parameters not allowed"));
                }
                is_named_only = true;
                if let Token::Name(_) = self.token {
                    let name = self.name()?;
                    unique(&mut names, &name)?;
                    function.rest = Some(name);
                }
            } else {
                let name = self.name()?;
                unique(&mut names, &name)?;
                let default = if self.skip("=")? { Some(self.test()?) } else { None };
                if default.is_none() && last_default && !is_named_only {
                    return Err(Fault::at(at, "required parameter may not follow optional"));
                }
                last_default = default.is_some();
                function.parameters.push(Parameter { name, default });
                function.positional += usize::from(!is_named_only);
            }
            if !self.skip(",")? {
                break;
            }
        }
        if is_named_only && function.rest.is_none() && function.positional == function.parameters.len() {
            return Err(Fault::at(self.place, "bare * must be followed by keyword-only parameters"));
        }
        Ok(())
    }

    pub(super) fn lambda(&mut self) -> Parsed<Expr> {
        let at = self.place;
        self.advance()?;
        let mut function = Function { name: "lambda".into(), ..Function::default() };
        self.parameters(&mut function, ":")?;
        self.expect(":")?;
        let body = self.test()?;
        let defaults = function.parameters.iter().filter_map(|parameter| parameter.default.as_ref());
        let height = height([&body].into_iter().chain(defaults));
        function.body = vec![Statement { at: body.at, kind: StatementKind::Return(Some(body)) }];
        build(at, height, ExprKind::Lambda(Rc::new(function)))
    }

    pub(super) fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        let mut arguments: Vec<Argument> = Vec::new();
        let mut seen = Seen::default();
        while !self.has(")") {
            let at = self.place;
            let argument = if self.skip("**")? {
                Argument::Dict(self.test()?)
            } else if self.skip("*")? {
                Argument::List(self.test()?)
            } else {
                let value = self.test()?;
                match (value.kind, self.has("=")) {
                    (ExprKind::Name(name), true) => {
                        self.advance()?;
                        Argument::Named(name.text, self.test()?)
                    }
                    (_, true) => return Err(Fault::at(at, "keyword argument must have form name=expr")),
                    (kind, false) => Argument::Positional(Expr { kind, ..value }),
                }
            };
            seen.add(&argument, at)?;
            arguments.push(argument);
            if !self.skip(",")? {
                break;
            }
        }
        if !self.has(")") && !arguments.is_empty() && self.token != Token::End {
            return self.wrong("','");
        }
        Ok(arguments)
    }
}

fn unique(names: &mut HashSet<Rc<str>>, name: &Name) -> Parsed<()> {
    if names.insert(name.text.clone()) {
        return Ok(());
    }
    Err(Fault::at(name.at, format!("duplicate parameter: {}", name.text)))
}

/// Kinds of the arguments of a call so far.
#[derive(Default)]
struct Seen {
    names: HashSet<Rc<str>>,
    has_list: bool,
    has_dict: bool,
}

impl Seen {
    /// Checks that an argument may follow those before.
    fn add(&mut self, argument: &Argument, at: Position) -> Parsed<()> {
        let (list, dict) = (self.has_list, self.has_dict);
        let problem = match argument {
            Argument::Dict(_) if dict => "multiple **kwargs not allowed".to_owned(),
            Argument::List(_) if dict => "*args may not follow **kwargs".to_owned(),
            Argument::List(_) if list => "multiple *args not allowed".to_owned(),
            Argument::Named(..) if dict => "keyword argument may not follow **kwargs".to_owned(),
            Argument::Named(..) if list => "keyword argument may not follow *args".to_owned(),
            Argument::Named(name, _) if !self.names.insert(name.clone()) => {
                format!("keyword argument \"{name}\" is repeated")
            }
            Argument::Positional(_) if list => "positional argument may not follow *args".to_owned(),
            Argument::Positional(_) if dict => "positional argument may not follow **kwargs".to_owned(),
            Argument::Positional(_) if !self.names.is_empty() => {
                "positional argument may not follow named".to_owned()
            }
            _ => {
                self.has_list |= matches!(argument, Argument::List(_));
                self.has_dict |= matches!(argument, Argument::Dict(_));
                return Ok(());
            }
        };
        Err(Fault::at(at, problem))
    }
}
