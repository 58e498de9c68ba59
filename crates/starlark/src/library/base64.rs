//! `encoding/base64.star`.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, Encoding};

use crate::fault::Fault;
use crate::values::{Answer, Given, Heap, Member, Module, Native, Run, Value, mismatch};

pub(super) static MODULE: Module = Module {
    name: "base64",
    members: &[
        ("decode", Member::Function(&Native { name: "decode", run: Run::Plain(decode) })),
        ("encode", Member::Function(&Native { name: "encode", run: Run::Plain(encode) })),
    ],
};

/// Returns the data and the encoding.
fn arguments(given: &Given) -> Result<(std::rc::Rc<str>, Encoding), Fault> {
    let [data, encoding] = given.bind(["data", "encoding"], 1)?;
    let text = |name: &str, value: Option<Value>| match value {
        Some(Value::Text(text)) => Ok(text),
        Some(other) => Err(mismatch(name, &other, "string")),
        None => Ok("".into()),
    };
    let (data, encoding) = (text("data", data)?, text("encoding", encoding)?);
    let found = match &*encoding {
        "" | "standard" => BASE64,
        "standard_raw" => BASE64_NOPAD,
        "url" => BASE64URL,
        "url_raw" => BASE64URL_NOPAD,
        other => return Err(Fault::new(format!("unsupported encoding format: {other}"))),
    };
    Ok((data, found))
}

fn encode(heap: &mut Heap, given: &Given) -> Answer {
    let (data, encoding) = arguments(given)?;
    heap.spend(data.len())?;
    heap.text(encoding.encode(data.as_bytes()))
}

fn decode(heap: &mut Heap, given: &Given) -> Answer {
    let (data, encoding) = arguments(given)?;
    heap.allocate(data.len())?;
    // Go skips ends of lines in the data.
    let data: String = data.chars().filter(|found| !matches!(found, '\n' | '\r')).collect();
    let bytes = encoding
        .decode(data.as_bytes())
        .map_err(|problem| Fault::new(format!("illegal base64 data at input byte {}", problem.position)))?;
    heap.text(String::from_utf8_lossy(&bytes))
}
