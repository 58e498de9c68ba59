//! Tree of a script. Its height is limited, so that code may walk it by recursion.

use std::cell::Cell;
use std::rc::Rc;

use crate::fault::Position;

use crate::int::Int;

/// Variable that a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Slot {
    /// Name that has not been resolved.
    #[default]
    Open,
    /// Variable of the function that runs.
    Local(usize),
    /// Variable of an enclosing function, by its number in the closure.
    Free(usize),
    /// Variable of the script.
    Global(usize),
    /// Name that is defined before the script begins, by its number.
    Known(usize),
}

#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) text: Rc<str>,
    pub(crate) at: Position,
    pub(crate) slot: Cell<Slot>,
}

impl Name {
    pub(super) fn new(text: Rc<str>, at: Position) -> Self {
        Self { text, at, slot: Cell::default() }
    }
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) at: Position,
    pub(crate) height: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Name(Name),
    Constant(Literal),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Both(Box<Expr>, Box<Expr>),
    Either(Box<Expr>, Box<Expr>),
    Choice {
        condition: Box<Expr>,
        yes: Box<Expr>,
        no: Box<Expr>,
    },
    Field(Box<Expr>, Rc<str>),
    Index(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Box<[Option<Expr>; 3]>),
    Call(Box<Expr>, Vec<Argument>),
    Lambda(Rc<Function>),
    /// Comprehension: its result, and its clauses from left to right.
    ListOf(Box<Expr>, Vec<Clause>),
    DictOf(Box<(Expr, Expr)>, Vec<Clause>),
}

#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    Int(Int),
    Float(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Plus,
    Minus,
    Invert,
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

impl Binary {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::FloorDivide => "//",
            Self::Modulo => "%",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "^",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
            Self::NotIn => "not in",
        }
    }
}

#[derive(Debug)]
pub(crate) enum Argument {
    Positional(Expr),
    Named(Rc<str>, Expr),
    /// `*values`.
    List(Expr),
    /// `**values`.
    Dict(Expr),
}

#[derive(Debug)]
pub(crate) enum Clause {
    For { target: Expr, over: Expr },
    If(Expr),
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: Name,
    pub(crate) default: Option<Expr>,
}

/// Function, or the script as a whole.
#[derive(Debug, Default)]
pub(crate) struct Function {
    /// Name; `lambda` for one without a name.
    pub(crate) name: Rc<str>,
    /// Positional parameters, then those that only names can set.
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) positional: usize,
    /// `*args`.
    pub(crate) rest: Option<Name>,
    /// `**kwargs`.
    pub(crate) named_rest: Option<Name>,
    pub(crate) body: Block,
    /// Names of the variables, by slot. The parameters come first.
    pub(crate) locals: Vec<Rc<str>>,
    /// Slots that inner functions refer to.
    pub(crate) shared: Vec<usize>,
    /// Origin of each variable of the closure in the enclosing function: a local or a free one.
    pub(crate) free: Vec<Slot>,
}

pub(crate) type Block = Vec<Statement>;

#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) at: Position,
    pub(crate) kind: StatementKind,
}

#[derive(Debug)]
pub(crate) enum StatementKind {
    Expr(Expr),
    /// Assignment, whose place is that of its sign.
    Assign {
        target: Expr,
        value: Expr,
    },
    Change {
        target: Expr,
        operation: Binary,
        value: Expr,
    },
    If {
        branches: Vec<(Expr, Block)>,
        otherwise: Block,
    },
    For {
        target: Expr,
        over: Expr,
        body: Block,
    },
    While {
        condition: Expr,
        body: Block,
    },
    Def {
        name: Name,
        function: Rc<Function>,
    },
    Load {
        module: Rc<str>,
        names: Vec<(Rc<str>, Name)>,
    },
    Return(Option<Expr>),
    Break,
    Continue,
    Pass,
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The statements outside of functions, with the variables of their comprehensions.
    pub(crate) main: Function,
    /// Names of the variables of the script, by slot.
    pub(crate) globals: Vec<Rc<str>>,
}
