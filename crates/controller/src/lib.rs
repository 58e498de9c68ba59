//! Events to work: keyed handlers, writes with preconditions, back-off.
