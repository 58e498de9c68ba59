//! What holds for all charts, tried with such as nobody would write (`helm.md` 16, items 1 to 5).

mod anything;
mod documents;
mod forms;
mod values;
