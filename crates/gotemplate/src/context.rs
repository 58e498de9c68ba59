//! The running render, as functions and methods see it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use groundwork_budget::BYTES_PER_STEP;

use crate::budget::{Budget, LimitError};
use crate::cycles;
use crate::error::CallError;
use crate::functions::Functions;
use crate::grants::{Capability, DeniedError, Grants};
use crate::options::{Host, NumberMode, Options};
use crate::patterns::{Compiled, Patterns};
use crate::template::{NestedTemplates, Program};
use crate::value::json::{self, NoJson};
use crate::value::{DataNumber, Map, Str, Value};

/// State that a render shares with the renders nested in it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) budget: Budget,
    /// Nested template calls and renders.
    pub(crate) depth: usize,
    pub(crate) active: HashMap<String, usize>,
    /// Maps that received a container, and so may have become part of a cycle.
    grown: HashMap<usize, Map>,
    /// Compiled regular expressions, or the errors of those that do not compile.
    pub(crate) patterns: HashMap<Str, Compiled, foldhash::fast::RandomState>,
    /// Patterns compiled by earlier renders of the template.
    pub(crate) shared: Arc<Patterns>,
    /// Data, rights and limits that the program gave to this render.
    host: Option<Host>,
    /// Templates that the running templates parsed, as `tpl` does.
    pub(crate) nested: NestedTemplates,
}

impl Run {
    pub(crate) fn new(options: &Options, host: Option<Host>, shared: &Arc<Patterns>) -> Run {
        let given = host.as_ref().and_then(|host| host.limits.clone());
        let mut limits = given.unwrap_or_else(|| options.limits.clone());
        let shared_budget = host.as_ref().and_then(|host| host.budget.clone());
        if let Some(deadline) = host.as_ref().and_then(|host| host.deadline.clone()) {
            limits.deadline = Some(deadline);
        }
        Run {
            budget: Budget::new(limits, shared_budget),
            depth: 0,
            active: HashMap::new(),
            grown: HashMap::new(),
            patterns: HashMap::default(),
            shared: Arc::clone(shared),
            host,
            nested: NestedTemplates::default(),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        cycles::cut(std::mem::take(&mut self.grown).into_values());
    }
}

/// The running render, as functions and methods see it.
#[derive(Debug)]
pub struct Context<'r> {
    /// The set of templates that runs.
    pub(crate) program: &'r Arc<Program>,
    pub(crate) options: &'r Options,
    pub(crate) run: &'r mut Run,
}

impl Context<'_> {
    /// Returns the functions of the running template, for parsing another template with the same
    /// functions.
    pub fn functions(&self) -> &Arc<Functions> {
        &self.program.functions
    }

    /// Returns the options of the running template.
    pub fn options(&self) -> &Options {
        self.options
    }

    /// Returns the data that the program gave to this render for its functions, if it is of this
    /// type.
    pub fn host<T: Any>(&self) -> Option<&T> {
        self.run.host.as_ref()?.data.as_deref()?.downcast_ref()
    }

    /// Returns the sources (clock, randomness, environment, network) that functions of this render
    /// may use.
    pub(crate) fn grants(&self) -> &Grants {
        self.run.host.as_ref().map_or(&self.options.grants, |host| &host.grants)
    }

    /// Returns a float result as a value of the render's number mode.
    pub fn float(&self, f: f64) -> Value {
        match self.options.numbers {
            NumberMode::Data => Value::Number(DataNumber::Float(f)),
            NumberMode::Float64 | NumberMode::Int64 | NumberMode::Int => Value::Float(f),
        }
    }

    /// Returns the time of the host's clock.
    pub(crate) fn now(&self, function: &'static str) -> Result<SystemTime, CallError> {
        let clock = self.grants().clock.as_ref();
        Ok(clock.ok_or(DeniedError { function, capability: Capability::Clock })?())
    }

    /// Fills the buffer from the host's source of randomness.
    pub(crate) fn randomize(&mut self, function: &'static str, buffer: &mut [u8]) -> Result<(), CallError> {
        self.spend(1 + buffer.len() / BYTES_PER_STEP)?;
        let source = self.grants().randomness.as_ref();
        Ok(source.ok_or(DeniedError { function, capability: Capability::Randomness })?(buffer)?)
    }

    /// Accounts for steps: one for each element that a function reads or makes. The call itself has
    /// accounted for the bytes of its arguments.
    ///
    /// # Errors
    ///
    /// The steps of the render are used up.
    pub fn spend(&mut self, amount: usize) -> Result<(), CallError> {
        Ok(self.run.budget.spend(amount)?)
    }

    /// Accounts for entries of maps that a function reads or makes.
    pub(crate) fn spend_entries(&mut self, entries: usize) -> Result<(), CallError> {
        Ok(self.run.budget.spend_entries(entries)?)
    }

    /// Checks that the values may take this many more bytes. Call it before building a large value
    /// that is not a text.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), CallError> {
        Ok(self.run.budget.reserve(bytes)?)
    }

    /// Checks that a text of this size is allowed; call it before building one.
    pub fn check_text(&mut self, bytes: usize) -> Result<(), CallError> {
        Ok(self.run.budget.text(bytes)?)
    }

    /// Converts a value as [`Value::to_json`] does, within the budget. A list or map that is shared
    /// within the value appears in the tree as often as it is used, so that the tree may be many
    /// times larger than the value.
    pub fn to_json(&mut self, value: &Value) -> Result<Option<serde_json::Value>, CallError> {
        let mut bytes = 0;
        let budget = &self.run.budget;
        let limit = budget.limits().output_bytes;
        let converted = json::to_json(value, 0, &mut |more| {
            bytes += more;
            if bytes > limit { Err(LimitError::Text(limit)) } else { budget.reserve(bytes) }
        });
        self.run.budget.text(bytes.min(limit))?;
        match converted {
            Ok(json) => Ok(Some(json)),
            Err(NoJson::TooDeep) => Ok(None),
            Err(NoJson::Limit(limit)) => Err(limit.into()),
        }
    }

    /// Reads a JSON text as `mustFromJson` does.
    ///
    /// # Errors
    ///
    /// The error of Go's decoder about the text.
    pub fn from_json(&mut self, text: &[u8]) -> Result<Value, CallError> {
        crate::sprig::json_decode::decode(self, text)
    }

    /// Sets a key of a map in place. Use this rather than [`Map::insert`] on maps that the template
    /// can reach: if the map comes to contain itself, the cycle is cut at the end of the render, so
    /// that its memory is freed.
    pub fn insert(&mut self, map: &Map, key: Str, value: Value) {
        if value.is_container() {
            self.run.grown.entry(map.address()).or_insert_with(|| map.clone());
        }
        map.insert(key, value);
    }

    /// Returns how many renders that [`Context::render`] started under this key are running.
    pub fn active(&self, key: &str) -> usize {
        self.run.active.get(key).copied().unwrap_or(0)
    }

    pub(crate) fn budget(&mut self) -> &mut Budget {
        &mut self.run.budget
    }
}
