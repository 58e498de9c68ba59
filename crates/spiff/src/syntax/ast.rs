//! The syntax tree of a dynaml expression (`spiff.md` 6.1). It is immutable and shared.

use std::sync::Arc;

/// A name, shared between the tree, the expressions and the paths.
pub(crate) type Name = Arc<str>;

/// A node of the syntax tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    /// `~` and `nil`.
    Nil,
    /// `~~`.
    Undefined,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// `"text"`, `$name`, and addresses such as `10.0.0.1`.
    String(Arc<str>),
    /// `auto`: the size of a resource pool.
    Auto,
    Reference(Reference),
    /// The expression `merge`, not the function `merge(…)`.
    Merge(Merge),
    /// `!A`.
    Not(Box<Expr>),
    /// `*A`: an instance of a template.
    Substitute(Box<Expr>),
    /// `( A )`.
    Group(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// `C ? A : B`.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    List(Vec<Item>),
    /// `{ k = v, … }`.
    Map(Vec<(Expr, Expr)>),
    /// `[start..end]` standing alone. A missing end is an error of the evaluation, not of the
    /// parser.
    Range(Box<Range>),
    /// `( k = v, … ) body`.
    Scope(Vec<(Expr, Expr)>, Box<Expr>),
    Lambda(Arc<LambdaExpr>),
    /// `lambda EXPR`: a lambda value, or a string that contains one.
    LambdaOf(Box<Expr>),
    /// An operand with the links that follow it without a blank: calls, steps, projections.
    Chain(Box<Expr>, Vec<Link>),
    Mapping(Box<Mapping>),
    /// `catch[…]`; the function `catch(…)` is a call.
    Catch {
        expression: Box<Expr>,
        handler: Box<Expr>,
    },
    Sync(Box<Sync>),
    /// `prefer A`, at the start only.
    Prefer(Box<Expr>),
    /// `&marker … ( A )`, at the start only.
    Marked(Box<Marked>),
    /// Replacement of a control map that can never run, with the form in which it is shown. The
    /// parser never returns it.
    Control(Name),
}

/// Binary operators. Their texts are used for printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// `-and`
    And,
    /// `-or`
    Or,
    /// Two expressions side by side.
    Concatenate,
    /// `||`
    Otherwise,
    /// `//`
    OtherwiseValid,
}

/// An argument or list entry; `expand` is the `...` behind it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) expression: Expr,
    pub(crate) expand: bool,
}

/// `[start..end]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Range {
    pub(crate) start: Option<Expr>,
    pub(crate) end: Option<Expr>,
}

/// A link behind an operand (`spiff.md` 6.1, `chained`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Link {
    /// `(args)`; with `curry` it is `*(args)`.
    Call { arguments: Arguments, curry: bool },
    /// `.a`, `.[0]` behind an operand that is not a reference. A reference contains its own steps.
    Step(Step),
    /// `.[EXPR]`, `.["a", 0]`.
    Dynamic(Vec<Item>),
    /// `.[*]`: all links behind it apply to each entry.
    All,
    /// `.[a..b]`: all links behind it apply to each entry of the part.
    Slice(Range),
}

/// Arguments of a call: named ones come first in the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Arguments {
    pub(crate) named: Vec<(Name, Expr)>,
    pub(crate) positional: Vec<Item>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Step {
    /// `name`, and `KEY:VALUE` as it was written.
    Field(Name),
    /// `[N]`, negative from the end.
    Index(i64),
}

/// `a.b.[0]`, `.a.b`, `tag::a.b`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    /// The tag as it was written, without `::`.
    pub(crate) tag: Option<Name>,
    /// True if a dot comes first; with a tag, if it was written `tag::.`.
    pub(crate) absolute: bool,
    /// Steps of the path; empty for `tag::.` alone.
    pub(crate) steps: Vec<Step>,
}

/// `merge …` (`spiff.md` 4.2).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Merge {
    pub(crate) option: MergeOption,
    pub(crate) path: Option<Reference>,
}

impl Merge {
    /// Returns the path at which stubs are read. The dot of a path from the root becomes a field
    /// without a name, which no stub has, as in spiff++.
    pub(crate) fn stub_path(&self) -> Option<Vec<Step>> {
        let path = self.path.as_ref()?;
        let dot = path.absolute.then(|| Step::Field(Name::from("")));
        Some(dot.into_iter().chain(path.steps.iter().cloned()).collect())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MergeOption {
    Plain,
    Replace,
    Required,
    On(Name),
    /// `merge none`: no stub changes this subtree.
    None,
}

/// `|a, b=2, rest...|->body`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LambdaExpr {
    pub(crate) parameters: Vec<Parameter>,
    /// True if the last parameter takes the rest of the arguments.
    pub(crate) variadic: bool,
    pub(crate) body: Expr,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) name: Name,
    pub(crate) default: Option<Expr>,
}

/// A mapping form (`spiff.md` 9). `lambda` is an [`Expr::Lambda`] if it was written in the
/// brackets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mapping {
    pub(crate) form: Form,
    pub(crate) source: Expr,
    /// Start value of `sum`.
    pub(crate) initial: Option<Expr>,
    pub(crate) lambda: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `map[…]`
    MapList,
    /// `map{…}`
    MapMap,
    /// `select[…]`
    SelectList,
    /// `select{…}`
    SelectMap,
    /// `filter[…]`
    FilterList,
    /// `filter{…}`
    FilterMap,
    /// `sum[…]`
    Sum,
}

/// `sync[…]` (`spiff.md` 8.5).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sync {
    pub(crate) expression: Expr,
    pub(crate) condition: Expr,
    /// Lambda, or with `value_shares_parameters` a body with the parameters of `condition`.
    pub(crate) value: Option<Expr>,
    pub(crate) value_shares_parameters: bool,
    pub(crate) timeout: Option<Expr>,
}

/// `&m1 &m2 ( A )` (`spiff.md` 10.1).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Marked {
    pub(crate) markers: Vec<Marker>,
    pub(crate) expression: Option<Expr>,
    /// Text in the parentheses, as it was written.
    pub(crate) text: Name,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Marker {
    Template,
    Temporary,
    Local,
    Inject,
    State,
    Default,
    Dynamic,
    /// `&tag:NAME`, and global with `&tag:*NAME`; the name as it was written.
    Tag {
        name: Name,
        global: bool,
    },
}
