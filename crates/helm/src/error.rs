//! Errors of loading and rendering a chart, in Helm's words where Helm has the same error
//! (`helm.md` 2 to 7 and 12).

/// The reason why files are not a chart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error("Chart.yaml file is missing")]
    NoDescription,
    #[error("cannot load {name}: {message}")]
    File { name: String, message: String },
    #[error("validation: {0}")]
    Invalid(String),
    #[error("error unpacking subchart {name} in {chart}: {error}")]
    Subchart { name: String, chart: String, error: Box<LoadError> },
    #[error("error unpacking subchart tar in {chart}: expected {name}, got {got}")]
    NotAnArchive { name: String, chart: String, got: String },
    #[error("{0}")]
    Archive(#[from] crate::archive::ArchiveError),
    #[error("{0}")]
    Ignore(#[from] crate::ignore::PatternError),
    /// A Chart.yaml, values.yaml or schema that is larger than its kind may be.
    #[error("{name} larger than {limit} bytes")]
    TooLarge { name: String, limit: usize },
    #[error("chart has more than {0} files")]
    TooManyFiles(usize),
    #[error("chart has more than {0} levels of subcharts")]
    TooDeep(usize),
    #[error("chart has more than {0} charts in it")]
    TooManyCharts(usize),
    #[error("the path {0:?} leads out of the chart")]
    PathOutside(String),
    /// A file of a directory that is larger than a file of a chart may be.
    #[error("chart file {name:?} is larger than the maximum file size {limit}")]
    LargeFile { name: String, limit: usize },
}

/// The reason why a chart gave no manifests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The values for a subchart are not a table.
    #[error("type mismatch on {name}: expected a table, got {got}")]
    TypeMismatch { name: String, got: &'static str },
    #[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{0}")]
    Schema(String),
    #[error("chart requires kubeVersion: {required} which is incompatible with Kubernetes {actual}")]
    KubeVersion { required: String, actual: String },
    /// A template cannot be parsed or failed. The text is Helm's.
    #[error("{0}")]
    Template(String),
    /// A limit of [`crate::Limits`] was reached.
    #[error("rendering stopped: {0}")]
    Stopped(String),
    #[error("YAML parse error on {file}: {message}")]
    Manifest { file: String, message: String },
    #[error("chart has more than {0} documents")]
    TooManyDocuments(usize),
    #[error("a document of {file} is larger than {limit} bytes")]
    LargeDocument { file: String, limit: usize },
}
