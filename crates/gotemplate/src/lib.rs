//! Go text/template with sprig: lexer, parser, compiled form, evaluator.
