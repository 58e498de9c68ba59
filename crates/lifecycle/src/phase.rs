//! Values of `status.phase` of Installations, Executions and DeployItems (`installations.md` 2.2 to
//! 2.4).

/// Progress of a job on one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The object never had a job.
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
    /// Unknown text, which no version writes. The machine waits for a user instead of guessing.
    Unknown,
}

/// Phase that only Landscaper writes; read as [`Phase::ObjectsCreated`].
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

    /// Parses the phase of a status. An empty text means that the object never had a job.
    pub fn of(text: Option<&str>) -> Self {
        match text.unwrap_or_default() {
            "" => Self::None,
            CLEANUP_ORPHANED => Self::ObjectsCreated,
            text => Self::WRITTEN.into_iter().find(|phase| phase.as_str() == text).unwrap_or(Self::Unknown),
        }
    }

    /// Returns the text for the status, empty for [`Phase::None`] and [`Phase::Unknown`].
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

    /// Reports whether the phase ends a job. The empty phase, before the first job, counts as an
    /// end too.
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

    /// Reports whether the object is being deleted, or its deletion has failed.
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

    /// Case I-12: ten phases are written, and an eleventh of older versions is read.
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
