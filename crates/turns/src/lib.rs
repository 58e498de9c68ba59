//! Fair sharing of places between tenants: a tenant whose work waits does not block the others.
//!
//! ```text
//! Places   how many there are, who holds how many, who may have one more
//! Rota     what waits for a place, by tenant; tenants take turns
//! Turns    both together, for tasks: `take` waits for a place, the `Turn` holds it
//! Seats    places that last, such as open pages: who finds none is refused
//! ```
//!
//! A tenant is a name, mostly that of a namespace. No tenant gets more than its share, and a
//! quarter of all places is kept for tenants without a place.

mod places;
mod rota;
mod seats;
mod turns;

pub use places::Places;
pub use rota::Rota;
pub use seats::{Full, Holder, Seat, Seats, Shares};
pub use turns::{Turn, Turns};
