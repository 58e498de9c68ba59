//! Lists: shared and immutable, with the Go type of their elements.

use std::rc::Rc;

use groundwork_budget::held::{Held, OVERHEAD};

use super::{NamedType, Str, Value, release};

/// The Go element type of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `interface {}`: elements may be null and are reached as interface slots (section 1.2).
    Any,
    String,
    Int,
    /// `[]interface {}`, the chunks of sprig's `chunk`.
    List,
    /// `map[string]interface {}`.
    Map,
    /// Objects of a host; the name is that of the list.
    Object(&'static str),
}

impl Element {
    /// The Go name of a list with such elements.
    pub fn list_type_name(self) -> &'static str {
        match self {
            Element::Any => "[]interface {}",
            Element::String => "[]string",
            Element::Int => "[]int",
            Element::List => "[][]interface {}",
            Element::Map => "[]map[string]interface {}",
            Element::Object(list) => list,
        }
    }
}

/// What an element takes in its list.
pub(crate) const SLOT_BYTES: usize = size_of::<Value>();
/// What a list takes besides its elements.
const LIST_BYTES: usize = 3 * OVERHEAD + SLOT_BYTES;
/// What an object of a host takes, more or less.
const OBJECT_BYTES: usize = 128;

/// A Go slice.
#[derive(Clone, Debug)]
pub struct List {
    data: Rc<ListData>,
    named: Option<&'static NamedType>,
}

#[derive(Debug)]
struct ListData {
    element: Element,
    nil: bool,
    items: Vec<Value>,
    _held: Held,
}

impl List {
    /// A `[]interface {}`.
    pub fn new(items: Vec<Value>) -> List {
        List::typed(Element::Any, items)
    }

    /// A list with the given element type; the caller provides fitting items.
    pub fn typed(element: Element, items: Vec<Value>) -> List {
        let object = if matches!(items.first(), Some(Value::Object(_))) { OBJECT_BYTES } else { 0 };
        let held = Held::new(LIST_BYTES + (SLOT_BYTES + object) * items.len());
        List { data: Rc::new(ListData { element, nil: false, items, _held: held }), named: None }
    }

    /// A `[]string`.
    pub fn strings(items: impl IntoIterator<Item = Str>) -> List {
        List::typed(Element::String, items.into_iter().map(Value::Str).collect())
    }

    /// A typed nil: behaves as an empty list, but is null in JSON and equal to nil.
    pub fn nil(element: Element) -> List {
        List {
            data: Rc::new(ListData { element, nil: true, items: Vec::new(), _held: Held::new(OVERHEAD) }),
            named: None,
        }
    }

    /// The same list as a value of a named type.
    #[must_use]
    pub fn named(&self, named: &'static NamedType) -> List {
        List { data: Rc::clone(&self.data), named: Some(named) }
    }

    /// The name of its type, if it has one.
    pub fn named_type(&self) -> Option<&'static NamedType> {
        self.named
    }

    /// The Go type name.
    pub fn type_name(&self) -> &'static str {
        self.named.map_or_else(|| self.element().list_type_name(), |named| named.name)
    }

    pub fn element(&self) -> Element {
        self.data.element
    }

    pub fn is_nil(&self) -> bool {
        self.data.nil
    }

    pub fn items(&self) -> &[Value] {
        &self.data.items
    }

    pub fn len(&self) -> usize {
        self.data.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.data.items.is_empty()
    }

    pub(super) fn take_items(self, into: &mut Vec<Value>) {
        if let Some(mut data) = Rc::into_inner(self.data) {
            into.append(&mut data.items);
        }
    }
}

impl Drop for ListData {
    fn drop(&mut self) {
        if self.items.iter().any(Value::is_container) {
            release(std::mem::take(&mut self.items));
        }
    }
}
