//! Blueprints: parse, validate, check imports, run template executions.
