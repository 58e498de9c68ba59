//! Heap of all values that contain others, with the account of the steps and bytes that a script
//! uses.

use std::cell::Cell;
use std::rc::Rc;

use groundwork_budget::PARTS_PER_STEP;

use super::{Answer, Id, Table, Value, ViewKind};
use crate::fault::Fault;
use crate::syntax::Function;
use crate::{Limits, Used};

/// Deepest nesting of values. Recursion over a value is safe below this depth.
pub(crate) const MOST_LEVELS: usize = 600;

/// Bytes that a value takes besides its content: its place and its share of a collection's growth.
const OVERHEAD: usize = 48;

/// Bytes of text that `print` keeps.
const MOST_PRINTED: usize = 64 << 10;

/// Function with the variables of its surroundings.
#[derive(Debug)]
pub(crate) struct Closure {
    pub(crate) function: Rc<Function>,
    /// Defaults of the parameters.
    pub(crate) defaults: Vec<Option<Value>>,
    /// Cells of the variables of enclosing functions.
    pub(crate) free: Vec<Id>,
}

#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Value>,
    /// Number of loops that go over the list; it must not change meanwhile.
    pub(crate) loops: u32,
}

#[derive(Debug)]
pub(crate) struct Heap {
    limits: Limits,
    parts: Cell<u64>,
    bytes: Cell<u64>,
    tuples: Vec<Box<[Value]>>,
    lists: Vec<List>,
    tables: Vec<Table>,
    closures: Vec<Closure>,
    cells: Vec<Value>,
    /// Text that the script has printed.
    printed: String,
}

impl Heap {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            parts: Cell::new(0),
            bytes: Cell::new(0),
            tuples: Vec::new(),
            lists: Vec::new(),
            tables: Vec::new(),
            closures: Vec::new(),
            cells: Vec::new(),
            printed: String::new(),
        }
    }

    /// Counts parts of steps before they are made.
    pub(crate) fn spend(&self, parts: usize) -> Result<(), Fault> {
        count(&self.parts, parts, self.limits.steps.saturating_mul(PARTS_PER_STEP))
    }

    /// Counts steps before they are made.
    pub(crate) fn spend_steps(&self, steps: usize) -> Result<(), Fault> {
        self.spend(steps.saturating_mul(PARTS_PER_STEP as usize))
    }

    /// Counts bytes before they are taken, and a part of a step for each eight of them.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<(), Fault> {
        self.spend(bytes / 8)?;
        count(&self.bytes, bytes.saturating_add(OVERHEAD), self.limits.bytes)
    }

    /// Adds a line to the printed text, which is cut at a limit.
    pub(crate) fn print(&mut self, line: &str) {
        let room = MOST_PRINTED.saturating_sub(self.printed.len());
        if room > 0 {
            let end = line.floor_char_boundary(room);
            self.printed.push_str(line.get(..end).unwrap_or_default());
            self.printed.push('\n');
        }
    }

    /// Returns the printed text.
    pub(crate) fn take_printed(&mut self) -> String {
        std::mem::take(&mut self.printed)
    }

    pub(crate) fn used(&self) -> Used {
        Used { parts: self.parts.get(), bytes: self.bytes.get() }
    }

    pub(crate) fn too_deep() -> Fault {
        Fault::new(format!("values are nested more than {MOST_LEVELS} levels deep"))
    }

    pub(crate) fn text(&self, text: impl Into<Rc<str>> + AsRef<str>) -> Result<Value, Fault> {
        self.allocate(text.as_ref().len())?;
        Ok(Value::Text(text.into()))
    }

    pub(crate) fn bytes(&self, bytes: Vec<u8>) -> Result<Value, Fault> {
        self.allocate(bytes.len())?;
        Ok(Value::Bytes(bytes.into()))
    }

    /// Counts the bytes of a collection of values.
    pub(crate) fn allocate_items(&self, count: usize) -> Result<(), Fault> {
        self.allocate(count.saturating_mul(size_of::<Value>()))
    }

    pub(crate) fn new_tuple(&mut self, items: Vec<Value>) -> Result<Value, Fault> {
        self.allocate_items(items.len())?;
        self.tuples.push(items.into());
        Ok(Value::Tuple(self.tuples.len() - 1))
    }

    pub(crate) fn new_list(&mut self, items: Vec<Value>) -> Result<Value, Fault> {
        self.allocate_items(items.len())?;
        self.lists.push(List { items, loops: 0 });
        Ok(Value::List(self.lists.len() - 1))
    }

    fn new_table(&mut self) -> Result<Id, Fault> {
        self.allocate(size_of::<Table>())?;
        self.tables.push(Table::default());
        Ok(self.tables.len() - 1)
    }

    /// Creates an empty dict, and returns its place.
    pub(crate) fn new_dict(&mut self) -> Result<Id, Fault> {
        self.new_table()
    }

    /// Creates a list of strings.
    pub(crate) fn texts<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>) -> Answer {
        let items: Result<Vec<Value>, Fault> = texts.into_iter().map(|text| self.text(text)).collect();
        self.new_list(items?)
    }

    /// Creates an empty set, and returns its place.
    pub(crate) fn new_set(&mut self) -> Result<Id, Fault> {
        self.new_table()
    }

    /// Creates a set of these values.
    pub(crate) fn set_of(&mut self, items: Vec<Value>) -> Result<Value, Fault> {
        let id = self.new_set()?;
        for item in items {
            self.insert(id, &item, Value::None)?;
        }
        Ok(Value::Set(id))
    }

    pub(crate) fn new_closure(&mut self, closure: Closure) -> Result<Value, Fault> {
        self.allocate_items(closure.defaults.len() + closure.free.len())?;
        self.closures.push(closure);
        Ok(Value::Function(self.closures.len() - 1))
    }

    pub(crate) fn new_cell(&mut self, value: Value) -> Result<Id, Fault> {
        self.allocate_items(1)?;
        self.cells.push(value);
        Ok(self.cells.len() - 1)
    }

    pub(crate) fn tuple(&self, id: Id) -> &[Value] {
        &self.tuples[id]
    }

    pub(crate) fn list(&self, id: Id) -> &[Value] {
        &self.lists[id].items
    }

    /// Returns a list for a change that messages call `verb`.
    pub(crate) fn list_mut(&mut self, id: Id, verb: &str) -> Result<&mut Vec<Value>, Fault> {
        let list = &mut self.lists[id];
        if list.loops > 0 {
            return Err(Fault::new(format!("cannot {verb} list during iteration")));
        }
        Ok(&mut list.items)
    }

    pub(crate) fn table(&self, id: Id) -> &Table {
        &self.tables[id]
    }

    /// Returns a dict or set for a change that messages call `verb`.
    pub(crate) fn table_mut(&mut self, id: Id, verb: &str) -> Result<&mut Table, Fault> {
        let table = &mut self.tables[id];
        if table.loops > 0 {
            return Err(Fault::new(format!("cannot {verb} hash table during iteration")));
        }
        Ok(table)
    }

    /// Sets a key of a dict, or adds an element to a set. Reports whether the key is new.
    pub(crate) fn insert(&mut self, id: Id, name: &Value, value: Value) -> Result<bool, Fault> {
        let key = self.key(name)?;
        self.allocate(size_of::<(Value, Value)>() + size_of::<super::Key>())?;
        Ok(self.table_mut(id, "insert into")?.insert(key, name.clone(), value))
    }

    /// Returns the value of a string key of a dict.
    pub(crate) fn field(&self, value: &Value, name: &str) -> Option<&Value> {
        match value {
            Value::Dict(id) => self.table(*id).get(&super::Key::Text(name.into())),
            _ => None,
        }
    }

    pub(crate) fn closure(&self, id: Id) -> &Closure {
        &self.closures[id]
    }

    pub(crate) fn cell(&self, id: Id) -> &Value {
        &self.cells[id]
    }

    pub(crate) fn set_cell(&mut self, id: Id, value: Value) {
        self.cells[id] = value;
    }

    /// Counts a loop that begins to go over a value, or one that ends.
    pub(crate) fn count_loop(&mut self, value: &Value, is_start: bool) {
        let loops = match value {
            Value::List(id) => &mut self.lists[*id].loops,
            Value::Dict(id) | Value::Set(id) => &mut self.tables[*id].loops,
            _ => return,
        };
        *loops = if is_start { loops.saturating_add(1) } else { loops.saturating_sub(1) };
    }

    /// Returns the number of elements of a value.
    pub(crate) fn len(&self, value: &Value) -> Option<usize> {
        Some(match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Tuple(id) => self.tuple(*id).len(),
            Value::List(id) => self.list(*id).len(),
            Value::Dict(id) | Value::Set(id) => self.table(*id).len(),
            Value::Range(range) => range.len(),
            Value::View(view) if matches!(view.kind, ViewKind::Elems | ViewKind::ElemOrds) => {
                return self.len(&view.of);
            }
            _ => return None,
        })
    }

    pub(crate) fn is_true(&self, value: &Value) -> bool {
        match value {
            Value::None => false,
            Value::Bool(truth) => *truth,
            Value::Int(value) => !value.is_zero(),
            Value::Float(value) => *value != 0.0,
            Value::Duration(duration) => *duration != 0,
            Value::Time(time) => !time.is_zero(),
            _ => self.len(value).is_none_or(|length| length > 0),
        }
    }

    /// Adds the entries of a dict or set to another one.
    pub(crate) fn update(&mut self, id: Id, other: Id) -> Result<(), Fault> {
        self.allocate_items(self.table(other).len().saturating_mul(2))?;
        let entries: Vec<(Value, Value)> =
            self.table(other).iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        for (name, value) in entries {
            self.insert(id, &name, value)?;
        }
        Ok(())
    }

    /// Adds the elements of `from` that are, or are not, in another set.
    pub(crate) fn add_those(&mut self, result: Id, from: Id, other: Id, are_in: bool) -> Result<(), Fault> {
        for name in self.iterate(&Value::Set(from))? {
            let key = self.key(&name)?;
            if self.table(other).contains(&key) == are_in {
                self.insert(result, &name, Value::None)?;
            }
        }
        Ok(())
    }

    /// Returns the elements of a value, or the message that it has none.
    pub(crate) fn iterate(&self, value: &Value) -> Result<Vec<Value>, Fault> {
        let found = self.elements(value)?;
        found.ok_or_else(|| Fault::new(format!("got {}, want iterable", value.kind())))
    }

    /// Returns the elements of a value in order, if scripts may loop over it.
    pub(crate) fn elements(&self, value: &Value) -> Result<Option<Vec<Value>>, Fault> {
        if let Some(length) = self.len(value) {
            self.allocate_items(length)?;
        }
        Ok(Some(match value {
            Value::Tuple(id) => self.tuple(*id).to_vec(),
            Value::List(id) => self.list(*id).to_vec(),
            Value::Dict(id) | Value::Set(id) => self.table(*id).keys().cloned().collect(),
            Value::Range(range) => (0..range.len()).map(|at| range.get(at)).collect(),
            Value::View(view) => {
                let length = self.len(&view.of).unwrap_or_default();
                self.allocate_items(length.saturating_mul(2))?;
                view.elements()
            }
            _ => return Ok(None),
        }))
    }
}

impl super::View {
    fn elements(&self) -> Vec<Value> {
        match (&self.of, self.kind) {
            (Value::Bytes(bytes), _) => bytes.iter().map(|byte| Value::int(i64::from(*byte))).collect(),
            (Value::Text(text), ViewKind::Elems) => text.bytes().map(piece).collect(),
            (Value::Text(text), ViewKind::ElemOrds) => {
                text.bytes().map(|byte| Value::int(i64::from(byte))).collect()
            }
            (Value::Text(text), ViewKind::Codepoints) => {
                text.chars().map(|found| Value::text(found.encode_utf8(&mut [0; 4]))).collect()
            }
            (Value::Text(text), ViewKind::CodepointOrds) => {
                text.chars().map(|found| Value::int(i64::from(u32::from(found)))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns a byte of a string as a string. A part of a character becomes U+FFFD.
pub(super) fn piece(byte: u8) -> Value {
    Value::text(std::str::from_utf8(&[byte]).unwrap_or("\u{fffd}"))
}

fn count(used: &Cell<u64>, more: usize, most: u64) -> Result<(), Fault> {
    used.set(used.get().saturating_add(u64::try_from(more).unwrap_or(u64::MAX)));
    if used.get() > most { Err(Fault::limit()) } else { Ok(()) }
}
