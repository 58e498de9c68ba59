//! Property tests for all charts, with inputs that users would not write (`helm.md` 16, items 1 to
//! 5).

mod anything;
mod documents;
mod forms;
mod values;
