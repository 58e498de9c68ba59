//! Places that tenants take in turns: whatever one of them waits for, the others go on.
//!
//! ```text
//! Places   how many there are, who holds how many, who may have one more
//! Rota     what waits for a place, by tenant; tenants take turns
//! Turns    both together, for tasks: `take` waits for a place, the `Turn` holds it
//! Seats    places that last, such as open pages: who finds none is refused
//! ```
//!
//! A tenant is a name: mostly a namespace. None holds more than its share, and a quarter of all places is kept for tenants that hold none.

mod places;
mod rota;
mod seats;
mod turns;

pub use places::Places;
pub use rota::Rota;
pub use seats::{Full, Holder, Seat, Seats, Shares};
pub use turns::{Turn, Turns};
