//! The parser's rules of level 0: literals, prefixes, `merge`, markers.

use super::{Parser, Rule};
use crate::syntax::ast::{Expr, Marked, Marker, Merge, MergeOption, Name, Reference, Step};

impl Parser<'_> {
    pub(super) fn operand(&mut self) -> Option<Expr> {
        let start = self.at;
        self.alive()?;
        self.unless_missed(Rule::Operand, start, |parser| {
            parser.height = 1;
            parser.attempt(Self::any_operand)
        })
    }

    fn any_operand(&mut self) -> Option<Expr> {
        match self.peek()? {
            b'0'..=b'9' => {
                if let Some(literal) = self.address().or_else(|| self.number()) {
                    return Some(literal);
                }
                self.chained()
            }
            b'-' => self.number(),
            b'"' => self.string(),
            b'~' => {
                self.at += 1;
                let undefined = self.byte(b'~').is_some();
                Some(if undefined { Expr::Undefined } else { Expr::Nil })
            }
            b'$' => self.symbol(),
            b'!' => {
                self.at += 1;
                self.space();
                self.prefixed(Expr::Not)
            }
            b'*' => {
                self.at += 1;
                self.prefixed(Expr::Substitute)
            }
            _ => self.word(),
        }
    }

    fn prefixed(&mut self, make: fn(Box<Expr>) -> Expr) -> Option<Expr> {
        let operand = self.nested(Self::operand)?;
        self.raise(self.height)?;
        Some(make(Box::new(operand)))
    }

    /// Parses reserved words. They match also as a prefix of longer names (`spiff.md` 6.3).
    fn word(&mut self) -> Option<Expr> {
        let start = self.at;
        for (word, expression) in
            [("true", Expr::Bool(true)), ("false", Expr::Bool(false)), ("nil", Expr::Nil)]
        {
            if self.literal(word).is_some() {
                self.matched(start);
                return Some(expression);
            }
        }
        if let Some(merge) = self.attempt(Self::merge) {
            self.matched(start);
            return Some(merge);
        }
        if self.literal("auto").is_some() {
            self.matched(start);
            return Some(Expr::Auto);
        }
        if let Some(lambda) = self.attempt(Self::named_lambda) {
            return Some(lambda);
        }
        self.chained()
    }

    fn merge(&mut self) -> Option<Expr> {
        self.literal("merge")?;
        if let Some(merge) = self.attempt(Self::merge_path) {
            return Some(Expr::Merge(merge));
        }
        if self.peek() == Some(b'(') {
            return None;
        }
        let option = self.attempt(|parser| {
            parser.some_space()?;
            let required = || MergeOption::Required;
            parser.merge_option().or_else(|| parser.literal("required").map(|()| required()))
        });
        let path = self.stub_path.clone().map(|steps| Reference { tag: None, absolute: false, steps });
        Some(Expr::Merge(Merge { option: option.unwrap_or(MergeOption::Plain), path }))
    }

    fn merge_path(&mut self) -> Option<Merge> {
        let required = self.attempt(|parser| {
            parser.some_space()?;
            parser.literal("required")
        });
        if required.is_some() {
            return None;
        }
        let option = self.attempt(|parser| {
            parser.some_space()?;
            parser.merge_option()
        });
        self.some_space()?;
        let path = self.reference()?;
        let option = option.unwrap_or(MergeOption::Plain);
        if matches!(option, MergeOption::Plain | MergeOption::Replace) && is_none(&path) {
            return Some(Merge { option: MergeOption::None, path: None });
        }
        Some(Merge { option, path: Some(path) })
    }

    fn merge_option(&mut self) -> Option<MergeOption> {
        if self.literal("replace").is_some() {
            return Some(MergeOption::Replace);
        }
        self.attempt(|parser| {
            parser.literal("on")?;
            parser.some_space()?;
            parser.name().map(MergeOption::On)
        })
    }

    /// `&marker { WS &marker } ["(" expr ")"]` as a whole expression.
    pub(super) fn marked(&mut self) -> Option<Expr> {
        self.space();
        let mut markers = vec![self.marker()?];
        while let Some(marker) = self.attempt(|parser| parser.some_space().and_then(|()| parser.marker())) {
            markers.push(marker);
        }
        self.space();
        let start = self.at;
        let expression = self.attempt(|parser| {
            parser.byte(b'(')?;
            let inner = parser.at;
            let expression = parser.expression()?;
            let text = Name::from(&parser.text[inner..parser.at]);
            parser.byte(b')')?;
            parser.matched(start);
            Some((expression, text))
        });
        self.space();
        self.raise(self.height)?;
        let (expression, text) =
            expression.map_or((None, Name::from("")), |(inner, text)| (Some(inner), text));
        Some(Expr::Marked(Box::new(Marked { markers, expression, text })))
    }

    fn marker(&mut self) -> Option<Marker> {
        const PLAIN: &[(&str, Marker)] = &[
            ("template", Marker::Template),
            ("temporary", Marker::Temporary),
            ("local", Marker::Local),
            ("inject", Marker::Inject),
            ("state", Marker::State),
            ("default", Marker::Default),
            ("dynamic", Marker::Dynamic),
        ];
        let start = self.at;
        self.byte(b'&')?;
        let plain = PLAIN.iter().find(|(word, _)| self.literal(word).is_some());
        let marker = match plain {
            Some((_, marker)) => marker.clone(),
            None => {
                self.literal("tag:")?;
                let global = self.byte(b'*').is_some();
                let name = self.tag_name()?;
                Marker::Tag { name, global }
            }
        };
        self.matched(start);
        Some(marker)
    }

    /// `"lambda" ( WS expr | lambda )`.
    fn named_lambda(&mut self) -> Option<Expr> {
        self.literal("lambda")?;
        let spaced = self.attempt(|parser| {
            parser.some_space()?;
            parser.expression()
        });
        match spaced {
            Some(lambda @ Expr::Lambda(_)) => Some(lambda),
            Some(source) => {
                self.raise(self.height)?;
                Some(Expr::LambdaOf(Box::new(source)))
            }
            None => self.lambda_expression(),
        }
    }
}

fn is_none(path: &Reference) -> bool {
    path.tag.is_none()
        && !path.absolute
        && matches!(path.steps.as_slice(), [Step::Field(name)] if &**name == "none")
}
