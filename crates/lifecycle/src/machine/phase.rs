//! Values of `status.phase` of Installations, Executions and DeployItems (`installations.md` 2.2 to 2.4).

/// How far a job has come on one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No job has begun on the object yet.
    None,
    Init,
    ObjectsCreated,
    Progressing,
    Completing,
    Succeeded,
    Failed,
    InitDelete,
    TriggerDelete,
    Deleting,
    DeleteFailed,
    /// A text that nobody writes. Waiting for a person beats guessing.
    Unknown,
}

/// A phase of the original; read as [`Phase::ObjectsCreated`], never written.
const CLEANUP_ORPHANED: &str = "CleanupOrphaned";

impl Phase {
    const WRITTEN: [Self; 10] = [
        Self::Init,
        Self::ObjectsCreated,
        Self::Progressing,
        Self::Completing,
        Self::Succeeded,
        Self::Failed,
        Self::InitDelete,
        Self::TriggerDelete,
        Self::Deleting,
        Self::DeleteFailed,
    ];

    /// The phase that a status shows; an empty text is that of an object without one.
    pub fn of(text: Option<&str>) -> Self {
        match text.unwrap_or_default() {
            "" => Self::None,
            CLEANUP_ORPHANED => Self::ObjectsCreated,
            text => Self::WRITTEN.into_iter().find(|phase| phase.as_str() == text).unwrap_or(Self::Unknown),
        }
    }

    /// As it is written into a status; empty where nothing is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None | Self::Unknown => "",
            Self::Init => "Init",
            Self::ObjectsCreated => "ObjectsCreated",
            Self::Progressing => "Progressing",
            Self::Completing => "Completing",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::InitDelete => "InitDelete",
            Self::TriggerDelete => "TriggerDelete",
            Self::Deleting => "Deleting",
            Self::DeleteFailed => "DeleteFailed",
        }
    }

    /// Whether it ends a job. The empty one, before the first job, counts as an end too.
    pub const fn is_final(self) -> bool {
        match self {
            Self::None | Self::Succeeded | Self::Failed | Self::DeleteFailed => true,
            Self::Init
            | Self::ObjectsCreated
            | Self::Progressing
            | Self::Completing
            | Self::InitDelete
            | Self::TriggerDelete
            | Self::Deleting
            | Self::Unknown => false,
        }
    }

    /// Whether the deletion of an object is under way, or has failed.
    pub const fn is_of_deletion(self) -> bool {
        match self {
            Self::InitDelete | Self::TriggerDelete | Self::Deleting | Self::DeleteFailed => true,
            Self::None
            | Self::Init
            | Self::ObjectsCreated
            | Self::Progressing
            | Self::Completing
            | Self::Succeeded
            | Self::Failed
            | Self::Unknown => false,
        }
    }
}

impl From<Phase> for String {
    fn from(phase: Phase) -> Self {
        phase.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I-12: ten phases are written; an eleventh of older versions is read.
    #[test]
    fn texts_and_back() {
        for phase in Phase::WRITTEN {
            assert_eq!(Phase::of(Some(phase.as_str())), phase);
        }
        assert_eq!(Phase::of(Some("CleanupOrphaned")), Phase::ObjectsCreated);
        assert_eq!((Phase::of(None), Phase::of(Some(""))), (Phase::None, Phase::None));
        assert_eq!(Phase::of(Some("Processing")), Phase::Unknown);
        assert!(Phase::None.is_final() && !Phase::Unknown.is_final());
    }
}
