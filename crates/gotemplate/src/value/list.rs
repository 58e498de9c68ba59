//! Lists: shared and immutable, with the Go type of their elements.

use std::rc::Rc;

use groundwork_budget::live_bytes::{Held, OVERHEAD};

use super::{NamedType, Str, Value, release};

/// The Go element type of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `interface {}`: elements may be null, and a template gets them as interface slots
    /// (`gotemplate.md` 1.2).
    Any,
    String,
    Int,
    /// `[]interface {}`, the chunks of sprig's `chunk`.
    List,
    /// `map[string]interface {}`.
    Map,
    /// Objects of a host. The name is Go's name of the list type.
    Object(&'static str),
}

impl Element {
    /// Returns the Go name of a list with such elements.
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

/// Bytes of an element in its list.
pub(crate) const SLOT_BYTES: usize = size_of::<Value>();
/// Bytes of a list besides its elements.
const LIST_BYTES: usize = 3 * OVERHEAD + SLOT_BYTES;
/// Bytes of an object of the host, as an estimate.
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
    /// Creates a `[]interface {}`.
    pub fn new(items: Vec<Value>) -> List {
        List::typed(Element::Any, items)
    }

    /// Creates a list with the given element type. The caller provides items of that type.
    pub fn typed(element: Element, items: Vec<Value>) -> List {
        let object = if matches!(items.first(), Some(Value::Object(_))) { OBJECT_BYTES } else { 0 };
        let held = Held::new(LIST_BYTES + (SLOT_BYTES + object) * items.len());
        List { data: Rc::new(ListData { element, nil: false, items, _held: held }), named: None }
    }

    /// Creates a `[]string`.
    pub fn strings(items: impl IntoIterator<Item = Str>) -> List {
        List::typed(Element::String, items.into_iter().map(Value::Str).collect())
    }

    /// Creates a typed nil: it behaves as an empty list, but is null in JSON and equal to nil.
    pub fn nil(element: Element) -> List {
        List {
            data: Rc::new(ListData { element, nil: true, items: Vec::new(), _held: Held::new(OVERHEAD) }),
            named: None,
        }
    }

    /// Returns the same list as a value of a named type.
    #[must_use]
    pub fn named(&self, named: &'static NamedType) -> List {
        List { data: Rc::clone(&self.data), named: Some(named) }
    }

    /// Returns the named type, if the list has one.
    pub fn named_type(&self) -> Option<&'static NamedType> {
        self.named
    }

    /// Returns the Go type name.
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
