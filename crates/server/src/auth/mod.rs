//! Who is calling.
//!
//! [`callers`] knows the declared keys and compares them without telling how near a guess was; [`gate`]
//! keeps web pages away from a gateway on this machine. Neither knows what a caller may do with a tool:
//! that is the engine's one rule for every surface.

mod callers;
mod gate;

pub use callers::{Callers, ExposureError, check_exposure};
pub(crate) use callers::{Identity, Unknown, is_loopback};
pub(crate) use gate::{Gate, Passage};
pub use gate::{GateError, Intruder};
