//! Reasons why the API server refuses an object, in the server's words as far as they quote no
//! value: fields and rules, the names of policies and webhooks, quotas.

use kube::core::Status;

/// Prefixes of a field's message that are followed by the value.
const QUOTES_A_VALUE: [&str; 4] =
    ["Invalid value: ", "Unsupported value: ", "Duplicate value: ", "Duplicate value"];
/// Rules that are safe to show although the value before them has no clear end, because these rules
/// quote no value.
const RULES: [&str; 12] = [
    "field is immutable",
    "field can not be ",
    "may not ",
    "must ",
    "cannot be ",
    "is immutable",
    "spec is immutable",
    "updates to ",
    "pod updates may not change fields other than",
    "should be ",
    "should match ",
    "a valid ",
];
/// Values that stand for a whole object. The rules of CRDs use them, and those rules are in the
/// words of the CRD's author.
const PLACEHOLDERS: [&str; 5] = ["object", "array", "string", "integer", "boolean"];

/// Returns field and rule of each cause, without the parts of the messages that quote values.
pub(crate) fn invalid(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut texts: Vec<String> = Vec::new();
    for cause in causes {
        let text = match rule(&cause.message) {
            Some(rule) => format!("{}: {rule}", cause.field),
            None => format!("{} ({})", cause.field, cause.reason),
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if !texts.is_empty() {
        return texts.join(", ");
    }
    let plain = undecodable(&status.message).or_else(|| undecoded_quantity(&status.message));
    plain.unwrap_or_else(|| format!("{} {}", status.code, status.reason).trim().to_owned())
}

/// Returns the rule in the message about a field, without the value.
fn rule(message: &str) -> Option<String> {
    let Some(prefix) = QUOTES_A_VALUE.iter().find(|prefix| message.starts_with(*prefix)) else {
        return plain_rule(message);
    };
    let rest = &message[prefix.len()..];
    let word = prefix.trim_end_matches([':', ' ']);
    let (value, rule) = match rest.strip_prefix('"') {
        Some(_) => {
            let end = end_of_quoted(rest)?;
            (rest.get(1..end)?, rest.get(end + 1..)?.strip_prefix(": ")?)
        }
        // The value is a number, or an object as Go or JSON prints it, so its end cannot be found
        // for certain.
        None => ("", known_rule(rest)?),
    };
    let is_of_a_definition = PLACEHOLDERS.contains(&value) && !rule.contains(" in body ");
    let rule = if is_of_a_definition { without_literals(rule) } else { bounded(rule) };
    Some(format!("{word}: {rule}"))
}

/// Returns the rule of a message that quotes no value of the field. Words of a CRD's author may
/// follow the rule.
fn plain_rule(message: &str) -> Option<String> {
    if message.starts_with("Not found") {
        return Some("Not found".to_owned());
    }
    let start = ["Required value", "Forbidden", "Too many", "Too long"]
        .into_iter()
        .find(|start| message.starts_with(start))?;
    let Some(words) = message[start.len()..].strip_prefix(": ") else { return Some(start.to_owned()) };
    let is_known = start.starts_with("Too ") || RULES.iter().any(|rule| words.starts_with(rule));
    let words = if is_known { bounded(words) } else { without_literals(words) };
    Some(format!("{start}: {words}"))
}

/// Returns the index of the quote that ends a text quoted by Go's rules.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(index),
            _ => {}
        }
    }
    None
}

fn known_rule(rest: &str) -> Option<&str> {
    let (_, tail) = rest.rsplit_once(": ")?;
    RULES.iter().any(|rule| tail.starts_with(rule)).then_some(tail)
}

/// Removes quoted texts and numbers from the words of a CRD's author, who may have included values.
fn without_literals(text: &str) -> String {
    let mut told = String::new();
    let mut quote = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => {
                quote = Some(character);
                told.push_str("[...]");
            }
            (None, digit) if digit.is_ascii_digit() => {
                if !told.ends_with("[...]") {
                    told.push_str("[...]");
                }
            }
            (None, plain) => told.push(plain),
        }
    }
    bounded(&told)
}

/// Reads a message such as `json: cannot unmarshal number into Go struct field
/// ObjectMeta.metadata.annotations of type string`.
fn undecodable(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("cannot unmarshal ")?;
    let (found, rest) = rest.split_once(" into Go ")?;
    let found = found.split(' ').next().unwrap_or_default();
    let (place, wanted) = rest.split_once(" of type ")?;
    let field = place.strip_prefix("struct field ").unwrap_or_default();
    let wanted = wanted.split([' ', ',', ';']).next().unwrap_or_default();
    let at = if field.is_empty() { "the object".to_owned() } else { format!("the field {field}") };
    let article = if found.starts_with(['a', 'o', 'i']) { "an" } else { "a" };
    Some(format!("{at} is {article} {found}, but must have the type {wanted}"))
}

fn undecoded_quantity(message: &str) -> Option<String> {
    message
        .contains("quantities must match the regular expression")
        .then(|| "a quantity is not valid; write one such as 500m, 1.5 or 2Gi".to_owned())
}

/// Returns the fields that the schema of a kind does not have, as server-side apply names them:
/// `.spec.x`.
pub(crate) fn undeclared(message: &str) -> Option<Vec<String>> {
    const WORDS: &str = ": field not declared in schema";
    let (_, told) = message.split_once("): ").filter(|_| message.contains(WORDS))?;
    let fields: Vec<String> = told
        .split('\n')
        .filter_map(|line| line.trim().strip_suffix(WORDS))
        .filter(|field| field.starts_with('.'))
        .map(str::to_owned)
        .collect();
    (!fields.is_empty()).then_some(fields)
}

/// Returns the fields of another type than the schema's, as server-side apply names them: `.data.a:
/// expected string`. The type that was found is left out, since the server's text for it contains
/// the value.
pub(crate) fn mistyped(message: &str) -> Option<String> {
    let (_, told) = message.split_once("failed to create typed patch object (")?;
    let (_, told) = told.split_once("): ")?;
    let fields = told.split('\n').filter_map(|line| {
        let (field, rest) = line.trim().split_once(": expected ")?;
        let (wanted, _) = rest.split_once(", got ")?;
        field.starts_with('.').then(|| format!("{}: expected {}", bounded(field), bounded(wanted)))
    });
    let fields: Vec<String> = fields.collect();
    (!fields.is_empty()).then(|| fields.join(", "))
}

/// Returns the policy, webhook or quota that refuses an object. Its own words are left out, because
/// they may quote values.
pub(crate) fn refuser(message: &str) -> Option<String> {
    for (words, end, what) in [
        ("ValidatingAdmissionPolicy '", '\'', "the ValidatingAdmissionPolicy"),
        ("MutatingAdmissionPolicy '", '\'', "the MutatingAdmissionPolicy"),
        ("admission webhook \"", '"', "the admission webhook"),
        ("exceeded quota: ", ',', "the ResourceQuota"),
        ("violates PodSecurity \"", '"', "the pod security level"),
    ] {
        if let Some((_, rest)) = message.split_once(words) {
            let name: String = rest.chars().take_while(|character| *character != end).take(253).collect();
            return Some(format!("{what} {name}"));
        }
    }
    None
}

/// Reads the `limited: pods=10, used: …` of a quota. Its amounts are not values of the object.
pub(crate) fn quota(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("exceeded quota: ")?;
    let (_, amounts) = rest.split_once(", ")?;
    Some(bounded(amounts))
}

/// Returns the name of a webhook that does not answer, with the end of the error chain, which
/// contains no value.
pub(crate) fn webhook_away(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("failed calling webhook \"")?;
    let (name, rest) = rest.split_once('"')?;
    let why = rest.rsplit(": ").next().unwrap_or_default().trim();
    Some(format!("the admission webhook {name} does not answer: {}", bounded(why)))
}

/// Shortens a server's text.
fn bounded(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut text = text.replace(['\n', '\r', '\t'], " ");
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(message: &str, causes: &serde_json::Value) -> Status {
        serde_json::from_value(serde_json::json!({
            "status": "Failure", "code": 422, "reason": "Invalid", "message": message, "details": {"causes": causes},
        }))
        .unwrap()
    }

    fn cause(reason: &str, message: &str) -> String {
        let causes = serde_json::json!([{"field": "spec.a", "reason": reason, "message": message}]);
        invalid(&status("", &causes))
    }

    #[test]
    fn rules_are_told_and_values_are_not() {
        for (reason, message, expected) in [
            (
                "FieldValueInvalid",
                "Invalid value: \"s: \\\"x\\\": 1\": field is immutable",
                "spec.a: Invalid value: field is immutable",
            ),
            (
                "FieldValueInvalid",
                "Invalid value: {\"matchLabels\":{\"a\":\"secret\"}}: field is immutable",
                "spec.a: Invalid value: field is immutable",
            ),
            (
                "FieldValueInvalid",
                "Invalid value: v1.PodSpec{Volumes: secret}: pod updates may not change fields other than `spec.x`",
                "spec.a: Invalid value: pod updates may not change fields other than `spec.x`",
            ),
            (
                "FieldValueInvalid",
                "Invalid value: 70000: must be between 1 and 65535, inclusive",
                "spec.a: Invalid value: must be between 1 and 65535, inclusive",
            ),
            ("FieldValueInvalid", "Invalid value: \"secret\"", "spec.a (FieldValueInvalid)"),
            ("FieldValueInvalid", "Invalid value: \"a: secret", "spec.a (FieldValueInvalid)"),
            ("FieldValueInvalid", "Invalid value: {\"a\": secret}: secret", "spec.a (FieldValueInvalid)"),
            (
                "FieldValueInvalid",
                "Invalid value: \"object\": size 7 of 'secret' is too much",
                "spec.a: Invalid value: size [...] of [...] is too much",
            ),
            (
                "FieldValueTypeInvalid",
                "Invalid value: \"string\": spec.a in body must be of type integer: \"string\"",
                "spec.a: Invalid value: spec.a in body must be of type integer: \"string\"",
            ),
            (
                "FieldValueNotSupported",
                "Unsupported value: \"secret\": supported values: \"Always\", \"Never\"",
                "spec.a: Unsupported value: supported values: \"Always\", \"Never\"",
            ),
            ("FieldValueRequired", "Required value", "spec.a: Required value"),
            ("FieldValueForbidden", "Forbidden: may not be set", "spec.a: Forbidden: may not be set"),
            (
                "FieldValueForbidden",
                "Forbidden: the size 7 of 'secret' is too much",
                "spec.a: Forbidden: the size [...] of [...] is too much",
            ),
            (
                "FieldValueTooLong",
                "Too long: may not be more than 63 bytes",
                "spec.a: Too long: may not be more than 63 bytes",
            ),
            ("FieldValueNotFound", "Not found: \"secret\"", "spec.a: Not found"),
            ("FieldValueDuplicate", "Duplicate value: \"secret\"", "spec.a (FieldValueDuplicate)"),
        ] {
            assert_eq!(cause(reason, message), expected, "{message}");
        }
    }

    #[test]
    fn what_cannot_be_decoded() {
        let none = serde_json::json!([]);
        for (message, expected) in [
            (
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number 5.5 into Go struct field \
                 ObjectMeta.metadata.annotations of type string",
                "the field ObjectMeta.metadata.annotations is a number, but must have the type string",
            ),
            (
                "json: cannot unmarshal array into Go value of type map[string]interface {}",
                "the object is an array, but must have the type map[string]interface",
            ),
            (
                "quantities must match the regular expression '^(secret)'",
                "a quantity is not valid; write one such as 500m, 1.5 or 2Gi",
            ),
            ("something secret", "422 Invalid"),
        ] {
            assert_eq!(invalid(&status(message, &none)), expected);
        }
    }

    #[test]
    fn fields_that_no_schema_has() {
        let one = "failed to create typed patch object (g1/d; apps/v1, Kind=Deployment): .spec.hostUserz: field not declared in schema";
        assert_eq!(undeclared(one).unwrap(), [".spec.hostUserz"]);
        let two = "failed to create typed patch object (a/b; v1, Kind=X): errors:\n  .spec.a: field not declared in schema\n  \
                   .spec.l[name=\"x\"].b: field not declared in schema";
        assert_eq!(undeclared(two).unwrap(), [".spec.a", ".spec.l[name=\"x\"].b"]);
        assert_eq!(undeclared("something else"), None);
        let number = "failed to create typed patch object (a/b; v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:5}";
        assert_eq!(
            (undeclared(number), mistyped(number).unwrap().as_str()),
            (None, ".data.a: expected string")
        );
        assert_eq!(mistyped("something else"), None);
    }

    #[test]
    fn who_refuses() {
        for (message, expected) in [
            (
                "x is forbidden: ValidatingAdmissionPolicy 'no-red' with binding 'b' denied request: secret",
                Some("the ValidatingAdmissionPolicy no-red"),
            ),
            (
                "admission webhook \"deny.example.org\" denied the request: secret",
                Some("the admission webhook deny.example.org"),
            ),
            (
                "pods \"a\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1",
                Some("the ResourceQuota small"),
            ),
            (
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": secret",
                Some("the pod security level restricted:latest"),
            ),
            ("secret", None),
        ] {
            assert_eq!(refuser(message).as_deref(), expected, "{message}");
        }
        assert_eq!(
            quota("is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1")
                .unwrap(),
            "requested: pods=1, used: pods=1, limited: pods=1"
        );
        let away = "Internal error occurred: failed calling webhook \"deny.example.org\": failed to call webhook: Post \
                    \"https://127.0.0.1:1/?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused";
        assert_eq!(
            webhook_away(away).unwrap(),
            "the admission webhook deny.example.org does not answer: connection refused"
        );
    }
}
