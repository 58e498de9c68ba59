//! Where the bytes of a chart come from (`helm.md` 1).

use data_encoding::BASE64;
use groundwork_lifecycle::OperationError;

use super::configuration::{Archive, ChartSource};

/// What an archive may have at most, in bytes (`helm.md` 11).
const LARGEST: usize = 20 << 20;

/// The archive of the first source that is given, in the order of `helm.md` 1.
pub(super) async fn fetch(source: &ChartSource) -> Result<Vec<u8>, OperationError> {
    match source {
        ChartSource { archive: Some(Archive { raw: Some(raw), .. }), .. } if !raw.is_empty() => unpacked(raw),
        other => Err(broken(format!(
            "chart.{} is not supported by this version: put the chart into chart.archive.raw",
            first(other)
        ))),
    }
}

fn first(source: &ChartSource) -> &'static str {
    match source {
        ChartSource { archive: Some(_), .. } => "archive.remote",
        ChartSource { reference: Some(_), .. } => "ref",
        ChartSource { helm_chart_repo: Some(_), .. } => "helmChartRepo",
        ChartSource { from_resource: Some(_), .. } => "fromResource",
        _ => "resourceRef",
    }
}

fn unpacked(raw: &str) -> Result<Vec<u8>, OperationError> {
    // Four letters are three bytes.
    if raw.len() / 4 * 3 > LARGEST {
        return Err(broken(format!("chart archive larger than {LARGEST} bytes")));
    }
    let letters: Vec<u8> = raw.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64
        .decode(&letters)
        .map_err(|_| broken("unable to decode helm archive: chart.archive.raw is no base64".to_owned()))
}

/// A chart that can never be had.
pub(super) fn broken(message: String) -> OperationError {
    OperationError::new("TemplateChart", "GetHelmChart", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn archives_in_the_item() {
        let source = |raw: &str| ChartSource {
            archive: Some(Archive { raw: Some(raw.to_owned()), remote: None }),
            ..ChartSource::default()
        };
        assert_eq!(fetch(&source("YWJj\nZA==")).await, Ok(b"abcd".to_vec()));
        assert!(fetch(&source("%")).await.unwrap_err().message.contains("is no base64"));
        let large = "A".repeat(LARGEST / 3 * 4 + 8);
        assert!(fetch(&source(&large)).await.unwrap_err().message.contains("larger than"));
    }
}
